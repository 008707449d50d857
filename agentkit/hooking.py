"""Where the loop calls an agent's hooks. What hooks there are, is in `agentkit.hooks`."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit.blocks import ToolCall, UserMessage, printable
from agentkit.errors import ConfigurationError
from agentkit.events import Turn
from agentkit.hooks import HookContext, Hooks
from agentkit.models.base import ModelRequest
from agentkit.toolset import ToolOutput

if TYPE_CHECKING:
    from agentkit.state import RunState


def watches_input(run: RunState) -> bool:
    """Whether a guard wants to run beside the first answer."""
    return any(map(watches, run.hooks))


def watches(hooks: Hooks) -> bool:
    """Whether hooks have such a guard."""
    return type(hooks).watch_input is not Hooks.watch_input


def watch_input(run: RunState) -> Coroutine[None, None, None] | None:
    """Return the guards that run beside the first answer, if there are any and it is still to come.

    They see the run's prompt. Behind it there may be what hooks have said in another process.
    """
    if run.turn or run.open is not None or not watches_input(run):
        return None
    prompt = next(
        (
            message
            for message in run.new_messages
            if isinstance(message, UserMessage) and message.text == run.prompt
        ),
        None,
    )
    return None if prompt is None else _watch(run, _place(run), prompt)


async def _watch(run: RunState, at: HookContext[Any], prompt: UserMessage) -> None:
    for hooks in run.hooks:
        await hooks.watch_input(at, prompt)


async def guard_input(run: RunState, prompt: UserMessage) -> None:
    """Ask the hooks whether a prompt may pass.

    Raises:
        Blocked: it may not.
    """
    for hooks in run.hooks:
        await hooks.guard_input(_place(run), prompt)


async def before_turn(run: RunState) -> bool:
    """Append what the hooks say before a turn; returns whether they said anything.

    All or nothing: where one of them fails, nothing is appended.
    """
    context, said = run.context, list[UserMessage]()
    for hooks in run.hooks:
        text = await hooks.before_turn(replace(_place(run), context=context))
        if text is not None and not isinstance(text, str):
            raise ConfigurationError(
                f"{type(hooks).__name__}.before_turn must return a text or None, got {text!r:.200}"
            )
        if text:
            said.append(UserMessage.of(printable(text)))
            context = context.append(said[-1])
    if said:
        run.say(*said)
    return bool(said)


async def before_model(run: RunState, request: ModelRequest) -> None:
    """Show the hooks a request."""
    for hooks in run.hooks:
        await hooks.before_model(_place(run), request)


async def after_model(run: RunState, turn: Turn) -> None:
    """Show the hooks a complete turn."""
    for hooks in run.hooks:
        await hooks.after_model(_place(run), turn)


async def before_tool(run: RunState, call: ToolCall) -> ToolOutput | None:
    """Return the first hook's answer to a call, if one has any."""
    for hooks in run.hooks:
        output = await hooks.before_tool(_place(run), call)
        if output is not None:
            return _checked(hooks, "before_tool", output, "a ToolOutput or None")
    return None


async def after_tool(run: RunState, call: ToolCall, output: ToolOutput) -> ToolOutput:
    """Return a call's output as the hooks leave it."""
    for hooks in run.hooks:
        left = await hooks.after_tool(_place(run), call, output)
        output = _checked(hooks, "after_tool", left, "a ToolOutput, as a rule `output` itself")
    return output


async def guard_output(run: RunState, output: object) -> None:
    """Ask the hooks whether an answer may pass.

    Raises:
        Retry: the model should answer otherwise.
        Blocked: it may not.
    """
    for hooks in run.hooks:
        await hooks.guard_output(_place(run), output)


async def after_turn(run: RunState) -> None:
    """Tell the hooks that a turn and its results are part of the context."""
    for hooks in run.hooks:
        await hooks.after_turn(_place(run))


def _checked(hooks: Hooks, method: str, output: object, wanted: str) -> ToolOutput:
    if not isinstance(output, ToolOutput):
        raise ConfigurationError(
            f"{type(hooks).__name__}.{method} must return {wanted}, got {output!r:.200}"
        )
    return output


def _place(run: RunState) -> HookContext[Any]:
    return HookContext(
        agent=run.member.name,
        path=run.path,
        run_id=run.run_id,
        turn=run.turn,
        context=run.context,
        deps=run.member.agent.deps,
        limits=run.budget.uses,
    )
