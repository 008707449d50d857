"""The tracker: plans each request with what is known of the cache, and learns from the answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from agentkit.caching.options import CacheOptions
from agentkit.caching.plan.draft import Draft
from agentkit.caching.plan.keys import KeyRates, with_key
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.plan.planner import plan as place
from agentkit.caching.policy import (
    AnthropicPolicy,
    CompatiblePolicy,
    DeepSeekPolicy,
    GeminiPolicy,
    OpenAiIntervalPolicy,
    OpenAiMarkPolicy,
    Policy,
    Provider,
    ReadableWhen,
)
from agentkit.caching.recent import Recent
from agentkit.caching.request import CacheRequest
from agentkit.caching.times import Time
from agentkit.caching.track.flights import Flight, Flights
from agentkit.caching.track.fronts import FrontRests
from agentkit.caching.track.gaps import Gaps
from agentkit.caching.track.scale import TokenScale
from agentkit.caching.track.shadow import PolicyBook, shadow_of
from agentkit.caching.track.ticket import RUNS_KEPT, Memory, Prepared, Ticket
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.wire import Layout
from agentkit.warn import LostMarkWarning, warn_user

_PATIENCE_S = 60.0
"""Longest wait for a sibling, in real seconds: one that hangs must not hold up the others."""


class CacheTracker:
    """What one model's cache at its provider ought to hold, and what comes of it.

    Runs a simulator of the cache beside the real one, corrects it by what the provider reports, and
    remembers the last request of each run. Usable from several event loops and threads; requests
    wait for siblings of their own loop only.
    """

    def __init__(
        self,
        *,
        provider: Provider,
        model: str,
        label: str,
        options: CacheOptions,
        time: Time,
    ) -> None:
        self._label = label
        self._options = options
        self._time = time
        self._policies = PolicyBook(
            provider,
            model,
            platform=options.platform,
            switches=options.switches,
            prices=options.prices,
        )
        self._memory = Memory(
            shadow=shadow_of(self._policies, clock=time.now),
            scale=TokenScale(),
            flights=Flights(),
            prices=options.prices,
            time=time,
        )
        self._rates = KeyRates()
        self._gaps: dict[str, Gaps] = {}
        self._fronts = FrontRests()
        self._runs: Recent[str, Ticket] = Recent(RUNS_KEPT)
        """By run: its last request."""
        self._contexts: Recent[str, Ticket] = Recent(RUNS_KEPT)
        """By tenant and digest of the context: the last answered request that had it."""

    @property
    def policy(self) -> Policy:
        """The rules of today, with the user's own prices."""
        return self._policies.on(self._time.now().date())

    async def enter(
        self, layout: Layout, request: ModelRequest, *, may_mark: bool = True
    ) -> Ticket:
        """Plan a request; wait first, while another writes the prefix that both have.

        `may_mark` is False for a server that has refused marks.
        """
        may_wait = self._options.wait_for_siblings
        while True:
            with self._memory.lock:
                before = self._before(request)
                prepared = self._prepare(layout, request, before, may_mark)
                leader = self._leader(prepared) if may_wait else None
                if leader is None:
                    return self._started(prepared, before)
            try:
                await asyncio.wait_for(leader.begun.wait(), _PATIENCE_S)
            except TimeoutError:
                self._memory.flights.begin(leader)
                may_wait = False
            # In an outage each would fail after the other; so all try at once.
            may_wait = may_wait and not leader.failed

    def last(self, request: ModelRequest) -> Ticket | None:
        """Return the ticket of a run's last answered request, for keeping its prefix alive."""
        ticket = self._runs.get(request.run_id)
        return ticket if ticket is not None and ticket.is_answered else None

    def _prepare(
        self, layout: Layout, request: ModelRequest, before: Ticket | None, may_mark: bool
    ) -> Prepared:
        now = self._time.now()
        policy = self._policies.on(now.date())
        sized = self._memory.scale.sized(
            layout.cache_request, None if before is None else before.counted
        )
        draft = self._draft(layout, request, sized.request, policy, may_mark)
        draft = with_key(draft, policy, self._rates, now)
        known = self._memory.shadow.known_of(draft.request, policy.invalidations)
        begins = before is None or before.run_id != request.run_id
        fronts = self._fronts.expected(draft.shared, known.keys, at=now, begins=begins)
        shared = self._memory.ends.expected(
            fronts, request.agent, at=now, life_s=_longest_life_s(policy)
        )
        draft = replace(draft, shared=shared)
        plan = place(draft, policy, known.written, now, rates=self._rates)
        return Prepared(
            layout=layout,
            request=request,
            sized=sized,
            draft=draft,
            known=known,
            policy=policy,
            plan=plan,
            at=now,
            overloaded=self._is_overloaded(plan, policy, now),
        )

    def _before(self, request: ModelRequest) -> Ticket | None:
        """Return the answered request that this one goes on from, of this run or an earlier one."""
        last = self._runs.get(request.run_id)
        if last is not None:
            return last.answered
        if not self._contexts:
            return None
        names = (_context_name(request, digest) for digest in reversed(request.context.chain))
        known = (self._contexts.get(name) for name in names)
        return next((ticket.answered for ticket in known if ticket is not None), None)

    def _draft(
        self,
        layout: Layout,
        request: ModelRequest,
        scaled: CacheRequest,
        policy: Policy,
        may_mark: bool,
    ) -> Draft:
        pace = self._gaps_of(request, policy).pace
        return Draft(
            request=scaled,
            shared=layout.shared if self._options.enabled and may_mark else (),
            n_volatile=layout.n_volatile,
            gap_s=pace.gap_s,
            slow_chance=pace.slow_chance,
            slow_gap_s=pace.slow_gap_s,
            implicit_share=self._memory.implicit.share,
            keep_alive=self._options.keep_alive_usd > 0,
            priority=self._options.priority,
            session=request.session or request.run_id,
            tenant=request.tenant,
            mask=request.allowed_tools,
        )

    def _gaps_of(self, request: ModelRequest, policy: Policy) -> Gaps:
        if request.agent not in self._gaps:
            self._gaps[request.agent] = Gaps(slow_from_s=_shortest_life_s(policy))
        return self._gaps[request.agent]

    def _leader(self, prepared: Prepared) -> Flight | None:
        """Return the request to wait for, if that is cheaper than to pay for the prefix twice."""
        policy = prepared.policy
        if policy.readable not in _SOON_READABLE:
            return None
        n_read = prepared.plan.predicted.hit
        loop = asyncio.get_running_loop()
        found = self._memory.flights.leader(prepared.known.keys, n_read, loop)
        if found is None:
            return None
        flight, end = found
        more = prepared.tokens(end) - prepared.tokens(n_read)
        return flight if more >= (policy.minimum_tokens or _WORTH_A_WAIT) else None

    def _is_overloaded(self, plan: CachePlan, policy: Policy, now: datetime) -> bool:
        """Whether more requests have this very key than one machine takes."""
        limit = None if policy.affinity is None else policy.affinity.requests_per_minute
        if limit is None or plan.key_base is None or plan.cache_key != plan.key_base:
            return False
        return self._rates.per_minute(plan.key_base, now) > limit

    def _started(self, prepared: Prepared, before: Ticket | None) -> Ticket:
        request = prepared.request
        goes_on = before is not None and before.run_id == request.run_id
        self._fronts.use(
            prepared.draft.shared, prepared.known.keys, at=prepared.at, begins=not goes_on
        )
        if before is not None and goes_on:
            gap_s = (prepared.at - before.at).total_seconds()
            self._gaps_of(request, prepared.policy).learn(gap_s)
        for lost in prepared.plan.lost_marks:
            warn_user(f"{self._label}: {lost}", LostMarkWarning)
        if prepared.plan.key_base is not None:
            self._rates.note(prepared.plan.key_base, prepared.at)
        if (old := self._runs.get(request.run_id)) is not None:
            # Only the last request of a run is worth its memory.
            self._contexts.pop(_context_name(old.request, old.request.context.digest), None)
        self._memory.ends.asks(
            request.agent,
            request.request_id,
            goes_on_from=None if before is None else before.request_id,
            at=prepared.at,
            life_s=_longest_life_s(prepared.policy),
        )
        ticket = Ticket(self._memory, prepared, before, cap_usd=self._options.keep_alive_usd)
        self._runs[request.run_id] = ticket
        self._contexts[_context_name(request, request.context.digest)] = ticket
        return ticket


def _context_name(request: ModelRequest, digest: str) -> str:
    return f"{digest} {request.tenant}"


_SOON_READABLE = (ReadableWhen.RESPONSE_BEGINS, ReadableWhen.RESPONSE_ENDS)
"""Where a sibling's entry can be read when its answer begins, or soon after."""
_WORTH_A_WAIT = 1_024
"""Tokens that must be spared where no minimum is known."""


def _shortest_life_s(policy: Policy) -> float:
    """Return how long an entry lives without use, if nothing is paid for a longer life."""
    match policy:
        case AnthropicPolicy() | OpenAiMarkPolicy():
            return float(min(choice.ttl.seconds for choice in policy.ttls))
        case OpenAiIntervalPolicy():
            return float(policy.retentions[0].idle_s)
        case GeminiPolicy() | DeepSeekPolicy():
            return _HOUR_S
        case CompatiblePolicy():
            return float(policy.idle_s or _HOUR_S)
        case _:
            assert_never(policy)


def _longest_life_s(policy: Policy) -> float:
    """Return how long an entry can live without use."""
    if isinstance(policy, AnthropicPolicy | OpenAiMarkPolicy):
        return float(max(choice.ttl.seconds for choice in policy.ttls))
    return _shortest_life_s(policy)


_HOUR_S = 3_600.0
"""Where no lifetime is published."""
