"""Failures in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`.

Clients branch on `code` and `param`, so both are filled wherever they are known. The text never
echoes the request's body.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypedDict

from fastapi.responses import JSONResponse

from agentkit_runtime.errors import EngineStopped, PromptTooLong, RequestRejected, RuntimeFault


class ErrorDetail(TypedDict):
    """What clients read."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(TypedDict):
    """The JSON document of a failed request, and of a stream that fails after it began."""

    error: ErrorDetail


class ApiError(Exception):
    """A failure with its HTTP status. `param` is the path of the offending field."""

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code

    def body(self) -> ErrorBody:
        """The JSON document."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {
            "error": {
                "message": self.message,
                "type": kind,
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self) -> JSONResponse:
        """The whole HTTP answer."""
        return JSONResponse(self.body(), status_code=self.status)


def from_fault(fault: RuntimeFault) -> ApiError:
    """The runtime's own errors: what the caller did wrong is 400, a closed engine is 503."""
    match fault:
        case PromptTooLong():
            return ApiError(str(fault), param="messages", code="context_length_exceeded")
        case RequestRejected():
            return ApiError(str(fault), param=_wire_field(fault.field), code="invalid_value")
        case EngineStopped():
            return ApiError(str(fault), status=503, code="engine_stopped")
        case _:
            return ApiError(str(fault), status=500)


def from_validation(errors: Sequence[Mapping[str, object]]) -> ApiError:
    """Pydantic's findings. The deepest one is reported: a union also reports what it almost was."""
    located = [(_path(error.get("loc")), str(error.get("msg"))) for error in errors]
    path, message = max(located, key=lambda found: len(found[0]))
    param = _dotted(path) or None
    where = f"{param}: " if param else ""
    return ApiError(f"{where}{message}", param=param, code="invalid_value")


_WIRE_NAMES = (
    (re.compile(r"^response_schema"), "response_format"),
    (re.compile(r"^allowed_tools"), "tool_choice"),
    (re.compile(r"^prompt"), "messages"),
    (re.compile(r"^tools\[\d+\]"), r"\g<0>.function"),
    (re.compile(r"tool_calls\[\d+\](?=\.(name|arguments))"), r"\g<0>.function"),
)
"""Where OpenAI's body calls a part of a `ChatRequest` otherwise."""


def _wire_field(field: str | None) -> str | None:
    """The OpenAI path of a `ChatRequest` field."""
    for pattern, name in _WIRE_NAMES:
        field = None if field is None else pattern.sub(name, field)
    return field


def _path(location: object) -> tuple[str | int, ...]:
    """Drop the parts of a pydantic location that name a type and not a field."""
    parts = location if isinstance(location, tuple | list) else ()
    named = [part for part in parts if isinstance(part, int) or part.isidentifier()]
    return tuple(part for part in named if part not in {"body", "str", "ToolChoiceBody"})


def _dotted(path: tuple[str | int, ...]) -> str:
    """`("messages", 0, "role")` -> `messages[0].role`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")
