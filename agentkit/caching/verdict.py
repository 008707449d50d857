"""What one request cost, against what was planned, and why it was not less."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from agentkit.caching.plan.plan import Prediction
from agentkit.caching.policy import Cost, InputSplit


class Cause(enum.StrEnum):
    """Why less was read than could have been, or why reading more would not have helped."""

    TOO_SHORT = "too_short"
    """The prefix is below the provider's minimum."""
    IDENTITY_CHANGED = "identity_changed"
    """A setting that entries are keyed by; `detail` names the field."""
    SEGMENT_CHANGED = "segment_changed"
    """Bytes of the prefix are other than last time; `difference` has the place."""
    EXPIRED = "expired"
    """The entry was older than its lifetime: our own gap was too long."""
    EVICTED = "evicted"
    """The entry should have lived; the provider dropped it, or sent the request elsewhere."""
    ROUTED_ELSEWHERE = "routed_elsewhere"
    """The rate of a key passed its ceiling, or the provider says that another machine served it."""
    NOT_YET_READABLE = "not_yet_readable"
    """A neighbour was still writing the prefix."""
    COMPACTED = "compacted"
    """The context was begun anew on purpose."""
    OUTPUT_DOMINATES = "output_dominates"
    """The cache was fine; what costs is what the model wrote."""
    UNREPORTED = "unreported"
    """The provider did not say what was read."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first place where a request is not what the one before it would lead to expect."""

    section: str
    """tools, system or messages."""
    block: int
    """Index over all blocks, in the provider's cache order."""
    segment: str
    """Which segment of the context, e.g. `system/role` or `history[3]`."""
    byte: int
    """Offset of the first differing byte within the block's wire bytes."""
    before: str
    after: str
    """The bytes around it, as text."""
    source: str | None
    """The source line that supplied it, where known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A cause, in words, and what it cost."""

    cause: Cause
    detail: str
    """One sentence: what, where, and what to do, if anything can be done."""
    lost_tokens: int
    """Tokens that were paid as new and need not have been; 0 where nothing was lost."""
    difference: Difference | None = None
    vendor: str | None = None
    """What the vendor's own diagnostics said."""
    lost_usd: Decimal | None = None
    """What the lost tokens cost more than reading them would have; None: unknown price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One request: planned, paid, explained. Amounts in USD; None where unknown, never 0."""

    at: datetime
    model: str
    predicted: Prediction
    actual: InputSplit | None
    """None: the provider did not report it."""
    cost: Cost | None
    """What was paid, with output."""
    uncached_cost: Decimal | None
    """What the same request would have cost without any cache, with output."""
    planned_cost: Decimal | None
    """What the plan expected for it, with output."""
    price_source: str | None
    """Where the price comes from and its day; None: unknown price."""
    shortfall: Shortfall | None = None
    """None: what was planned to be read was read."""
