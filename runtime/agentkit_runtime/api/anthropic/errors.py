"""Failures in Anthropic's shape: `{"type": "error", "error": {"type", "message"}, "request_id"}`.

Clients raise by the status, and branch on `error.type`.
https://platform.claude.com/docs/en/api/errors
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict

from agentkit_runtime.api.failure import ApiError

REQUEST_ID_HEADER = "request-id"

ErrorType = Literal[
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "conflict_error",
    "request_too_large",
    "rate_limit_error",
    "timeout_error",
    "overloaded_error",
    "api_error",
]

_TYPES: Mapping[int, ErrorType] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


NO_THREADS = "thread_unsupported_request"
"""Code of a request whose conversation the server should hold. The SDK's tool runner asks for that
first, and sends whole conversations once it reads this code."""


class NoThreadsDetails(TypedDict):
    """What of such a request is not supported."""

    error_code: str
    unsupported: list[str]


class ErrorDetail(TypedDict):
    """What went wrong."""

    type: ErrorType
    message: str
    details: NotRequired[NoThreadsDetails]


class ErrorBody(TypedDict):
    """The JSON document of a failed request, and of a stream that fails after it began."""

    type: Literal["error"]
    error: ErrorDetail
    request_id: str


def new_request_id() -> str:
    """Names a request for the operator."""
    return f"req_{uuid.uuid4().hex}"


def request_id_header(body: Mapping[str, object]) -> dict[str, str]:
    """The header that repeats a failed request's id."""
    return {REQUEST_ID_HEADER: str(body["request_id"])}


def error_body(error: ApiError, request_id: str | None = None) -> ErrorBody:
    """The JSON document of a failure. It has no place for the field but the message."""
    message = error.message
    if error.param is not None and error.param not in message:
        message = f"{error.param}: {message}"
    other: ErrorType = "invalid_request_error" if error.status < 500 else "api_error"
    detail: ErrorDetail = {"type": _TYPES.get(error.status, other), "message": message}
    if error.code == NO_THREADS:
        detail["details"] = {"error_code": NO_THREADS, "unsupported": []}
    return {
        "type": "error",
        "error": detail,
        "request_id": request_id or new_request_id(),
    }


_WIRE_NAMES = (
    (re.compile(r"^response_schema"), "output_config.format.schema"),
    (re.compile(r"^allowed_tools"), "tool_choice"),
    (re.compile(r"^prompt|^prefill"), "messages"),
    (re.compile(r"^(tools\[\d+\])\.parameters"), r"\1.input_schema"),
)
"""Where Anthropic's body calls a part of a `ChatRequest` otherwise."""


def wire_field(field: str) -> str:
    """What Anthropic's body calls a field of `ChatRequest`."""
    for pattern, name in _WIRE_NAMES:
        field = pattern.sub(name, field)
    return field
