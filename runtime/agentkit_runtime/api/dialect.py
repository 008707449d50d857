"""How failures look at each group of endpoints.

Every failure of the server, also those that the framework raises by itself, is an `ApiError` first;
the path of the request says in which dialect it is told.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from fastapi.responses import JSONResponse

from agentkit_runtime.api.anthropic import errors as anthropic
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai import errors as openai


@dataclass(frozen=True, slots=True)
class Dialect:
    """A family of endpoints whose clients expect the same shape of failures."""

    name: str
    error_body: Callable[[ApiError], Mapping[str, object]]
    wire_field: Callable[[str], str]
    """What the dialect's body calls a field of `ChatRequest`."""
    headers: Callable[[Mapping[str, object]], Mapping[str, str]] = lambda _: {}
    """Further headers of an answer with this body."""

    def response(self, error: ApiError) -> JSONResponse:
        """The whole HTTP answer of a failure."""
        body = self.error_body(error)
        headers = {**self.headers(body), **error.headers}
        return JSONResponse(body, status_code=error.status, headers=headers)


OPENAI = Dialect(
    "openai",
    cast("Callable[[ApiError], Mapping[str, object]]", openai.error_body),
    openai.wire_field,
)

ANTHROPIC = Dialect(
    "anthropic",
    cast("Callable[[ApiError], Mapping[str, object]]", anthropic.error_body),
    anthropic.wire_field,
    anthropic.request_id_header,
)

RESPONSES = dataclasses.replace(OPENAI, wire_field=openai.response_field)
PROMPTS = dataclasses.replace(OPENAI, wire_field=openai.prompt_field)

_BY_PREFIX: tuple[tuple[str, Dialect], ...] = (
    ("/v1/messages", ANTHROPIC),
    ("/v1/responses", RESPONSES),
    ("/v1/completions", PROMPTS),
    ("/tokenize", PROMPTS),
)
"""Paths that do not speak OpenAI's dialect, or call its fields otherwise."""


def dialect_of(path: str) -> Dialect:
    """The dialect in which a failure at `path` is told; OpenAI's where it is no other's."""
    for prefix, dialect in _BY_PREFIX:
        if path == prefix or path.startswith(f"{prefix}/"):
            return dialect
    return OPENAI
