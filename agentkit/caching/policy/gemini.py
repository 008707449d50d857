"""Gemini's cache rules: implicit, and explicit cached content.

Sources: google-genai 3.6.1, packages and notes of October 2026, the caching page.
"""

from __future__ import annotations

from datetime import date

from agentkit.caching.policy.gemini_prices import prices
from agentkit.caching.policy.money import row_for
from agentkit.caching.policy.names import Minimum, minimum_for, plain_name
from agentkit.caching.policy.rules import GeminiPolicy, Invalidation
from agentkit.caching.policy.source import docs, note, package
from agentkit.caching.policy.switches import GeminiBatchRead, GeminiMinimums, Switches
from agentkit.caching.policy.terms import (
    Change,
    Isolation,
    Platform,
    Provider,
    ReadableWhen,
    Section,
)


def gemini_policy(
    model: str,
    on: date,
    *,
    platform: Platform = Platform.DIRECT,
    switches: Switches | None = None,
) -> GeminiPolicy:
    """Return Gemini's rules for a model on a day. Unknown models have no minimum and price."""
    switches = switches or Switches()
    name = plain_name(model)
    minimums: tuple[Minimum, ...] = _MINIMUMS
    if switches.gemini_minimums is GeminiMinimums.OLDER_DOCS:
        minimums = _OLDER_MINIMUMS + minimums
    vertex = platform is Platform.GOOGLE_CLOUD
    rows = prices(half_batch_reads=switches.gemini_batch_read is GeminiBatchRead.HALF)
    return GeminiPolicy(
        provider=Provider.GEMINI,
        model=name,
        platform=platform,
        on=on,
        switches=switches,
        # Not documented. System instruction and tools are fields of their own ahead of contents.
        wire_order=(Section.TOOLS, Section.SYSTEM, Section.MESSAGES),
        isolation=Isolation.ORGANIZATION,  # not documented for the implicit cache; assumed
        readable=ReadableWhen.RESPONSE_BEGINS,  # not documented; assumed
        affinity=None,
        minimum=minimum_for(minimums, name, platform, on),
        prices=row_for(rows, name, on),
        invalidations=(Invalidation(change=Change.MODEL, lost_from=Section.TOOLS),),
        explicit=name not in _IMPLICIT_ONLY,
        explicit_default_ttl_s=3_600,  # docs 2026-10-01
        explicit_minimum_ttl_s=60 if vertex else 0,  # docs 2026-10-01
        implicit_max_age_s=86_400 if vertex else None,  # docs 2026-10-01
    )


# measured 2026-11-29 and packages: no cached-content objects, so no storage price
_IMPLICIT_ONLY = frozenset(["gemini-4-argon", "gemini-4-neon", "gemini-4-hydrogen"])

_MINIMUMS = (
    Minimum(
        models=(
            "gemini-3.1-pro-preview",
            "gemini-3.5-flash",
            "gemini-3.6-flash",
            "gemini-3.7-flash",
            "gemini-3.8-flash",
            "gemini-4-argon",
            "gemini-4-hydrogen",
        ),
        n_tokens=4096,
        source=package("2026-11-29"),
    ),
    Minimum(models=("gemini-2.5-pro",), n_tokens=2048, source=package("2026-11-29")),
    Minimum(models=("gemini-2.5-flash",), n_tokens=2048, source=note("2026-10-01")),
    # "Some implicit-only models"; which is not listed, so all three that we know.
    Minimum(
        models=tuple(sorted(_IMPLICIT_ONLY)),
        n_tokens=6144,
        platforms=(Platform.GOOGLE_CLOUD,),
        source=note("2026-10-01"),
    ),
)

_OLDER_MINIMUMS = (
    Minimum(
        models=("gemini-2.5-flash", "gemini-3-flash"), n_tokens=1024, source=docs("2026-01-01")
    ),
    Minimum(models=("gemini-2.5-pro", "gemini-3-pro"), n_tokens=4096, source=docs("2026-01-01")),
)
