"""How a tool is shown and its calls are handled. The policy itself is no part of any prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from agentkit.toolset.errors import ToolDefinitionError
from agentkit.toolset.tool import Tool, ToolContext

LEAST_RESULT_CHARS = 500
"""Below it there is no room for the head and the tail of a result, and a word on the rest."""
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
    """How often a call is tried again by itself after an exception or a timeout.

    Each try may have an effect, and a sync function that was given up may still run beside the
    next: this is for tools that can bear it. `Retry` and `Failed` are answers, and are not retried.
    """
    retry_wait_s: float = 0.5
    """Seconds before the first retry; twice as long before each further one, at most 30."""
    max_result_chars: int | None = None
    """Longest result that the model reads whole, in characters; None: what the agent says."""
    defer_loading: bool = False
    """Whether the tool stays out of the prompt until the model has found it with `find_tools`,
    which the agent then has. For tools that are seldom used."""

    def __post_init__(self) -> None:
        if not isinstance(self.requires_approval, bool) and not callable(self.requires_approval):
            raise ToolDefinitionError(
                "requires_approval must be a bool or a function of the arguments and the "
                f"ToolContext, got {self.requires_approval!r}"
            )
        if not isinstance(self.defer_loading, bool):
            raise ToolDefinitionError(
                f"defer_loading must be True or False, got {self.defer_loading!r}"
            )
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or self.retries < 0:
            raise ToolDefinitionError(f"retries must be an int of at least 0, got {self.retries!r}")
        wait_s = self.retry_wait_s
        if isinstance(wait_s, bool) or not isinstance(wait_s, int | float) or not wait_s >= 0:
            raise ToolDefinitionError(f"retry_wait_s must be at least 0 seconds, got {wait_s!r}")
        limit = self.max_result_chars
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise ToolDefinitionError(f"max_result_chars must be an int or None, got {limit!r}")
        if limit is not None and limit < LEAST_RESULT_CHARS:
            raise ToolDefinitionError(
                f"max_result_chars must be at least {LEAST_RESULT_CHARS}, got {limit!r}"
            )

    def wait_s(self, attempt: int) -> float:
        """Return how many seconds to wait after a failed try; they count from 0."""
        return min(_LONGEST_WAIT_S, self.retry_wait_s * 2.0**attempt)


@runtime_checkable
class HasPolicy(Protocol):
    """A tool that says how its calls are handled."""

    @property
    def policy(self) -> ToolPolicy:
        """How its calls are handled."""
        ...


def policy_of(tool: Tool | None) -> ToolPolicy:
    """Return how calls of a tool are handled; the default for tools that do not say."""
    # Asked for each call; `isinstance` of a protocol would take longer than the call itself.
    policy = getattr(tool, "policy", None)
    return policy if isinstance(policy, ToolPolicy) else _DEFAULT


_LONGEST_WAIT_S = 30.0
_DEFAULT = ToolPolicy()
