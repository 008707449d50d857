"""How calls of a tool are handled. The model does not see it, so it is no part of any prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from agentkit.toolset.errors import ToolDefinitionError
from agentkit.toolset.tool import Tool, ToolContext

NeedsApproval: TypeAlias = Callable[[Mapping[str, object], ToolContext[Any]], bool]
"""Decides by the arguments, as the model gave them, whether a person must agree to a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """How calls of one tool are handled.

    Raises:
        ToolDefinitionError: a value is of no use.
    """

    requires_approval: bool | NeedsApproval = False
    """Whether a person must agree before a call runs."""
    idempotent: bool = False
    """Whether a call that was cut off may simply be run again: doing it twice changes nothing."""
    resumes: bool = False
    """Whether a call that was cut off goes on where it was, as one that runs an agent does."""
    retries: int = 0
    """How often a call is tried again by itself after an exception or a timeout."""
    max_result_chars: int | None = None
    """Longest result that the model reads whole; None: what the agent says."""

    def __post_init__(self) -> None:
        if not isinstance(self.requires_approval, bool) and not callable(self.requires_approval):
            raise ToolDefinitionError(
                "requires_approval must be a bool or a function of the arguments and the "
                f"ToolContext, got {self.requires_approval!r}"
            )
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or self.retries < 0:
            raise ToolDefinitionError(f"retries must be an int of at least 0, got {self.retries!r}")
        limit = self.max_result_chars
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise ToolDefinitionError(f"max_result_chars must be an int or None, got {limit!r}")
        if limit is not None and limit < 1:
            raise ToolDefinitionError(f"max_result_chars must be at least 1, got {limit!r}")


@runtime_checkable
class HasPolicy(Protocol):
    """A tool that says how its calls are handled."""

    @property
    def policy(self) -> ToolPolicy:
        """How its calls are handled."""
        ...


def policy_of(tool: Tool | None) -> ToolPolicy:
    """Return how calls of a tool are handled; the default for tools that do not say."""
    return tool.policy if isinstance(tool, HasPolicy) else _DEFAULT


_DEFAULT = ToolPolicy()
