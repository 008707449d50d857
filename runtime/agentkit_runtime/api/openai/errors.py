"""Failures in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypedDict

from agentkit_runtime.api.failure import ApiError


class ErrorDetail(TypedDict):
    """What clients read."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(TypedDict):
    """The JSON document of a failed request, and of a stream that fails after it began."""

    error: ErrorDetail


def error_body(error: ApiError) -> ErrorBody:
    """The JSON document of a failure."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {
        "error": {
            "message": error.message,
            "type": "rate_limit_error" if error.status == 429 else kind,
            "param": error.param,
            "code": error.code,
        }
    }


_WIRE_NAMES = (
    (re.compile(r"^response_schema"), "response_format"),
    (re.compile(r"^allowed_tools"), "tool_choice"),
    (re.compile(r"^prompt"), "messages"),
    (re.compile(r"^template_options"), "chat_template_kwargs"),
    (re.compile(r"^tools\[\d+\]"), r"\g<0>.function"),
    (re.compile(r"tool_calls\[\d+\](?=\.(name|arguments))"), r"\g<0>.function"),
)
"""Where OpenAI's body calls a part of a `ChatRequest` otherwise."""


def wire_field(field: str) -> str:
    """What a chat completion's body calls a field of `ChatRequest`."""
    return _renamed(field, _WIRE_NAMES)


_RESPONSE_NAMES = (
    (re.compile(r"^response_schema"), "text.format.schema"),
    (re.compile(r"^allowed_tools"), "tool_choice"),
    (re.compile(r"^(messages|prompt).*"), "input"),
    (re.compile(r"^template_options"), "reasoning.effort"),
)


def response_field(field: str) -> str:
    """What the Responses API's body calls a field of `ChatRequest`."""
    return _renamed(field, _RESPONSE_NAMES)


_PROMPT_NAMES = ((re.compile(r"^(messages|prompt).*"), "prompt"),)


def prompt_field(field: str) -> str:
    """What a body with a plain prompt calls a field of `ChatRequest`."""
    return _renamed(field, _PROMPT_NAMES)


def _renamed(field: str, names: Sequence[tuple[re.Pattern[str], str]]) -> str:
    for pattern, name in names:
        field = pattern.sub(name, field)
    return field
