"""Forecasts as text for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from agentkit.cli.plan.load import Planned
from agentkit.cli.plan.rows import Forecast, MemberRow, SegmentRow, TurnRow
from agentkit.cli.plan.turns import Sizes

_SHOWN = (1, 10)
"""Turns that have a line of their own; the last has one too."""
_TURN_HEAD = (
    f"  {'turn':<8}{'input':>10}{'read':>10}{'written':>16}{'uncached':>10}{'output':>8}"
    f"{'cost':>12}{'no cache':>12}"
)


def to_text(planned: Planned, found: Sequence[Forecast], sizes: Sizes) -> str:
    """Return all forecasts as text."""
    root = planned.team.root
    n_tools = len(root.toolset)
    lines = [
        f"agent {root.name!r}, {n_tools} {'tool' if n_tools == 1 else 'tools'} in its team's "
        "toolset; estimated tokens, "
        f"USD, {sizes.turns} turns {sizes.gap_s:g} s apart",
        *(f"note: {note}" for note in planned.notes),
    ]
    for forecast in found:
        lines += ["", *_forecast_lines(forecast)]
    return "\n".join(lines)


def to_json(planned: Planned, found: Sequence[Forecast], sizes: Sizes) -> dict[str, Any]:
    """Return all forecasts as JSON. Costs are decimal text; null is unknown."""
    root = planned.team.root
    return {
        "agent": root.name,
        "tools": list(root.toolset.names),
        "missing_mcp_servers": list(planned.missing),
        "notes": list(planned.notes),
        "sizes": {
            "turns": sizes.turns,
            "prompt_tokens": sizes.prompt_tokens,
            "reply_tokens": sizes.reply_tokens,
            "result_tokens": sizes.result_tokens,
            "gap_s": sizes.gap_s,
        },
        "providers": [_forecast_json(forecast) for forecast in found],
    }


def _forecast_lines(forecast: Forecast) -> list[str]:
    if forecast.error is not None:
        return [forecast.label, f"  cannot be planned: {forecast.error}"]
    lines = [
        f"{forecast.label}   ({_facts(forecast)})",
        *_segment_lines(forecast.segments),
        _TURN_HEAD,
    ]
    last = forecast.turns[-1].turn
    lines += [_turn_line(row) for row in forecast.turns if row.turn in (*_SHOWN, last)]
    total, uncached = totals(forecast)
    lines.append(f"  {f'all {last}':<62}{_money(total):>12}{_money(uncached):>12}")
    lines += [f"  note: {note}" for note in forecast.notes]
    for member in forecast.below:
        lines += _member_lines(member)
    return lines


def _segment_lines(rows: Sequence[SegmentRow]) -> Iterator[str]:
    yield f"  {'segment':<22}{'tier':<11}{'tokens':>9}   mark"
    for row in rows:
        name = row.name if row.blocks == 1 else f"{row.name} ({row.blocks} blocks)"
        yield f"  {name:<22}{row.tier:<11}{row.tokens:>9,}   {_marks(row)}".rstrip()


def _marks(row: SegmentRow) -> str:
    shared = ""
    if row.shared_tokens:
        part = "" if row.shared_tokens == row.tokens else f" ({row.shared_tokens:,} of them)"
        shared = f"shared{part}"
    return ", ".join((*row.marks, shared) if shared else row.marks)


def _member_lines(member: MemberRow) -> Iterator[str]:
    """The subagent's first request, begun when its root has asked once."""
    total = member.first_turn.split.total
    yield ""
    yield (
        f"  subagent {'/'.join(member.path)}: {member.shared_tokens:,} of its first {total:,} "
        f"tokens are shared with {member.path[0]}"
    )
    yield from _segment_lines(member.segments)
    yield _TURN_HEAD
    yield _turn_line(member.first_turn)
    yield from (f"  note: {note}" for note in member.notes)


def totals(forecast: Forecast) -> tuple[Decimal | None, Decimal | None]:
    """Return the cost of all turns, and without any cache; None if a price is unknown."""
    return (
        _sum([row.cost for row in forecast.turns]),
        _sum([row.uncached_cost for row in forecast.turns]),
    )


def _facts(forecast: Forecast) -> str:
    minimum = None if forecast.policy is None else forecast.policy.minimum
    source = forecast.turns[0].price_source
    facts = [
        "no minimum known"
        if minimum is None
        else f"cached from {minimum.n_tokens:,} tokens on ({minimum.source})",
        "unknown price" if source is None else f"price: {source}",
    ]
    if forecast.cache_key is not None:
        facts.append(f"cache key {forecast.cache_key}")
    if forecast.siblings_ahead > 1:
        facts.append(f"siblings find the front after {forecast.siblings_ahead} requests")
    return "; ".join(facts)


def _turn_line(row: TurnRow) -> str:
    written = " + ".join(f"{n:,} {ttl.value}" for ttl, n in row.split.writes) or "0"
    return (
        f"  {row.turn:<8}{row.split.total:>10,}{row.split.read:>10,}{written:>16}"
        f"{row.split.uncached:>10,}{row.output_tokens:>8,}{_money(row.cost):>12}"
        f"{_money(row.uncached_cost):>12}"
    )


def _forecast_json(forecast: Forecast) -> dict[str, Any]:
    policy = forecast.policy
    total, uncached = totals(forecast)
    return {
        "model": forecast.label,
        "error": forecast.error,
        "minimum_tokens": None if policy is None else policy.minimum_tokens,
        "cache_key": forecast.cache_key,
        "siblings_ahead": forecast.siblings_ahead,
        "segments": [_segment_json(row) for row in forecast.segments],
        "turns": [_turn_json(row) for row in forecast.turns],
        "cost": _text(total),
        "uncached_cost": _text(uncached),
        "notes": list(forecast.notes),
        "subagents": [_member_json(member) for member in forecast.below],
    }


def _segment_json(row: SegmentRow) -> dict[str, Any]:
    return {
        "segment": row.name,
        "tier": row.tier,
        "blocks": row.blocks,
        "tokens": row.tokens,
        "marks": list(row.marks),
    }


def _member_json(member: MemberRow) -> dict[str, Any]:
    return {
        "agent": "/".join(member.path),
        "shared_tokens": member.shared_tokens,
        "segments": [
            {**_segment_json(row), "shared_tokens": row.shared_tokens} for row in member.segments
        ],
        "first_turn": _turn_json(member.first_turn),
        "notes": list(member.notes),
    }


def _turn_json(row: TurnRow) -> dict[str, Any]:
    return {
        "turn": row.turn,
        "input": row.split.total,
        "read": row.split.read,
        "written": {ttl.value: n for ttl, n in row.split.writes},
        "uncached": row.split.uncached,
        "output": row.output_tokens,
        "body_bytes": row.n_bytes,
        "cost": _text(row.cost),
        "uncached_cost": _text(row.uncached_cost),
        "price_source": row.price_source,
    }


def _sum(amounts: Sequence[Decimal | None]) -> Decimal | None:
    """A sum with an unknown part is unknown, and so is one of nothing."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Decimal(0)) if amounts and len(known) == len(amounts) else None


def _text(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:f}"


def _money(amount: Decimal | None) -> str:
    return "unknown" if amount is None else f"{amount:.6f}"
