"""One provider with a simulated cache: lays requests out, plans each, and serves it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from agentkit.caching.plan.draft import Draft
from agentkit.caching.plan.keys import with_key
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.plan.planner import plan as place
from agentkit.caching.policy import InputSplit, Policy, cost_of
from agentkit.caching.simulate import ManualClock, Refused
from agentkit.caching.track.shadow import PolicyBook, shadow_of
from agentkit.cli.plan.providers import AnyHosted
from agentkit.cli.plan.rows import TurnRow
from agentkit.cli.plan.turns import Sizes
from agentkit.errors import ConfigurationError
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.replayed import reply_blocks
from agentkit.models.hosted.wire import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it would be sent."""

    draft: Draft
    plan: CachePlan
    row: TurnRow


class SimulatedProvider:
    """A provider whose cache is empty at first. Its clock stands until `wait` moves it."""

    def __init__(self, label: str, model: AnyHosted, sizes: Sizes, now: datetime) -> None:
        adapter, options = model.adapter, model.cache
        policies = PolicyBook(
            adapter.provider,
            adapter.model,
            platform=options.platform,
            switches=options.switches,
            prices=options.prices,
        )
        self._label, self._model, self._sizes = label, model, sizes
        self._clock = ManualClock(now)
        self._shadow = shadow_of(policies, clock=self._clock)
        self.policy: Policy = policies.on(now.date())

    def now(self) -> datetime:
        """Return the provider's time."""
        return self._clock()

    def wait(self) -> None:
        """Let the gap between two requests pass."""
        self._clock.advance(self._sizes.gap_s)

    def layout(self, request: ModelRequest) -> Layout:
        """Lay a request out.

        Raises:
            AgentkitError: the provider can never take it.
        """
        layout: Layout = self._model.adapter.layout(request)
        return layout

    def ask(
        self,
        layout: Layout,
        request: ModelRequest,
        *,
        turn: int = 1,
        following: Layout | None = None,
    ) -> Asked:
        """Plan a request and have it served.

        Args:
            layout: of the request.
            request: what is asked.
            turn: number of the request in its run, from 1.
            following: of the request that comes next, which replays the reply to this one.

        Raises:
            ConfigurationError: the provider refuses it.
        """
        draft = with_key(self._draft(layout, request), self.policy, None, self.now())
        plan = place(draft, self.policy, self._shadow.written(draft.request), self.now())
        if plan.cached_front is None:  # a request that uses an object leaves nothing behind
            served = self._shadow.request(
                plan.applied(draft.request),
                output_tokens=self._sizes.reply_tokens,
                output=() if following is None else reply_blocks(layout, following),
            )
            if isinstance(served, Refused):
                raise ConfigurationError(f"{self._label} refuses turn {turn}: {served.message}")
        return Asked(draft=draft, plan=plan, row=self._row(turn, layout, plan, request))

    def _draft(self, layout: Layout, request: ModelRequest) -> Draft:
        return Draft(
            request=layout.cache_request,
            shared=layout.shared if self._model.cache.enabled else (),
            n_volatile=layout.n_volatile,
            gap_s=Decimal(str(self._sizes.gap_s)),
            session=request.session,
            tenant=request.tenant,
            mask=request.allowed_tools,
        )

    def _row(self, turn: int, layout: Layout, plan: CachePlan, request: ModelRequest) -> TurnRow:
        split, terms = plan.predicted.split, layout.cache_request.terms
        output = self._sizes.reply_tokens
        price = self._model.cache.prices.price(
            self.policy, split.total, self.now(), terms, model=self._model.adapter.model
        )
        cost = uncached = None
        if price is not None:
            cost = cost_of(split, price.rates, output_tokens=output).total
            plain = InputSplit(read=0, uncached=split.total)
            uncached = cost_of(plain, price.rates, output_tokens=output).total
        return TurnRow(
            turn=turn,
            split=split,
            output_tokens=output,
            n_bytes=len(self._model.adapter.body(layout, plan, request).data),
            cost=cost,
            uncached_cost=uncached,
            price_source=None if price is None else price.source,
        )
