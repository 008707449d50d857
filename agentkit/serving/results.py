"""How runs end, as MCP results."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from agentkit.errors import AgentkitError, RunError
from agentkit.json_values import jsonable
from agentkit.result import RunRecord, RunResult, failure_text
from agentkit.saved import PausedRun
from agentkit.serving.approval import question
from agentkit.serving.tools import WRAPPED, Served
from agentkit.team.delegate import answer_text
from agentkit.toolset.results import encodable, finite

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_LOGGER = logging.getLogger("agentkit.serving")

META = "agentkit/run"
"""Key in a result's `_meta` of what the run was and what it used."""


def answered(result: RunResult[Any], tools: Served) -> CallToolResult:
    """Return a run's answer: as text, and with an output type also as a structured value."""
    structured: object = None
    if tools.output_schema is not None:
        value = finite(jsonable(result.output))
        structured = {WRAPPED: value} if tools.is_wrapped else value
    meta = _used(result) | {"finish": result.finish}
    return _result(answer_text(result), structured=structured, meta=meta)


def failed(error: Exception) -> CallToolResult:
    """Return a failure. What is not the framework's own error is named, and told in the log only.

    A run that had begun says in `_meta` what it has cost.
    """
    if not isinstance(error, AgentkitError):
        _LOGGER.error("a served run failed", exc_info=error)
        return refused(f"The agent failed: {type(error).__name__}; the server's log has more.")
    record = error.partial if isinstance(error, RunError) else None
    meta = None if record is None else _used(record)
    return _result(f"The agent failed: {failure_text(error)}", is_error=True, meta=meta)


def refused(text: str) -> CallToolResult:
    """Return an answer that tells the client's model what was wrong with its call."""
    return _result(text, is_error=True)


def waits(paused: PausedRun, how: str) -> CallToolResult:
    """Return that a run waits for a person.

    It is an error result, because it is not the answer that the tool's output schema promises.
    """
    lines = [f"- {question(each)} (id: {each.id})" for each in paused.pending]
    text = "\n".join([f"The run {paused.run_id} waits for approval of:", *lines, how])
    return _result(text, is_error=True, meta={"run_id": paused.run_id, "status": "paused"})


def _used(record: RunRecord) -> dict[str, Any]:
    """Return what a run used, with all runs below it; unknown values are null."""
    usage, cost = record.usage, record.cost
    return {
        "run_id": record.run_id,
        "requests": len(record.requests),
        "total_s": round(record.total_s, 3),
        "input_tokens": usage.input_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": None if cost is None else cost.to_json(),
    }


def _result(
    text: str,
    *,
    structured: object = None,
    is_error: bool = False,
    meta: dict[str, Any] | None = None,
) -> CallToolResult:
    from mcp_types import CallToolResult, TextContent

    return CallToolResult(
        content=[TextContent(text=encodable(text))],
        structured_content=structured,
        is_error=is_error,
        _meta=None if meta is None else {META: meta},
    )
