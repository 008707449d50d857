"""Lays a run's requests out for a provider, plans each, and lets a simulated cache serve it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from agentkit.caching.difference import Sent
from agentkit.caching.plan.draft import Draft
from agentkit.caching.plan.keys import with_key
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.plan.planner import plan as place
from agentkit.caching.policy import (
    AnthropicPolicy,
    InputSplit,
    OpenAiMarkPolicy,
    Policy,
    Ttl,
    cost_of,
)
from agentkit.caching.request import Block, CacheRequest, Role
from agentkit.caching.simulate import ManualClock, Refused, SimulatedCache
from agentkit.caching.track.shadow import PolicyBook, shadow_of
from agentkit.cli.plan.load import Planned
from agentkit.cli.plan.providers import AnyHosted
from agentkit.cli.plan.rows import Forecast, SegmentRow, TurnRow
from agentkit.cli.plan.turns import Script, Sizes, script
from agentkit.errors import ConfigurationError, MissingExtra, ModelError
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.wire import Layout


def forecasts(
    planned: Planned,
    models: Mapping[str, AnyHosted],
    sizes: Sizes,
    *,
    now: datetime | None = None,
) -> list[Forecast]:
    """Return a forecast for each model. What a provider can never take is an error of its own."""
    run = script(planned.team.root, sizes)
    found = []
    for label, model in models.items():
        forecaster = _Forecaster(label, model, run, sizes, now or datetime.now(UTC))
        try:
            found.append(forecaster.forecast())
        except (ConfigurationError, ModelError, MissingExtra) as error:
            found.append(Forecast(label=label, policy=None, error=str(error)))
    return found


@dataclass(slots=True)
class _Forecaster:
    label: str
    model: AnyHosted
    run: Script
    sizes: Sizes
    now: datetime

    def forecast(self) -> Forecast:
        """Go through the run."""
        adapter, options = self.model.adapter, self.model.cache
        policies = PolicyBook(
            adapter.provider,
            adapter.model,
            platform=options.platform,
            switches=options.switches,
        )
        clock = ManualClock(self.now)
        policy = options.prices.applied(policies.on(clock().date()))
        shadow = shadow_of(policies, clock=clock)
        layouts = [adapter.layout(request) for request in self.run.requests]
        turns: list[TurnRow] = []
        plans: list[CachePlan] = []
        notes: dict[str, None] = dict.fromkeys(self.run.notes)
        for index, (layout, request) in enumerate(zip(layouts, self.run.requests, strict=True)):
            draft = with_key(self._draft(layout, request), policy, None, clock())
            plan = place(draft, policy, shadow.written(draft.request), clock())
            output = () if index + 1 == len(layouts) else _reply(layout, layouts[index + 1])
            if plan.cached_front is None:  # a request that uses an object leaves nothing behind
                self._serve(shadow, plan.applied(draft.request), output, index)
            plans.append(plan)
            turns.append(self._turn(index, layout, plan, request, policy, clock()))
            if index in (0, len(layouts) - 1):
                notes |= {f"turn {index + 1}: {note}": None for note in plan.notes}
            notes |= dict.fromkeys(_front_note(draft, plan, policy, clock()))
            clock.advance(self.sizes.gap_s)
        return Forecast(
            label=self.label,
            policy=policy,
            segments=_segments(layouts[0], self.run.requests[0], plans[0], policy),
            turns=tuple(turns),
            cache_key=plans[0].cache_key,
            siblings_ahead=plans[0].siblings_ahead,
            notes=tuple(notes),
        )

    def _serve(
        self, shadow: SimulatedCache, request: CacheRequest, output: tuple[Block, ...], index: int
    ) -> None:
        served = shadow.request(request, output_tokens=self.sizes.reply_tokens, output=output)
        if isinstance(served, Refused):
            raise ConfigurationError(f"{self.label} refuses turn {index + 1}: {served.message}")

    def _draft(self, layout: Layout, request: ModelRequest) -> Draft:
        return Draft(
            request=layout.cache_request,
            shared=layout.shared if self.model.cache.enabled else (),
            n_volatile=layout.n_volatile,
            gap_s=Decimal(str(self.sizes.gap_s)),
            session=request.session,
            tenant=request.tenant,
            mask=request.allowed_tools,
        )

    def _turn(
        self,
        index: int,
        layout: Layout,
        plan: CachePlan,
        request: ModelRequest,
        policy: Policy,
        at: datetime,
    ) -> TurnRow:
        split, terms = plan.predicted.split, layout.cache_request.terms
        price = self.model.cache.prices.price(
            policy, split.total, at, terms, model=self.model.adapter.model
        )
        cost = uncached = None
        if price is not None:
            output = self.sizes.reply_tokens
            cost = cost_of(split, price.rates, output_tokens=output).total
            plain = InputSplit(read=0, uncached=split.total)
            uncached = cost_of(plain, price.rates, output_tokens=output).total
        return TurnRow(
            turn=index + 1,
            split=split,
            output_tokens=self.sizes.reply_tokens,
            n_bytes=len(self.model.adapter.body(layout, plan, request).data),
            cost=cost,
            uncached_cost=uncached,
            price_source=None if price is None else price.source,
        )


def _reply(layout: Layout, following: Layout) -> tuple[Block, ...]:
    """Return the blocks of the reply to a request, as the next request replays them."""
    n_stable = len(layout.blocks) - layout.n_volatile
    found: list[Block] = []
    at = len(following.cache_request.tools) + len(following.cache_request.system)
    for message in following.cache_request.messages:
        if at >= n_stable:
            if message.role is not Role.ASSISTANT:
                break
            found += message.blocks
        at += len(message.blocks)
    return tuple(found)


def _front_note(draft: Draft, plan: CachePlan, policy: Policy, at: datetime) -> tuple[str, ...]:
    """Say what a cached-content object costs: no request is billed for it."""
    front = plan.cached_front
    if front is None or policy.prices is None:
        return ()
    n_tokens = sum(_tokens(draft.request)[: front.end])
    rates = policy.prices.rates_for(n_tokens, at, draft.request.terms)
    if rates is None or rates.storage_hour is None:
        return ()
    make = n_tokens * rates.input / 1_000_000
    keep = n_tokens * rates.storage_hour / 1_000_000
    return (
        f"a cached-content object of {n_tokens:,} tokens is made once for {make:.6f} USD, and kept "
        f"for {keep:.6f} USD an hour ({front.ttl_s} s at first); no turn below has it in its cost",
    )


def _tokens(request: CacheRequest) -> list[int]:
    return [block.n_tokens for block in request.blocks]


def _segments(
    layout: Layout, request: ModelRequest, plan: CachePlan, policy: Policy
) -> tuple[SegmentRow, ...]:
    sent = Sent.of(layout, request, policy)
    marks = {mark.index: _life(mark.ttl, policy) for mark in plan.marks}
    rows: list[SegmentRow] = []
    for index, wire in enumerate(layout.blocks):
        name, _ = sent.segment(index)
        mark = (marks[index],) if index in marks else ()
        if rows and rows[-1].name == name:
            last = rows.pop()
            rows.append(
                SegmentRow(
                    name=name,
                    tier=last.tier,
                    blocks=last.blocks + 1,
                    tokens=last.tokens + wire.block.n_tokens,
                    marks=last.marks + mark,
                )
            )
            continue
        tier = name
        if wire.segment is not None:
            tier = request.context.segments[wire.segment].tier.value
        rows.append(
            SegmentRow(name=name, tier=tier, blocks=1, tokens=wire.block.n_tokens, marks=mark)
        )
    return tuple(rows)


def _life(ttl: Ttl | None, policy: Policy) -> str:
    if ttl is None and isinstance(policy, AnthropicPolicy | OpenAiMarkPolicy):
        ttl = policy.default_ttl
    return "marked" if ttl is None else ttl.value
