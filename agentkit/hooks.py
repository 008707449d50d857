"""Hooks: an application's own code at fixed places of a run.

They see everything. What they add goes to the tail of the context, so nothing that was sent can
change. In the order of a run, each as often as its name says:

    guard_input            the prompt, before it is part of the context; nothing is sent or kept yet
    watch_input            the same prompt, while the model answers already
    every turn
        before_turn        may append a message
        before_model       each request, also again after a failure
        after_model        the model's complete turn
        every call
            before_tool    may answer in place of the tool; not for calls that a person declines
            after_tool     may replace what the model reads; also errors and declined calls
        guard_output       the answer, if the turn is one; before `after_turn`
        after_turn         all of it is part of the context, and kept by the journal

Several hooks are asked in the order in which they were given, those of the agents above first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Generic

from typing_extensions import TypeVar

from agentkit.blocks import ToolCall, UserMessage
from agentkit.context import Context
from agentkit.events import Turn
from agentkit.limits import LimitUse
from agentkit.models.base import ModelRequest
from agentkit.spelling import check_hook_methods
from agentkit.toolset import ToolOutput

Deps_co = TypeVar("Deps_co", covariant=True, default=Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext(Generic[Deps_co]):
    """Where a hook is called."""

    agent: str
    """Who runs, which may be an agent below the one that has the hook."""
    path: tuple[str, ...]
    run_id: str
    turn: int
    """Number of the turn within its run, from 0."""
    context: Context
    """The conversation so far; immutable."""
    deps: Deps_co
    """The agent's."""
    limits: tuple[LimitUse, ...] = ()
    """The run's limits, and what was used of them; those of runs above have their own."""


class Hooks:
    """Override what you need. What a method raises ends the run, save where it says otherwise.

    A resumed run goes on where it was: what its hooks have said stays, and they are not asked
    again about what was done. Only what a lost process had not finished is asked again.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        check_hook_methods(cls, Hooks)

    whole_team: ClassVar[bool] = False
    """Whether the runs of subagents call it too, at all depths, before their own hooks; and whoever
    the conversation is handed to."""

    async def guard_input(self, at: HookContext[Any], prompt: UserMessage) -> None:
        """What the user says, before it becomes part of the context.

        Raises:
            Blocked: the run does not begin. Nothing of it is sent or kept.
        """

    async def watch_input(self, at: HookContext[Any], prompt: UserMessage) -> None:
        """Like `guard_input`, beside the first answer: for guards that take their time.

        No tool is called and no answer is final before it has passed; text may be streamed.

        Raises:
            Blocked: the run ends at once; the model is not listened to any more.
        """

    async def before_turn(self, at: HookContext[Any]) -> str | None:
        """Before the model is asked. Text that is returned is appended as a message, and stays."""
        return None

    async def before_model(self, at: HookContext[Any], request: ModelRequest) -> None:
        """The request that is about to be sent, also again after a failure."""

    async def after_model(self, at: HookContext[Any], turn: Turn) -> None:
        """The model's complete turn, before anything of it is acted on.

        If it raises, the turn does not become part of the context.
        """

    async def before_tool(self, at: HookContext[Any], call: ToolCall) -> ToolOutput | None:
        """Before a call runs, with the arguments that it runs with.

        An output that is returned answers the call in place of the tool.
        """
        return None

    async def after_tool(
        self, at: HookContext[Any], call: ToolCall, output: ToolOutput
    ) -> ToolOutput:
        """Return what the model reads as the call's result, as a rule `output` itself."""
        return output

    async def guard_output(self, at: HookContext[Any], output: Any) -> None:
        """The answer, as the agent's output type, before the run ends with it.

        A stream has shown the text already, delta by delta.

        Raises:
            Retry: the model is told why, and answers again; counts as a repair.
            Blocked: the run ends without an answer, and the context without this turn.
        """

    async def after_turn(self, at: HookContext[Any]) -> None:
        """A turn and the results of its calls are part of the context; the last one is, too."""
