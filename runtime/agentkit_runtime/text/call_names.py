"""Names of tools that a model's notation for calls can hold."""

from __future__ import annotations

from agentkit_runtime.chat import ToolCallStart
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.reply_plan import ReplyPlan
from agentkit_runtime.text.toolcalls import ToolCallParser


def require_readable_names(plan: ReplyPlan) -> None:
    """Raise `RequestRejected` for a tool whose calls could not be told from text.

    The APIs take no such names; whoever asks natively or in the same process may have any.
    """
    for index, tool in plan.tools:
        parser = ToolCallParser(plan.tool_format, callable_names={tool.name})
        events = parser.push(plan.tool_format.calls_text([(tool.name, "{}")]))
        if not any(isinstance(event, ToolCallStart) for event in events):
            raise RequestRejected(
                f"this model cannot call a tool by the name {tool.name[:100]!r}; use letters, "
                "digits, _ and -, at most 64 of them",
                field=f"tools[{index}].name",
            )
