"""What an API answers when it cannot do what was asked, before it has any dialect's shape.

Clients branch on `code` and `param`, so both are filled wherever they are known. The text never
echoes the request's body, a key, or another tenant's data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from agentkit_runtime.chat import ChatFinished
from agentkit_runtime.errors import (
    EngineStopped,
    NotCached,
    PinRefused,
    PromptTooLong,
    RequestRejected,
    RuntimeFault,
)


class ApiError(Exception):
    """A failure with its HTTP status. `param` is the path of the offending field."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        """`retry_after_s`: seconds after which trying again makes sense; None says nothing."""
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer. Retry-After is in whole seconds, rounded up (RFC 9110, 10.2.3);
        with 401 the way to authenticate is named (11.6.1)."""
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        if self.retry_after_s is None:
            return {}
        return {"Retry-After": str(max(1, math.ceil(self.retry_after_s)))}


def from_fault(fault: RuntimeFault, wire_field: Callable[[str], str]) -> ApiError:
    """The runtime's own errors. `wire_field` says what a dialect calls a field of `ChatRequest`."""
    match fault:
        case RequestRejected():
            long = isinstance(fault, PromptTooLong)
            return ApiError(
                str(fault),
                param=None if fault.field is None else wire_field(fault.field),
                code="context_length_exceeded" if long else "invalid_value",
            )
        case EngineStopped():
            return ApiError(str(fault), status=503, code="engine_stopped", retry_after_s=1)
        case NotCached():
            return ApiError(str(fault), status=409, code="not_cached")
        case PinRefused():
            return ApiError(str(fault), status=409, code="pin_quota_exceeded")
        case _:
            return ApiError(str(fault), status=500)


def from_nowhere(method: str, path: str) -> ApiError:
    """A path that the server does not have: mostly a client's base URL with `/v1` where it must not
    be, or without."""
    return ApiError(
        f"there is nothing at {method} {path[:_SHOWN_PATH]}: the base URL of OpenAI's clients "
        "ends in /v1, that of Anthropic's does not; /openapi.json lists what there is",
        status=404,
        code="path_not_found",
    )


def from_end(finished: ChatFinished) -> ApiError:
    """An answer that ended as a failure: its key was revoked, the server aborted it, it is late, or
    the engine failed."""
    if finished.revoked:
        return ApiError(finished.error or "", status=401, code="invalid_api_key")
    if finished.reason == "abort":
        message = finished.error or "the generation was aborted by the server"
        return ApiError(message, status=503, code="aborted", retry_after_s=1)
    message = finished.error or "the generation failed"
    if finished.late:
        return ApiError(message, status=504, code="deadline_exceeded")
    return ApiError(message, status=500)


_SHOWN_PATH = 200
"""Characters of such a path in the message."""

_PYDANTICS_PREFIX = "Value error, "
"""Before what validators of ours say."""


def from_validation(errors: Sequence[Mapping[str, object]]) -> ApiError:
    """Pydantic's findings. The deepest one is reported: a union also reports what it almost was.

    Of equally deep ones, what is wrong with a value comes before its being of another type. A list
    that is too long comes first: it is not told to be no string, nor its texts to be no numbers.
    """
    if any(error.get("type") == "json_invalid" for error in errors):
        return ApiError("the body is not valid JSON", code="invalid_json")
    if any(_is_no_object(error) for error in errors):
        return ApiError(
            "the body must be a JSON object, sent with Content-Type: application/json",
            code="invalid_value",
        )
    worst = max(errors, key=_weight)
    path = _path(worst.get("loc"))
    message = str(worst.get("msg")).removeprefix(_PYDANTICS_PREFIX)
    param = _dotted(path) or None
    where = f"{param}: " if param else ""
    return ApiError(f"{where}{message}", param=param, code="invalid_value")


def _weight(error: Mapping[str, object]) -> tuple[bool, int, bool]:
    kind = str(error.get("type"))
    return kind == "too_long", len(_path(error.get("loc"))), not kind.endswith("_type")


def _is_no_object(error: Mapping[str, object]) -> bool:
    """The framework reads no JSON where the header does not say that it is."""
    of_all = error.get("loc") == ("body",)
    return of_all and error.get("type") in ("missing", "model_attributes_type", "model_type")


def _path(location: object) -> tuple[str | int, ...]:
    """Drop the parts of a pydantic location that name a type and not a field."""
    parts = location if isinstance(location, tuple | list) else ()
    named = [part for part in parts if isinstance(part, int) or part.isidentifier()]
    return tuple(part for part in named if part not in {"body", "str"} and not _is_model(part))


def _is_model(part: str | int) -> bool:
    """Models are named in CamelCase, fields of every dialect begin with a small letter."""
    return isinstance(part, str) and part[:1].isupper()


def _dotted(path: tuple[str | int, ...]) -> str:
    """`("messages", 0, "role")` -> `messages[0].role`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")
