"""When a conversation is begun anew from a summary, and how the summary is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

SUMMARY_INSTRUCTION = """\
The conversation is getting too long, and will go on from a summary. Write that summary now, for \
yourself: what was asked (in the user's own words where they matter), what was found and decided, \
what was changed and where (names, paths, ids, numbers exactly), what failed and why, and what is \
to be done next. Answer with the summary only, in plain text. Do not call any tool in this turn."""


_TARGET_RATIO = Decimal("0.4")
_LIMIT_RATIO = Decimal("1.6")
_SUMMARY_TOKENS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRule:
    """When a conversation is begun anew from a summary. Lengths are in tokens.

    Between `trigger_tokens` and `limit_tokens` it is done where it pays, from `limit_tokens` on in
    any case that makes it shorter. `target_ratio` lies well below 1, so a conversation near the
    trigger is not rewritten at every turn, but has to grow by the difference first. To set the
    trigger is enough: what is None follows from it. With both equal each conversation is summarised
    there, whatever that costs.
    """

    trigger_tokens: int = 100_000
    limit_tokens: int | None = None
    """E.g. 80 % of what the model can read; None: 1.6 times the trigger."""
    target_ratio: Decimal = _TARGET_RATIO
    """The new epoch is at most this share of `trigger_tokens`; turns are kept as far as it goes."""
    keep_turns: int = 4
    """Turns that are kept as they are, at most."""
    summary_tokens: int | None = None
    """How long a summary is expected to be; None: an eighth of the target, at most 2,000."""
    turns_left: int = 12
    """Requests expected after it, where nobody knows better: with few, a summary seldom pays."""
    instruction: str = SUMMARY_INSTRUCTION
    keeps_thinking: bool = False
    """Whether kept turns keep their thinking; models refuse it behind another prefix."""

    def __post_init__(self) -> None:
        if not 0 < self.target_ratio <= Decimal("0.8"):
            raise ValueError(
                f"target_ratio must be above 0 and at most 0.8, got {self.target_ratio!r}: "
                "without a gap below the trigger each turn would rewrite the prompt"
            )
        if not 0 < self.summary < self.target_tokens:
            raise ValueError(
                f"summary_tokens must be between 0 and the target of {self.target_tokens} tokens "
                f"(trigger_tokens x target_ratio), got {self.summary!r}"
            )
        if self.limit < self.trigger_tokens:
            raise ValueError(
                f"limit_tokens must be at least trigger_tokens ({self.trigger_tokens}), "
                f"got {self.limit!r}; leave it out to have it follow from the trigger"
            )
        for name, least in (("keep_turns", 0), ("turns_left", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)!r}")
        if not self.instruction.strip():
            raise ValueError("instruction is empty; leave it out to have the default one")

    @classmethod
    def for_window(cls, window_tokens: int) -> CompactionRule:
        """Return a rule for a model that can read so many tokens, its answer included.

        A summary is forced at 80 % of them, and considered from half of them on.
        """
        return cls(trigger_tokens=window_tokens // 2, limit_tokens=window_tokens * 4 // 5)

    @property
    def limit(self) -> int:
        """`limit_tokens`, or what it is where it is None."""
        if self.limit_tokens is None:
            return int(self.trigger_tokens * _LIMIT_RATIO)
        return self.limit_tokens

    @property
    def summary(self) -> int:
        """`summary_tokens`, or what it is where it is None."""
        if self.summary_tokens is None:
            return max(1, min(_SUMMARY_TOKENS, self.target_tokens // 8))
        return self.summary_tokens

    @property
    def target_tokens(self) -> int:
        """How long a new epoch may be at its beginning."""
        return int(self.trigger_tokens * self.target_ratio)

    @property
    def gap_tokens(self) -> int:
        """How much an epoch must grow before the next one."""
        return self.trigger_tokens - self.target_tokens
