"""What the OpenAPI description says of answers."""

from __future__ import annotations

FAILURES: dict[int | str, dict[str, object]] = {
    400: {"description": "The request cannot be served; the error names the field."},
    401: {"description": "The key is missing or unknown."},
    403: {"description": "The key lacks the role."},
    404: {"description": "The model or the object is not known here."},
    413: {"description": "The body is too large."},
    422: {"description": "Not used: a body that does not fit is answered with 400."},
    429: {"description": "Too much at once; Retry-After says when to come back."},
    503: {"description": "The engine cannot take requests."},
}
"""Of every endpoint."""


def answers(*, streamed: bool = False) -> dict[int | str, dict[str, object]]:
    """All answers of an endpoint that generates; `streamed` where it can send events."""
    content: dict[str, object] = {"application/json": {}}
    if streamed:
        content["text/event-stream"] = {}
    return {200: {"description": "The answer.", "content": content}, **FAILURES}
