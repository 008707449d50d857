"""Structured logs: a line of JSON for each run, request and tool call, and for what else is logged.

    configure()                              # JSON on stderr, from all loggers of agentkit
    agent = MyAgent(telemetry=RunLog())      # run_log.py: a record for each run, request and call

Each record says in which run it was logged. Prompts, answers, arguments and results are never part
of a record. Texts of exceptions may quote them, so only `content=True` logs those.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import IO, Any

from agentkit.observe.secrets import cleaned, without_secrets

FIELDS = "agentkit_fields"
"""The attribute of a log record that holds what is logged beside the message."""
current_run: ContextVar[Mapping[str, object] | None] = ContextVar("agentkit_run", default=None)
"""The run in which the current task logs; set by `RunLog`."""


def configure(
    stream: IO[str] | None = None, *, level: int = logging.INFO, content: bool = False
) -> logging.Handler:
    """Write the records of agentkit's loggers to a stream as JSON Lines; returns the handler.

    Args:
        stream: by default stderr.
        level: the least that is written.
        content: whether to write the texts of exceptions, which may quote what was said.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(content=content))
    handler.addFilter(RunFilter())
    logger = logging.getLogger("agentkit")
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    return handler


class RunFilter(logging.Filter):
    """Adds to each record in which run it was logged. For a handler of your own.

    A filter and not the formatter, because a formatter may run in another thread.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the run's fields; keeps every record."""
        fields = {**(current_run.get() or {}), **_trace_fields(), **getattr(record, FIELDS, {})}
        setattr(record, FIELDS, fields)
        return True


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON, without secrets.

    Args:
        content: whether to write the texts of exceptions.
    """

    def __init__(self, *, content: bool = False) -> None:
        super().__init__()
        self._content = content

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = self._error(record.exc_info[1])
        return json.dumps(cleaned(line), ensure_ascii=False, default=_text)

    def _error(self, error: BaseException) -> dict[str, object]:
        frames = traceback.extract_tb(error.__traceback__)
        told = {"text": str(error)} if self._content else {}
        places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return {"type": type(error).__qualname__, **told, "stack": places}


def _text(value: object) -> str:
    return without_secrets(str(value))


def _trace_fields() -> dict[str, object]:
    """The current span of OpenTelemetry, if the program has it loaded."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return {}
    return {"trace_id": f"{found.trace_id:032x}", "span_id": f"{found.span_id:016x}"}
