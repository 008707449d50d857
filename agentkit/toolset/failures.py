"""What becomes of a tool's exception: a result for the model, and a line in the developer's log."""

from __future__ import annotations

import logging

from agentkit.toolset.tool import ToolContext, ToolOutput

_LOGGER = logging.getLogger("agentkit.tools")


def failure(
    tool: str,
    context: ToolContext[object],
    error: BaseException,
    reason: str = "",
    *,
    may_pass: bool = True,
) -> ToolOutput:
    """Log an exception of a tool with its traceback, and return the answer for the model.

    The values of the arguments are not logged: they may be private.

    Args:
        tool: the tool's name.
        context: the call's.
        error: what the tool raised.
        reason: what the model reads; by default the exception's type and text.
        may_pass: whether the call may be tried again.
    """
    _LOGGER.warning(
        "tool %r of agent %r failed in call %r",
        tool,
        context.agent,
        context.call_id,
        exc_info=error,
    )
    return ToolOutput.error(
        f"Tool {tool!r} failed: {reason or _text(error)}",
        may_pass=may_pass and not isinstance(error, SystemExit),
    )


def bad_result(tool: str, context: ToolContext[object], error: Exception) -> ToolOutput:
    """Log and answer for a tool that ran to its end and returned what no model can read.

    It had its effect, so it is not tried again, and the model is told.
    """
    reason = f"it ran to its end, but its result cannot be shown: {_text(error)}"
    return failure(tool, context, error, reason, may_pass=False)


def exit_text(error: SystemExit) -> str:
    """Return what the model reads when a tool tried to end the whole program."""
    return f"it tried to end the program (exit code {error.code!r})."


def _text(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
