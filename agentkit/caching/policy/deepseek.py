"""DeepSeek's cache rules. Source: its KV-cache guide; notes and packages of October 2026."""

from __future__ import annotations

from datetime import date, time
from decimal import Decimal as D

from agentkit.caching.policy.money import PeakHours, PriceRow, Rates, row_for
from agentkit.caching.policy.names import plain_name
from agentkit.caching.policy.rules import Affinity, DeepSeekPolicy, Invalidation
from agentkit.caching.policy.source import package
from agentkit.caching.policy.switches import DeepSeekUnit, Switches
from agentkit.caching.policy.terms import (
    Change,
    Isolation,
    Platform,
    Provider,
    ReadableWhen,
    Section,
)


def deepseek_policy(
    model: str,
    on: date,
    *,
    platform: Platform = Platform.DIRECT,
    switches: Switches | None = None,
) -> DeepSeekPolicy:
    """Return DeepSeek's rules for a model on a day. No minimum is published."""
    switches = switches or Switches()
    name = plain_name(model)
    old = switches.deepseek_unit is DeepSeekUnit.BLOCKS_OF_64
    return DeepSeekPolicy(
        provider=Provider.DEEPSEEK,
        model=name,
        platform=platform,
        on=on,
        switches=switches,
        # Not documented; its API is OpenAI's, and templates put tools in front.
        wire_order=(Section.TOOLS, Section.SYSTEM, Section.MESSAGES),
        isolation=Isolation.ORGANIZATION,
        readable=ReadableWhen.SECONDS_AFTER_END,  # docs 2026-10-01
        # note 2026-10-01: agents that should share must not differ in it
        affinity=Affinity(body_fields=("user_id",), separates=True),
        minimum=None,
        prices=row_for(_PRICES, name, on),
        invalidations=(Invalidation(change=Change.MODEL, lost_from=Section.TOOLS),),
        partition_field="user_id",
        block_tokens=64 if old else None,
    )


def _row(
    model: str, peak: tuple[str, str, str], off: tuple[str, str, str], valid_from: date | None
) -> PriceRow:
    return PriceRow(
        models=(model,),
        rates=_rates(*peak),
        source=package("2026-10-01"),
        valid_from=valid_from,
        peak=PeakHours(
            # package and note 2026-10-01: not on Chinese public holidays, see `holidays`
            windows_utc=((time(1), time(4)), (time(6), time(10))),
            weekdays=frozenset(range(5)),
            off_peak=_rates(*off),
        ),
    )


def _rates(input_: str, read: str, output: str) -> Rates:
    return Rates(input=D(input_), read=D(read), output=D(output))


_PRICES = (
    _row("deepseek-flash", ("0.30", "0.006", "1.2"), ("0.15", "0.003", "0.6"), date(2026, 9, 10)),
    _row("deepseek-v4-pro", ("1.32", "0.044", "3.96"), ("0.66", "0.022", "1.98"), None),
)
