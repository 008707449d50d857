"""What can be set for Claude beside the neutral `Settings`. All of it is constant during a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agentkit.blocks import Json
from agentkit.errors import ConfigurationError
from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.frozen_json import freeze

Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
Thinking: TypeAlias = Literal["adaptive", "between_tools", "disabled"] | int
"""An int is a budget in tokens (`enabled`)."""

_MIN_BUDGET = 1_024
"""Client 2.14.0, docstring of `budget_tokens`."""

_UPDATES_BETA = "thinking-display-updates-2026-08-18"
_EDIT_BETAS = {
    # names in client 2.14.0, `AnthropicBetaParam`
    "clear_tool_uses_20250919": "context-management-2025-06-27",
    "clear_thinking_20251015": "context-management-2025-06-27",
    "compact_20260112": "compact-2026-01-12",
}

_OWN_FIELDS = frozenset(
    (
        *("context_management", "diagnostics", "inference_geo", "max_tokens", "messages", "model"),
        *("output_config", "service_tier", "speed", "stop_sequences", "stream", "system"),
        *("temperature", "thinking", "tool_choice", "tools", "top_k", "top_p", "cache_control"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicOptions:
    """Settings of the Messages API. A change of most of them loses cached prefixes.

    Raises:
        ConfigurationError: a value that the API cannot take.
    """

    thinking: Thinking | None = None
    """None leaves it to the model."""
    thinking_display: Literal["summarized", "omitted", "updates"] | None = None
    """What is seen of adaptive or budgeted thinking. `omitted`, the default of the newest models,
    has no text, and what these models say between tool calls is thinking too."""
    effort: Effort | None = None
    max_tokens: int | None = None
    """Bound on one turn where `Settings.max_tokens` is None. None: by the model."""
    parallel_tools: bool = True
    output: Literal["native", "prompt"] = "native"
    """How an output schema is told. `native`: `output_config.format`, which the API enforces (where
    it cannot express the schema, as `prompt`). `prompt`: as text at the very end; models whose
    thinking is bound to the prefix then do not get it back."""
    speed: Literal["standard", "fast"] | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    inference_geo: str | None = None
    diagnostics: bool = False
    """Ask the API why less was read from the cache. Each turn then remembers its message id."""
    context_management: Mapping[str, Json] | None = None
    """Server-side clearing of tool results, and compaction. Its beta headers are added."""
    server_tools: tuple[Mapping[str, Json], ...] = ()
    """Tools that the API runs, e.g. web search, as the API takes them. They lie behind ours."""
    betas: tuple[str, ...] = ()
    extra_body: Mapping[str, Json] = field(default_factory=dict)
    """More top-level fields, as the API takes them."""
    later_tools: bool = True
    """Whether tools that come in mid-conversation are sent there, where the model takes them.
    False, for a gateway that does not: they go into the list in front, and the cache is lost."""
    timeout_s: float | None = None
    """For connecting and between two pieces of the answer. None: the client's own."""

    def __post_init__(self) -> None:
        if isinstance(self.thinking, bool) or (
            isinstance(self.thinking, int) and self.thinking < _MIN_BUDGET
        ):
            raise ConfigurationError(
                f"a thinking budget must be an int of at least {_MIN_BUDGET} tokens, "
                f"got {self.thinking!r}"
            )
        if self.thinking_display is not None and self.thinking is None:
            raise ConfigurationError(
                f"thinking_display {self.thinking_display!r} needs thinking; "
                "set thinking='adaptive'"
            )
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigurationError(f"max_tokens must be at least 1, got {self.max_tokens!r}")
        taken = sorted(_OWN_FIELDS & self.extra_body.keys())
        if taken:
            raise ConfigurationError(
                f"extra_body has {taken!r}, which the adapter sets itself; use the option or "
                "Settings field of that name"
            )
        # Frozen copies: what a caller changes later must not change what is sent.
        for name in ("context_management", "server_tools", "extra_body"):
            object.__setattr__(self, name, _frozen(name, getattr(self, name)))

    @property
    def all_betas(self) -> tuple[str, ...]:
        """The beta headers, sorted: their set is part of what entries are keyed by."""
        edits = (self.context_management or {}).get("edits")
        kinds = (
            [str(edit.get("type")) for edit in edits if isinstance(edit, Mapping)]
            if isinstance(edits, list | tuple)
            else []
        )
        needed = {_EDIT_BETAS[kind] for kind in kinds if kind in _EDIT_BETAS}
        if self.thinking_display == "updates":
            needed.add(_UPDATES_BETA)
        return tuple(sorted(needed | set(self.betas)))

    @property
    def thinking_param(self) -> dict[str, Json] | None:
        """The `thinking` field of a request."""
        if self.thinking is None:
            return None
        param: dict[str, Json] = (
            {"type": "enabled", "budget_tokens": self.thinking}
            if isinstance(self.thinking, int)
            else {"type": self.thinking}
        )
        if self.thinking_display is not None:
            param["display"] = self.thinking_display
        return param


def _frozen(name: str, value: object) -> object:
    try:
        canonical_json(value)
    except ValueError as error:
        raise ConfigurationError(f"AnthropicOptions.{name} is no JSON value: {error}") from error
    if isinstance(value, tuple | list):
        return tuple(freeze(each) for each in value)
    return freeze(value)
