"""What a team's requests read, write and cost at each provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from agentkit.caching.policy import GeminiPolicy, Policy
from agentkit.cli.plan.load import Planned
from agentkit.cli.plan.providers import AnyHosted
from agentkit.cli.plan.rows import Forecast, MemberRow, TurnRow
from agentkit.cli.plan.segments import segments_of, shared_blocks
from agentkit.cli.plan.simulated import Asked, SimulatedProvider
from agentkit.cli.plan.turns import Script, Sizes, script
from agentkit.errors import ConfigurationError, MissingExtra, ModelError
from agentkit.team.members import Member


def forecasts(
    planned: Planned,
    models: Mapping[str, AnyHosted],
    sizes: Sizes,
    *,
    now: datetime | None = None,
) -> list[Forecast]:
    """Return a forecast for each model. What a provider can never take is an error of its own."""
    root = planned.team.root
    run = script(root, sizes)
    first = replace(sizes, turns=1)
    below = [(path, script(member, first, path)) for path, member in _below(root, (root.name,))]
    found = []
    for label, model in models.items():
        forecaster = _Forecaster(label, model, run, below, sizes, now or datetime.now(UTC))
        try:
            found.append(forecaster.forecast())
        except (ConfigurationError, ModelError, MissingExtra) as error:
            found.append(Forecast(label=label, policy=None, error=str(error)))
    return found


def _below(member: Member, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Member]]:
    for name, child in member.children.items():
        yield (*path, child.name or name), child
        yield from _below(child, (*path, child.name or name))


@dataclass(slots=True)
class _Forecaster:
    label: str
    model: AnyHosted
    run: Script
    below: list[tuple[tuple[str, ...], Script]]
    sizes: Sizes
    now: datetime

    def forecast(self) -> Forecast:
        """Go through the agent's run, then through the first requests of its subagents."""
        provider = self._provider()
        layouts = [provider.layout(request) for request in self.run.requests]
        turns: list[TurnRow] = []
        done: list[Asked] = []
        notes: dict[str, None] = dict.fromkeys(self.run.notes)
        for index, (layout, request) in enumerate(zip(layouts, self.run.requests, strict=True)):
            following = layouts[index + 1] if index + 1 < len(layouts) else None
            asked = provider.ask(layout, request, turn=index + 1, following=following)
            done.append(asked)
            turns.append(asked.row)
            notes |= dict.fromkeys(_object_note(asked, provider))
            provider.wait()
        first = done[0].plan
        return Forecast(
            label=self.label,
            policy=provider.policy,
            segments=segments_of(layouts[0], self.run.requests[0], first, provider.policy),
            turns=tuple(turns),
            cache_key=first.cache_key,
            siblings_ahead=first.siblings_ahead,
            notes=(*notes, *_plan_notes(done), *_policy_notes(done, provider.policy)),
            below=tuple(self._member(path, script) for path, script in self.below),
        )

    def _member(self, path: tuple[str, ...], script: Script) -> MemberRow:
        """The first request of a subagent, where only the root has asked before."""
        provider = self._provider()
        (root, *_), (request, *_) = self.run.requests, script.requests
        above, layout = provider.layout(root), provider.layout(request)
        provider.ask(above, root)
        provider.wait()
        asked = provider.ask(layout, request)
        n_shared = shared_blocks(layout, above)
        return MemberRow(
            path=path,
            segments=segments_of(layout, request, asked.plan, provider.policy, n_shared=n_shared),
            first_turn=asked.row,
            notes=(*script.notes, *asked.plan.notes),
        )

    def _provider(self) -> SimulatedProvider:
        return SimulatedProvider(self.label, self.model, self.sizes, self.now)


def _plan_notes(done: list[Asked]) -> Iterator[str]:
    """What the plans of the first and the last turn say."""
    first, last = done[0].plan.notes, done[-1].plan.notes
    for note in first:
        yield note if note in last else f"turn 1: {note}"
    for note in last:
        if note not in first:
            yield f"turn {len(done)}: {note}"


def _policy_notes(done: list[Asked], policy: Policy) -> Iterator[str]:
    """What the reader must know of the provider."""
    implicit = any(each.row.split.read and each.plan.cached_front is None for each in done)
    if isinstance(policy, GeminiPolicy) and implicit:
        yield (
            "reads of the implicit cache are not promised: the provider says neither how long it "
            "keeps a prefix nor that it reads it; the cost may be up to that without a cache"
        )
    known = any("no price is known" in note for each in done for note in each.plan.notes)
    if done[0].row.price_source is None and not known:
        yield f"no price is known for {policy.model!r}; is it the name that the provider uses?"


def _object_note(asked: Asked, provider: SimulatedProvider) -> tuple[str, ...]:
    """Say what a cached-content object costs: no request is billed for it."""
    front, policy, request = asked.plan.cached_front, provider.policy, asked.draft.request
    if front is None or policy.prices is None:
        return ()
    n_tokens = sum(block.n_tokens for block in list(request.blocks)[: front.end])
    rates = policy.prices.rates_for(n_tokens, provider.now(), request.terms)
    if rates is None or rates.storage_hour is None:
        return ()
    make = n_tokens * rates.input / 1_000_000
    keep = n_tokens * rates.storage_hour / 1_000_000
    return (
        f"a cached-content object of {n_tokens:,} tokens is made once for {make:.6f} USD, and kept "
        f"for {keep:.6f} USD an hour ({front.ttl_s} s at first); no turn below has it in its cost",
    )
