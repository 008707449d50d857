"""Where the loop calls an agent's hooks. What hooks there are, is in `agentkit.hooks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentkit.blocks import ToolCall, UserMessage
from agentkit.events import Turn
from agentkit.hooks import HookContext
from agentkit.models.base import ModelRequest
from agentkit.toolset import ToolOutput

if TYPE_CHECKING:
    from agentkit.state import RunState


async def before_turn(run: RunState) -> None:
    """Append what the hooks say before a turn."""
    for hooks in run.member.agent.hooks:
        if text := await hooks.before_turn(_place(run)):
            run.context = run.context.append(UserMessage.of(text))


async def before_model(run: RunState, request: ModelRequest) -> None:
    """Show the hooks a request."""
    for hooks in run.member.agent.hooks:
        await hooks.before_model(_place(run), request)


async def after_model(run: RunState, turn: Turn) -> None:
    """Show the hooks a complete turn."""
    for hooks in run.member.agent.hooks:
        await hooks.after_model(_place(run), turn)


async def before_tool(run: RunState, call: ToolCall) -> ToolOutput | None:
    """Return the first hook's answer to a call, if one has any."""
    for hooks in run.member.agent.hooks:
        if (output := await hooks.before_tool(_place(run), call)) is not None:
            return output
    return None


async def after_tool(run: RunState, call: ToolCall, output: ToolOutput) -> ToolOutput:
    """Return a call's output as the hooks leave it."""
    for hooks in run.member.agent.hooks:
        output = await hooks.after_tool(_place(run), call, output)
    return output


async def after_turn(run: RunState) -> None:
    """Tell the hooks that a turn and its results are part of the context."""
    for hooks in run.member.agent.hooks:
        await hooks.after_turn(_place(run))


async def guard_input(run: RunState, prompt: UserMessage) -> None:
    """Ask the hooks whether a prompt may pass.

    Raises:
        Blocked: it may not.
    """
    for hooks in run.member.agent.hooks:
        await hooks.guard_input(_place(run), prompt)


async def guard_output(run: RunState, output: object) -> None:
    """Ask the hooks whether an answer may pass.

    Raises:
        Retry: the model should answer otherwise.
        Blocked: it may not.
    """
    for hooks in run.member.agent.hooks:
        await hooks.guard_output(_place(run), output)


def _place(run: RunState) -> HookContext[Any]:
    return HookContext(
        agent=run.member.name,
        path=run.path,
        run_id=run.run_id,
        turn=run.turn,
        context=run.context,
        deps=run.member.agent.deps,
    )
