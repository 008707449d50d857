"""GPT-5.5 and earlier: the longest common prefix, cut to a fixed interval; writing is free."""

from __future__ import annotations

from datetime import datetime

from agentkit.caching.chain import Prefixes
from agentkit.caching.policy import InputSplit, OpenAiIntervalPolicy, Retention
from agentkit.caching.request import CacheRequest
from agentkit.caching.simulate.cache import Plan, known_minimum
from agentkit.caching.simulate.diagnose import find_miss
from agentkit.caching.simulate.served import Miss, MissReason, RefusalReason, Refused
from agentkit.caching.simulate.store import Store, Write


def plan_intervals(
    request: CacheRequest,
    policy: OpenAiIntervalPolicy,
    prefixes: Prefixes,
    store: Store,
    now: datetime,
    hidden_tokens: int,
) -> Plan | Refused:
    """Decide what a request reads and writes."""
    retention = _retention(request, policy)
    if isinstance(retention, Refused):
        return retention
    minimum = known_minimum(policy)
    now_s = now.timestamp()
    shared = [prefix for prefix in prefixes if store.is_readable(prefix.key, now_s)]
    common = shared[-1].n_tokens if shared else 0
    read = reported_tokens(common, policy, hidden_tokens, minimum)
    total = prefixes[-1].n_tokens if prefixes else 0
    writes: tuple[Write, ...] = ()
    if total >= minimum:
        writes = tuple(
            Write(key=prefix.key, ttl_s=retention.idle_s, max_age_s=retention.max_s)
            for prefix in prefixes
        )
    miss = find_miss(
        prefixes,
        # What lies between the last interval and the end of the match is no shortfall.
        hit_tokens=common,
        store=store,
        now_s=now_s,
        minimum=minimum,
    )
    if miss is None and not read:
        detail = f"the {common} common tokens, cut to the interval, are fewer than {minimum}"
        miss = Miss(reason=MissReason.TOO_SHORT, detail=detail, lost_tokens=0)
    return Plan(
        request=request,
        policy=policy,
        at=now,
        prefixes=prefixes,
        split=InputSplit(read=read, uncached=total - read),
        miss=miss,
        touched=tuple(prefix.key for prefix in shared),
        writes=writes,
    )


def reported_tokens(
    common: int, policy: OpenAiIntervalPolicy, hidden_tokens: int, minimum: int
) -> int:
    """Cut a common prefix: to the interval, without hidden tokens, to the reported multiple."""
    # Where the interval is not published, the reported multiple is the finest that can be seen.
    interval = policy.interval_tokens or policy.reported_multiple
    matched = (common + hidden_tokens) // interval * interval - hidden_tokens
    reported = matched // policy.reported_multiple * policy.reported_multiple
    return reported if reported >= minimum else 0


def _retention(request: CacheRequest, policy: OpenAiIntervalPolicy) -> Retention | Refused:
    if request.marked or request.openai.ttl is not None:
        return _unsupported(policy, "breakpoints and prompt_cache_options; leave them out")
    if request.openai.mode == "explicit" or request.prewarm:
        return _unsupported(policy, "explicit mode and prewarm; leave them out")
    if request.openai.retention is None:
        return policy.retentions[0]
    for retention in policy.retentions:
        if retention.name == request.openai.retention:
            return retention
    names = [retention.name for retention in policy.retentions]
    return _unsupported(policy, f"retention {request.openai.retention!r}; it has {names!r}")


def _unsupported(policy: OpenAiIntervalPolicy, what: str) -> Refused:
    return Refused(
        reason=RefusalReason.UNSUPPORTED, message=f"{policy.model!r} does not take {what}"
    )
