"""What an application sets once for a model, beside the settings of each request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agentkit.caching.policy import Speed, Terms
from agentkit.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Constant for all requests of a model: at OpenAI most of these are part of the prefix."""

    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    """E.g. `flex` or `priority`; changes the price, and what shares a cache."""
    parallel_tool_calls: bool | None = None
    """None is the server's default, which is yes."""
    retention: Literal["in_memory", "24h"] | None = None
    """How long GPT-5.5 and earlier may keep an entry; None is the account's default."""
    one_system_message: bool = False
    """Rules, role and knowledge as one system message, for chat templates that take only one."""
    holds_host: bool = True
    """Whether to name the last host to a gateway that was seen to leave it."""
    body: Mapping[str, object] = field(default_factory=dict)
    """More fields of the body, e.g. `{"thinking": {"type": "disabled"}}`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """More headers."""

    def __post_init__(self) -> None:
        taken = sorted(_OURS.intersection(self.body))
        if taken:
            raise ConfigurationError(
                f"ChatOptions.body cannot set {taken!r}: these are written from the request and "
                "the cache plan; use the agent's settings instead"
            )

    @property
    def terms(self) -> Terms:
        """What changes the price."""
        tier = self.service_tier
        return Terms(
            speed=_SPEEDS.get(tier or "", Speed.STANDARD),
            batch=tier == "flex",
        )


_SPEEDS = {"fast": Speed.FAST, "priority": Speed.FAST}

_OURS = frozenset(
    (
        "messages",
        "model",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "response_format",
        "stream",
        "stream_options",
        "tool_choice",
        "tools",
    )
)
