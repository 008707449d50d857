"""OpenAI's cache: breakpoints from GPT-5.6 on, fixed intervals before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import assert_never

from agentkit.blocks import Json
from agentkit.caching.chain import Prefixes, boundaries
from agentkit.caching.policy import (
    OpenAiIntervalPolicy,
    OpenAiMarkPolicy,
    Platform,
    Switches,
    Ttl,
    openai_policy,
)
from agentkit.caching.request import CacheRequest
from agentkit.caching.simulate.cache import Plan, SimulatedCache
from agentkit.caching.simulate.clock import Clock
from agentkit.caching.simulate.openai_intervals import plan_intervals
from agentkit.caching.simulate.openai_marks import plan_marks
from agentkit.caching.simulate.routing import Router
from agentkit.caching.simulate.served import RefusalReason, Refused


class SimulatedOpenAi(SimulatedCache):
    """The prompt cache of OpenAI's Responses and Chat APIs; the model says which generation.

    Not documented and therefore chosen: entries become readable when the response begins; spans of
    mixed lifetimes are billed by Anthropic's formula.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        platform: Platform = Platform.DIRECT,
        switches: Switches | None = None,
        policy_of: Callable[[str, date], OpenAiMarkPolicy | OpenAiIntervalPolicy] | None = None,
        hidden_tokens: int = 0,
        spills: bool = True,
    ) -> None:
        """`hidden_tokens`: OpenAI's own system content, which intervals are counted from.

        `spills`: whether requests above the policy's rate go to other machines.
        """
        super().__init__(clock=clock)
        if hidden_tokens < 0:
            raise ValueError(f"hidden_tokens must be at least 0, got {hidden_tokens!r}")
        self._policy_of = policy_of or (
            lambda model, on: openai_policy(model, on, platform=platform, switches=switches)
        )
        self._hidden_tokens = hidden_tokens
        self._router = Router() if spills else None

    def _plan(self, request: CacheRequest, now: datetime) -> Plan | Refused:
        policy = self._policy_of(request.identity.model, now.date())
        if request.prewarm and request.openai.api == "chat":
            return Refused(
                reason=RefusalReason.UNSUPPORTED,
                message="prewarm exists on the Responses API only; use it, or send a real request",
            )
        prefixes, route = self._prefixes(request, policy, now)
        plan: Plan | Refused
        match policy:
            case OpenAiMarkPolicy():
                plan = plan_marks(request, policy, prefixes, self._store, now)
            case OpenAiIntervalPolicy():
                plan = plan_intervals(
                    request, policy, prefixes, self._store, now, self._hidden_tokens
                )
            case _:
                assert_never(policy)
        return plan if isinstance(plan, Refused) else replace(plan, route=route)

    def _located(self, request: CacheRequest, now: datetime) -> tuple[Sequence[int], Prefixes]:
        policy = self._policy_of(request.identity.model, now.date())
        prefixes, _ = self._prefixes(request, policy, now)
        return range(len(prefixes)), prefixes

    def _default_life_s(self, request: CacheRequest, now: datetime) -> float:
        policy = self._policy_of(request.identity.model, now.date())
        match policy:
            case OpenAiMarkPolicy():
                return policy.default_ttl.seconds
            case OpenAiIntervalPolicy():
                return policy.retentions[0].idle_s
            case _:
                assert_never(policy)

    def _prefixes(
        self,
        request: CacheRequest,
        policy: OpenAiMarkPolicy | OpenAiIntervalPolicy,
        now: datetime,
    ) -> tuple[Prefixes, bytes | None]:
        """Return the prefixes on the machine that serves the request, and its route."""
        scope = ["openai", request.tenant.organization, request.tenant.region]
        prefixes = boundaries(
            request, scope=scope, invalidations=policy.invalidations, memory=self._prefix_memory
        )
        affinity = policy.affinity
        if self._router is None or affinity is None or not prefixes:
            return prefixes, None
        if affinity.requests_per_minute is None:
            return prefixes, None
        # Keys hold the settings, among them prompt_cache_key.
        long_enough = (p.key for p in prefixes if p.n_tokens >= affinity.routing_tokens)
        route = next(long_enough, prefixes[-1].key)
        machine = self._router.peek(
            route, now_s=now.timestamp(), per_minute=affinity.requests_per_minute
        )
        if machine:  # 0 is the one that the prefix belongs to
            scope = [*scope, str(machine)]
            prefixes = boundaries(
                request, scope=scope, invalidations=policy.invalidations, memory=self._prefix_memory
            )
        return prefixes, route

    def _arrived(self, plan: Plan) -> None:
        affinity = plan.policy.affinity
        if self._router is None or plan.route is None or affinity is None:
            return
        if affinity.requests_per_minute is not None:
            self._router.machine(
                plan.route, now_s=plan.at.timestamp(), per_minute=affinity.requests_per_minute
            )

    def _usage(self, plan: Plan, output_tokens: int) -> Mapping[str, Json]:
        split = plan.split
        details: dict[str, Json] = {"cached_tokens": split.read}
        responses = plan.request.openai.api == "responses"
        if isinstance(plan.policy, OpenAiMarkPolicy):
            details["cache_write_tokens"] = split.written
            if responses:
                details["cache_write_tokens_details"] = {
                    "ttl_30m_tokens": split.wrote(Ttl.THIRTY_MINUTES),
                    "ttl_12h_tokens": split.wrote(Ttl.TWELVE_HOURS),
                }
        kind, reply = ("input", "output") if responses else ("prompt", "completion")
        return {
            f"{kind}_tokens": split.total,
            f"{kind}_tokens_details": details,
            f"{reply}_tokens": output_tokens,
            "total_tokens": split.total + output_tokens,
        }
