"""Logs, as text or as JSON Lines. No prompt, no answer and no key is ever part of a line.

Texts of exceptions may quote what was said, so an exception is its type and the places that it went
through. uvicorn's own log of requests is not used: it writes whole URLs.
"""

from __future__ import annotations

import copy
import json
import logging
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from agentkit_runtime.watching.options import WatchOptions

FIELDS: Final = "agentkit_fields"
"""The attribute of a log record that holds what is logged beside its message."""

REQUESTS_LOGGER: Final = "agentkit_runtime.requests"
"""Logs each HTTP request at its end, on level INFO."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        document: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info and (error := record.exc_info[1]) is not None:
            document["error"] = type(error).__qualname__
            document["at"] = _places(error)
        return json.dumps(document, default=str)


class TextFormatter(logging.Formatter):
    """A readable line; what is logged beside the message follows it as `name=value`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The line, and below it where an exception went through."""
        # A record keeps its exception's text for the next handler: neither is it taken from another
        # one, nor is this one left to others.
        own = copy.copy(record)
        own.exc_text = None
        return super().format(own)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line alone. Sessions and the like are of clients' making: none of them ends it."""
        fields: Mapping[str, object] = getattr(record, FIELDS, {})
        told = "".join(f" {name}={value!s}" for name, value in fields.items())
        return _printable(super().formatMessage(record) + told)

    def formatException(self, ei: Any) -> str:
        """Type and places of an exception, not its text."""
        error = ei[1]
        if error is None:
            return ""
        return "\n".join((type(error).__qualname__, *(f"  at {at}" for at in _places(error))))


def _printable(text: str) -> str:
    """`text` with escapes for what would break the line, or steer the terminal that shows it."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _places(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]


def log_config(options: WatchOptions) -> dict[str, Any]:
    """A configuration for `logging.config.dictConfig`: everything to stderr, in one form."""
    formatter = JsonFormatter if options.log_format == "json" else TextFormatter
    level = options.level.upper()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": formatter}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "stream": "ext://sys.stderr",
            }
        },
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {"uvicorn": {"level": level}, "agentkit_runtime": {"level": level}},
    }
