"""What the encoding of a message depends on beside the message."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit.caching.policy import AnthropicPolicy, LaterTools, Ttl

PROVIDER = "anthropic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The model that is spoken to, as far as bytes depend on it."""

    label: str
    """E.g. `anthropic:claude-sonnet-5-5`."""
    thinking_is_bound: bool
    """Whether thinking goes back only to the model that wrote it, behind the same prefix."""
    ttls: tuple[Ttl, ...]
    later_tools: LaterTools | None
    """How tools are added in mid-conversation; None: not at all, they go to the list in front."""

    @classmethod
    def of(cls, label: str, policy: AnthropicPolicy, *, later_tools: bool = True) -> Dialect:
        """Return the dialect of a model with these rules; not `later_tools`: as if it took none."""
        return cls(
            label=label,
            thinking_is_bound=policy.thinking_is_bound,
            ttls=tuple(choice.ttl for choice in policy.ttls),
            later_tools=policy.later_tools if later_tools else None,
        )

    def is_own(self, source: str | None) -> bool:
        """Whether a vendor's item of this source can be understood here."""
        return source is not None and source.partition(":")[0] == PROVIDER

    def takes_thinking(self, source: str | None) -> bool:
        """Whether thinking of this source may be sent back."""
        return source == self.label if self.thinking_is_bound else self.is_own(source)
