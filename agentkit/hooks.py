"""Hooks: an application's own code at fixed places of a run.

They see everything. What they add goes to the tail of the context, so nothing that was sent can
change. Several hooks are asked in the order in which they were given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from agentkit.blocks import ToolCall, UserMessage
from agentkit.context import Context
from agentkit.events import Turn
from agentkit.models.base import ModelRequest
from agentkit.toolset import ToolOutput

Deps_co = TypeVar("Deps_co", covariant=True, default=Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext(Generic[Deps_co]):
    """Where a hook is called."""

    agent: str
    path: tuple[str, ...]
    run_id: str
    turn: int
    """Number of the turn within its run, from 0."""
    context: Context
    """The conversation so far; immutable."""
    deps: Deps_co
    """The agent's."""


class Hooks:
    """Override what you need. What a method raises ends the run, save where it says otherwise."""

    async def before_turn(self, at: HookContext[Any]) -> str | None:
        """Before the model is asked. Text that is returned is appended as a message, and stays."""
        return None

    async def before_model(self, at: HookContext[Any], request: ModelRequest) -> None:
        """The request that is about to be sent, also again after a failure."""

    async def after_model(self, at: HookContext[Any], turn: Turn) -> None:
        """The model's complete turn, before anything of it is acted on."""

    async def before_tool(self, at: HookContext[Any], call: ToolCall) -> ToolOutput | None:
        """Before a call runs. An output that is returned answers the call in place of the tool."""
        return None

    async def after_tool(
        self, at: HookContext[Any], call: ToolCall, output: ToolOutput
    ) -> ToolOutput:
        """Return what the model reads as the call's result, as a rule `output` itself."""
        return output

    async def after_turn(self, at: HookContext[Any]) -> None:
        """A turn and the results of its calls are part of the context."""

    async def guard_input(self, at: HookContext[Any], prompt: UserMessage) -> None:
        """What the user says, before it becomes part of the context.

        Raises:
            Blocked: the run does not begin.
        """

    async def guard_output(self, at: HookContext[Any], output: Any) -> None:
        """The answer, as the agent's output type, before the run ends with it.

        Raises:
            Retry: the model is told why, and answers again; counts as a repair.
            Blocked: the run ends without an answer.
        """
