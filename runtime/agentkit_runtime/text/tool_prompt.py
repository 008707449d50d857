"""Tool use for chat templates that know nothing of tools, with plain messages only."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentkit_runtime.chat import ChatTool
from agentkit_runtime.text.tool_formats import ToolFormat

_INTRODUCTION = (
    "# Tools\n\nYou may call functions to help with the user's request. "
    "Each line between <tools> and </tools> describes one function:\n<tools>\n"
)


def tools_section(tools: Sequence[ChatTool], tool_format: ToolFormat) -> str:
    """What is put behind the system message: the tools, one a line, and how to call them."""
    lines = "\n".join(tool_line(tool) for tool in tools)
    example = tool_format.calls_text([("<function name>", "<arguments as a JSON object>")])
    return (
        f"{_INTRODUCTION}{lines}\n</tools>\n\n"
        f"To call a function, answer with exactly this form and nothing else:\n{example}"
    )


def with_tools(system: str, tools: Sequence[ChatTool], tool_format: ToolFormat) -> str:
    """The system message's content with the tools behind it."""
    section = tools_section(tools, tool_format)
    return f"{system}\n\n{section}" if system else section


def tool_line(tool: ChatTool) -> str:
    """One tool as one line of compact JSON. Keys keep the order in which they were given."""
    described = {"description": tool.description} if tool.description else {}
    value = {"name": tool.name, **described, "parameters": tool.parameters}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tool_response(content: str) -> str:
    """A tool's result as a user message's content."""
    return f"<tool_response>\n{content}\n</tool_response>"
