"""Model names as the price and limit tables write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from agentkit.caching.policy.source import Source
from agentkit.caching.policy.terms import Platform


@lru_cache(maxsize=1_024)
def plain_name(model: str) -> str:
    """Return a model's name without what platforms and snapshots put around it.

    `eu.anthropic.claude-opus-4-8-20260601-v1:0`, `claude-opus-4-8@20260601` and
    `claude-opus-4-8-latest` are all `claude-opus-4-8`; `ft:gpt-4o:org::id` is `gpt-4o`.
    """
    name = model.strip()
    if name.startswith("ft:"):
        name = name.split(":")[1]
    name = _PREFIX.sub("", name)
    return _SUFFIX.sub("", name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum:
    """The shortest prefix that is cached, for some models on some platforms, from a day on."""

    models: tuple[str, ...]
    n_tokens: int
    source: Source
    platforms: tuple[Platform, ...] = ()
    """Empty: on every platform for which no row of its own exists."""
    valid_from: date | None = None
    """None: the first day is not recorded, the row holds for any earlier day too."""


def minimum_for(
    rows: Iterable[Minimum], model: str, platform: Platform, on: date
) -> Minimum | None:
    """Return the row that holds; None if none does, never a guess.

    A row for the platform beats one for all platforms, then the later one wins.
    """
    valid = [
        row
        for row in rows
        if model in row.models
        and (not row.platforms or platform in row.platforms)
        and (row.valid_from is None or row.valid_from <= on)
    ]
    return max(
        valid, key=lambda row: (bool(row.platforms), row.valid_from or date.min), default=None
    )


_PREFIX = re.compile(r"^(?:(?:us|eu|apac|global)\.)?(?:anthropic\.|models/|[\w-]+/)?")
_SUFFIX = re.compile(
    r"(?:[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest|default))?(?:(?<=\d)-v\d+(?::\d+)?)?$"
)
