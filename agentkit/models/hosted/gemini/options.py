"""What an app may say about Gemini beside the neutral settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agentkit.caching.policy import Platform
from agentkit.errors import ConfigurationError
from agentkit.models.base import is_whole

ThinkingLevel = Literal["minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiOptions:
    """Options that are the same for all requests of an adapter.

    Raises:
        ConfigurationError: two of them exclude each other, or a number is out of range.
    """

    platform: Platform = Platform.DIRECT
    """`GOOGLE_CLOUD` is Vertex AI, with its own keys, isolation and minimums."""
    thinking_level: ThinkingLevel | None = None
    """How much the model thinks; None is its default. Not together with `thinking_budget`."""
    thinking_budget: int | None = None
    """Tokens, for models before Gemini 3: 0 is off, -1 lets the model choose."""
    include_thoughts: bool = False
    """Whether summaries of the model's thoughts are streamed."""
    media_resolution: Literal["low", "medium", "high"] | None = None
    """How finely images and pages are read; decides how many tokens they cost."""
    safety: Mapping[str, str] = field(default_factory=dict)
    """Harm category -> threshold, e.g. `HARM_CATEGORY_HARASSMENT` -> `BLOCK_NONE`."""
    timeout_s: int = 600
    """How long the server may be silent. For clients that the adapter makes itself."""

    def __post_init__(self) -> None:
        if self.thinking_level is not None and self.thinking_budget is not None:
            raise ConfigurationError(
                f"thinking_level {self.thinking_level!r} and thinking_budget "
                f"{self.thinking_budget!r} exclude each other; give one"
            )
        if not (self.thinking_budget is None or is_whole(self.thinking_budget, -1)):
            raise ConfigurationError(
                f"thinking_budget must be an int of at least -1, got {self.thinking_budget!r}"
            )
        if not is_whole(self.timeout_s, 1):
            raise ConfigurationError(
                f"timeout_s must be an int of at least 1, got {self.timeout_s!r}"
            )
        if self.platform not in (Platform.DIRECT, Platform.GOOGLE_CLOUD):
            raise ConfigurationError(
                f"Gemini is hosted on {Platform.DIRECT.value!r} and "
                f"{Platform.GOOGLE_CLOUD.value!r}, not on {self.platform!r}"
            )

    @property
    def thinking(self) -> str | None:
        """Level or budget as one text; None is the model's default."""
        if self.thinking_level is not None:
            return f"level:{self.thinking_level}"
        return None if self.thinking_budget is None else f"budget:{self.thinking_budget}"
