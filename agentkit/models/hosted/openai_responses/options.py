"""What an app chooses for all requests of one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentkit.caching.policy import Speed, Terms, plain_name

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
ServiceTier: TypeAlias = Literal["auto", "default", "flex", "fast", "priority", "ultrafast"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesOptions:
    """Settings of the Responses API. Most are part of the cached prefix: keep them for a run.

    None leaves a setting to the API's default. Source of the values: client 3.57.0.
    """

    effort: Effort | None = None
    """How much a reasoning model thinks."""
    summary: Literal["auto", "concise", "detailed"] | None = None
    """Whether summaries of the reasoning are streamed."""
    reasoning_context: Literal["auto", "current_turn", "all_turns"] | None = None
    """Which earlier reasoning is shown again. With `current_turn`, the default before GPT-5.6, the
    prompt changes behind the first reasoning of every turn that has ended."""
    verbosity: Literal["low", "medium", "high"] | None = None
    service_tier: ServiceTier | None = None
    """`flex` costs half, `fast` twice; tiers do not share a cache."""
    parallel_tool_calls: bool = True
    strict_tools: bool = False
    """Hold calls to their schemas where strict mode can; part of the tools' bytes."""
    image_detail: Literal["auto", "low", "high", "original"] = "auto"
    encrypted_reasoning: bool | None = None
    """Whether reasoning comes along to be replayed. None: where the model reasons."""
    diagnose: bool = False
    """Ask why less was read than the run's previous request would allow."""
    later_tools: bool | None = None
    """Whether tools that come in mid-conversation are sent there. None: to models that take them,
    and to no gateway (`base_url`). Else they go into the list in front, and the cache is lost."""
    base_url: str | None = None
    """A gateway that speaks this API; None is OpenAI itself, or `OPENAI_BASE_URL`."""

    def includes_reasoning(self, model: str) -> bool:
        """Return whether a request asks for the encrypted reasoning of this model."""
        if self.encrypted_reasoning is not None:
            return self.encrypted_reasoning
        return not plain_name(model).startswith(_WITHOUT_REASONING)

    @property
    def terms(self) -> Terms:
        """What the service tier does to the price."""
        return Terms(
            speed=Speed.FAST if self.service_tier in ("fast", "priority") else Speed.STANDARD,
            batch=self.service_tier == "flex",
        )

    @property
    def cached_tier(self) -> str | None:
        """The service tier as caches tell them apart: aliases have one name."""
        match self.service_tier:
            case None | "auto" | "default":
                return None
            case "priority":
                return "fast"
            case tier:
                return tier


_WITHOUT_REASONING = ("gpt-3.5", "gpt-4", "chatgpt-4o")
"""Models that refuse `include: reasoning.encrypted_content` (measured: error 400)."""
