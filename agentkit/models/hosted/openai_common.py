"""What OpenAI's two APIs have in common: errors, waiting times, and how finished bytes are sent.

Source: client 3.57.0. Nothing here imports it before a request is sent.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from agentkit.errors import ModelError, RequestRefused
from agentkit.models.hosted.sse import event_json, sse_events, transport_errors
from agentkit.warn import LostMarkWarning as LostMarkWarning

if TYPE_CHECKING:
    from httpx2 import Response
    from openai import APIStatusError, AsyncOpenAI

    from agentkit.models.hosted.wire import Body

CACHE_FIELDS = (
    "prompt_cache_breakpoint",
    "prompt_cache_options",
    "prompt_cache_retention",
    "prompt_cache_key",
)
"""Fields that change nothing but the price, and that some gateways do not know."""


class CacheFieldsRefusedWarning(UserWarning):
    """A server that looks compatible does not know the fields that steer OpenAI's cache."""


async def send(
    client: AsyncOpenAI,
    path: str,
    body: Body,
    *,
    label: str,
    key_variable: str,
    on_headers: Callable[[Mapping[str, str]], None] | None = None,
) -> AsyncGenerator[Mapping[str, object], None]:
    """Post the finished bytes once and yield the stream's events as they came, parsed JSON.

    `on_headers` hears the headers of the response, also of one that refuses the request.

    Raises:
        RequestRefused: the API can never take the request.
        ModelError: it failed; see `translate_error`.
    """
    from openai import APIStatusError, AsyncStream, OpenAIError

    stream: AsyncStream[object] | None = None
    try:
        stream = await client.post(
            path,
            cast_to=object,
            content=body.data,
            options={
                "headers": dict(body.headers),
                "max_retries": 0,
                "security": {"bearer_auth": True},
            },
            stream=True,
            stream_cls=AsyncStream[object],
        )
        if on_headers is not None:
            on_headers(stream.response.headers)
        async with aclosing(_events(stream.response)) as events:
            async for event in events:
                yield event
    except OpenAIError as error:
        if on_headers is not None and isinstance(error, APIStatusError):
            on_headers(error.response.headers)
        failure = translate_error(error, label, key_variable)
        failure.response_began = stream is not None
        raise failure from error
    except ValueError as error:
        message = f"{label} sent an event that is no JSON ({error})"
        failure = ModelError(message, retryable=True)
        failure.response_began = True
        raise failure from error
    finally:
        if stream is not None:
            await stream.close()


async def _events(response: Response) -> AsyncGenerator[Mapping[str, object], None]:
    """Yield the events of a stream as parsed JSON; raises the client's own errors."""
    from openai import APIConnectionError, APITimeoutError

    timeouts, errors = transport_errors()
    is_done = False
    try:
        async with aclosing(sse_events(response)) as events:
            async for _, text in events:
                # What follows the end is read all the same, so that the connection can be used on.
                is_done = is_done or text.startswith("[DONE]")
                event = None if is_done else event_json(text)
                if isinstance(event, dict):
                    if event.get("error"):
                        raise _stream_error(event["error"], response)
                    yield event
    except timeouts as error:
        raise APITimeoutError(request=response.request) from error
    except errors as error:
        raise APIConnectionError(request=response.request) from error


def _stream_error(body: object, response: Response) -> Exception:
    from openai import APIError

    message = body.get("message") if isinstance(body, Mapping) else None
    if not isinstance(message, str) or not message:
        message = "An error occurred during streaming"
    return APIError(message, request=response.request, body=body)


def translate_error(error: Exception, label: str, key_variable: str) -> ModelError:
    """Return our error for one of the client's.

    Retryable are 408, 409, 429 and 5xx (unless `x-should-retry` says otherwise), timeouts, broken
    connections, and errors that a stream reports with a passing cause. An exhausted quota is not.
    """
    from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError

    message = f"{label}: {error}"
    if isinstance(error, APITimeoutError):
        return ModelError(f"{label} timed out", retryable=True)
    if isinstance(error, APIConnectionError):
        cause = error.__cause__ or error
        return ModelError(f"{label} cannot be reached: {cause}", retryable=True)
    if isinstance(error, APIStatusError):
        return _status_error(error, message, key_variable)
    if isinstance(error, APIError):
        return reported_error(error.code or error.type, message)
    return ModelError(message)


def reported_error(code: str | None, message: str) -> ModelError:
    """Return the error that a stream reported in its middle, by its code.

    Gateways and self-hosted servers give an HTTP status as the code.
    """
    status = int(code) if code is not None and code.isdecimal() else 0
    if code in _PASSING or status in (408, 409, 429) or status >= 500:
        return ModelError(message, retryable=True)
    if code in _FINAL or (code or "").startswith(("invalid_", "image_")) or status in (400, 422):
        return RequestRefused(message)
    return ModelError(message)


def retry_after_s(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Return how many seconds the server asks to wait; None where it does not say.

    From `retry-after-ms`, `retry-after` (seconds or a date), or the `x-ratelimit-reset-*` of the
    limits that have nothing left.
    """
    given = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds = _seconds(given.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = given.get("retry-after")
    seconds = _seconds(asked)
    if seconds is not None:
        return seconds
    if asked is not None:
        return _until(asked, now or datetime.now(UTC))
    waits = [
        duration_s(given.get(f"x-ratelimit-reset-{limit}", ""))
        for limit in ("requests", "tokens")
        if given.get(f"x-ratelimit-remaining-{limit}") == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def rejected_cache_fields(message: str) -> tuple[str, ...]:
    """Return the cache fields of which a refusal says that a gateway does not know them."""
    return tuple(name for name in CACHE_FIELDS if says_unknown(message, name))


def says_unknown(message: str, name: str) -> bool:
    """Return whether a refusal says that a field is not known.

    One that is about the field's value, place, number or order says nothing of the kind: without
    the field nothing would be cached any more.
    """
    if name not in message:
        return False
    quoted = re.escape(name)
    behind = rf"{quoted}\W{{0,3}}(\w+ )?((is|are|was) )?{_NOT_TAKEN}"
    before = rf"(invalid value|not support)\W+{quoted}\b"
    near = re.search(f"{behind}|{before}", message, re.IGNORECASE)
    return near is not None or UNKNOWN_FIELD.search(message) is not None


_NOT_TAKEN = (
    r"(not (yet |currently )?(permitted|allowed|supported|recognized|expected|known)"
    r"|un(known|recognized|expected|supported))"
)
UNKNOWN_FIELD = re.compile(
    r"extra (inputs|fields)|additional propert|(unknown|unrecognized|unexpected|unsupported)"
    r"( request)? (argument|field|key|keyword|parameter|property)",
    re.IGNORECASE,
)
"""How servers say that they do not know a field, without naming it."""


def count(fields: object, name: str) -> int | None:
    """Return a token count of a usage object; None where it is absent, null or no count."""
    value = fields.get(name) if isinstance(fields, dict) else None
    # A bool is an int, too, and no count.
    return value if type(value) is int and value >= 0 else None


def _status_error(error: APIStatusError, message: str, key_variable: str) -> ModelError:
    status = error.status_code
    if status in (401, 403):
        return ModelError(f"{message}; check the key in {key_variable}")
    if error.code in _UNPAID or error.type in _UNPAID:
        return ModelError(f"{message}; the account behind {key_variable} has no quota left")
    if status == 429 and "request too large" in error.message.lower():
        return RequestRefused(message)
    hint = error.response.headers.get("x-should-retry")
    if hint == "true" or (hint != "false" and (status in (408, 409, 429) or status >= 500)):
        wait = retry_after_s(error.response.headers)
        return ModelError(message, retryable=True, retry_after_s=wait)
    if status >= 500 or status == 429:
        return ModelError(message)
    return RequestRefused(message)


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _until(text: str, now: datetime) -> float | None:
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())


def duration_s(text: str) -> float | None:
    """Return the seconds of a duration; None if it is none.

    Reads `1h2m3.5s`, `6m0s`, `20ms` or plain seconds.
    """
    parts = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?", text)
    if not text or parts is None:
        return _seconds(text)
    hours, minutes, seconds, milliseconds = (_seconds(part) or 0.0 for part in parts.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000


_PASSING = frozenset(
    ["server_error", "rate_limit_exceeded", "vector_store_timeout", "timeout", "overloaded"]
)
_FINAL = frozenset(
    [
        "bio_policy",
        "context_length_exceeded",
        "data_residency_mismatch",
        "empty_image_file",
        "failed_to_download_image",
        "misalignment_policy_violation",
        "unsupported_image_media_type",
    ]
)
_UNPAID = frozenset(["insufficient_quota", "billing_hard_limit_reached", "billing_not_active"])
