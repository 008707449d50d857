"""One request as a JSON object: inclusive totals beside their parts, amounts as text.

`input_tokens` is inclusive. Its parts are there too, and add up to it: `cache_read_tokens`,
`cache_write_tokens` (its longer-lived part included) and `uncached_tokens`. Whoever sums parts and
total together counts twice; whoever takes either is right.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from agentkit.caching.verdict import Difference, Shortfall, Verdict

if TYPE_CHECKING:
    from agentkit.blocks import Json
    from agentkit.caching.policy import Cost, InputSplit
    from agentkit.caching.report import RequestRecord


def record_to_json(record: RequestRecord) -> dict[str, Json]:
    """Return a JSON object; what is unknown is null."""
    usage = record.usage
    return {
        "path": list(record.path),
        "model": record.model,
        "run_id": record.run_id,
        "session": record.session,
        "tenant": record.tenant,
        "epoch": record.epoch,
        "input_tokens": usage.input_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cache_write_long_tokens": usage.cache_write_long_tokens,
        "uncached_tokens": _rest(record),
        "output_tokens": usage.output_tokens,
        "ttft_s": record.timing.ttft_s,
        "total_s": record.timing.total_s,
        "verdict": None if record.verdict is None else verdict_to_json(record.verdict),
    }


def verdict_to_json(verdict: Verdict) -> dict[str, Json]:
    """Return a JSON object; what is unknown is null."""
    return {
        "at": verdict.at.isoformat(),
        "predicted": _split(verdict.predicted.split),
        "actual": None if verdict.actual is None else _split(verdict.actual),
        "cost_usd": None if verdict.cost is None else _cost(verdict.cost),
        "uncached_usd": _usd(verdict.uncached_cost),
        "planned_usd": _usd(verdict.planned_cost),
        "price_source": verdict.price_source,
        "shortfall": None if verdict.shortfall is None else _shortfall(verdict.shortfall),
    }


def _rest(record: RequestRecord) -> int | None:
    """Return the tokens that were neither read nor written; None if that cannot be said."""
    usage, verdict = record.usage, record.verdict
    total, read, written = usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens
    if total is None or read is None:
        return None
    if written is None:  # the verdict knows whether that means none
        return None if verdict is None or verdict.actual is None else verdict.actual.uncached
    rest = total - read - written
    return rest if rest >= 0 else None


def _split(split: InputSplit) -> dict[str, Json]:
    return {
        "read": split.read,
        "writes": {ttl.value: n_tokens for ttl, n_tokens in split.writes},
        "uncached": split.uncached,
    }


def _cost(cost: Cost) -> dict[str, Json]:
    return {
        "total": _usd(cost.total),
        "read": _usd(cost.read),
        "write": _usd(cost.write),
        "write_premium": _usd(cost.write_premium),
        "uncached": _usd(cost.uncached),
        "output": _usd(cost.output),
    }


def _shortfall(shortfall: Shortfall) -> dict[str, Json]:
    return {
        "cause": shortfall.cause.value,
        "detail": shortfall.detail,
        "lost_tokens": shortfall.lost_tokens,
        "lost_usd": _usd(shortfall.lost_usd),
        "vendor": shortfall.vendor,
        "difference": None if shortfall.difference is None else _place(shortfall.difference),
    }


def _place(difference: Difference) -> dict[str, Json]:
    return {
        "section": difference.section,
        "block": difference.block,
        "segment": difference.segment,
        "byte": difference.byte,
        "before": difference.before,
        "after": difference.after,
        "source": difference.source,
    }


def _usd(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:f}"
