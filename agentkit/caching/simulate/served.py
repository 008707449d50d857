"""What a simulated cache answers: a served request, or a typed refusal."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from agentkit.blocks import Json
from agentkit.caching.policy import Cost, InputSplit, Ttl


class MissReason(enum.StrEnum):
    """Why less was read than an earlier request had written of the same prompt."""

    NEVER_WRITTEN = "never_written"
    """Nothing of this prompt's beginning was ever written in this scope."""
    NO_MARKS = "no_marks"
    """The request asks for no caching."""
    TOO_SHORT = "too_short"
    SETTING_CHANGED = "setting_changed"
    """The blocks were written, under other settings; `detail` names them."""
    OUT_OF_REACH = "out_of_reach"
    """A live entry is there, but no mark or boundary of this request leads to it."""
    NOT_YET_READABLE = "not_yet_readable"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A shortfall and its cause."""

    reason: MissReason
    detail: str
    """One sentence."""
    lost_tokens: int
    """Tokens more that would have been read without the cause; 0 where nothing was there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One answered request."""

    split: InputSplit
    output_tokens: int
    usage_json: Mapping[str, Json]
    """What the provider's API returns, field by field."""
    cost: Cost | None
    """None: the price is unknown."""
    miss: Miss | None
    """None: all that could be read was read."""

    @property
    def read(self) -> int:
        """Input tokens read from the cache."""
        return self.split.read

    @property
    def write_by_ttl(self) -> Mapping[Ttl, int]:
        """Input tokens written and billed as written, by lifetime."""
        return dict(self.split.writes)

    @property
    def uncached(self) -> int:
        """Input tokens that were neither read nor billed as written."""
        return self.split.uncached

    @property
    def miss_reason(self) -> MissReason | None:
        """The reason of `miss`."""
        return None if self.miss is None else self.miss.reason


class RefusalReason(enum.StrEnum):
    """Why an API refuses a request."""

    TOO_MANY_MARKS = "too_many_marks"
    TTL_ORDER = "ttl_order"
    UNMARKABLE = "unmarkable"
    UNKNOWN_TTL = "unknown_ttl"
    AUTOMATIC_CONFLICT = "automatic_conflict"
    AUTOMATIC_UNAVAILABLE = "automatic_unavailable"
    PREWARM_CONFLICT = "prewarm_conflict"
    SYSTEM_MESSAGE = "system_message"
    THINKING_BOUND = "thinking_bound"
    UNSUPPORTED = "unsupported"
    CACHED_CONTENT = "cached_content"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An error response: nothing was read, written or billed."""

    reason: RefusalReason
    message: str
    """Names the value and the fix."""
    status: int = 400
