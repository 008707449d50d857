"""What the tools of a run have answered."""

from __future__ import annotations

from agentkit import RunRecord, ToolMessage
from agentkit.blocks import ToolResult


def tool_results(record: RunRecord) -> list[ToolResult]:
    return [
        result
        for message in record.messages
        if isinstance(message, ToolMessage)
        for result in message.results
    ]


def result_texts(record: RunRecord) -> list[str]:
    return [result.content for result in tool_results(record)]
