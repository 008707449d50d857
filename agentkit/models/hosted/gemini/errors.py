"""The SDK's errors as ours.

Source: google-genai 3.6.1 (`errors.APIError`), and the details of google.rpc that the API sends.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from agentkit.errors import ModelError, RequestRefused

_PASSING = frozenset((408, 409, 429, 500, 502, 503, 504))
"""Status codes after which the same request may succeed."""
_KEYS = "set GOOGLE_API_KEY or GEMINI_API_KEY, or pass client=genai.Client(...)"
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


class ObjectGone(RequestRefused):
    """The cached-content object that the request names is not there any more."""


def api_error(
    label: str, code: int, details: object, headers: Mapping[str, str] | None = None
) -> ModelError:
    """Return our error for a status code and the JSON that came with it."""
    error = _error(details)
    said = str(error.get("message") or "no reason was given")
    message = f"{label}: {code} {error.get('status') or ''}: {said}"
    reasons = {str(detail.get("reason")) for detail in _details(error)}
    if code == 401 or "API_KEY_INVALID" in reasons or (code == 403 and not _names_object(said)):
        return ModelError(f"{message}; {_KEYS}")
    if code in (400, 403, 404) and _names_object(said):
        return ObjectGone(message)
    if code in _PASSING:
        return ModelError(
            message,
            retryable=not _is_daily(error),
            retry_after_s=_retry_after_s(error, headers or {}),
        )
    return RequestRefused(message) if 400 <= code < 500 else ModelError(message)


def sdk_error(label: str, error: Exception) -> ModelError:
    """Return our error for one that the SDK or its HTTP client raised."""
    from google.auth.exceptions import GoogleAuthError, TransportError
    from google.genai.errors import APIError

    if isinstance(error, APIError):
        headers = getattr(error.response, "headers", None)
        return api_error(label, error.code or 0, error.details, headers)
    if isinstance(error, TransportError):
        return ModelError(f"{label} cannot be reached: {error}", retryable=True)
    if isinstance(error, GoogleAuthError):
        return ModelError(f"{label} has no valid credentials: {error}; {_KEYS}")
    if isinstance(error, ValueError):
        return ModelError(f"{label} gave an answer that is not understood: {error}")
    what = "timed out" if "Timeout" in type(error).__name__ else "cannot be reached"
    return ModelError(f"{label} {what}: {error or type(error).__name__}", retryable=True)


def _error(details: object) -> Mapping[str, object]:
    if isinstance(details, list) and details:
        details = details[0]
    if not isinstance(details, Mapping):
        return {}
    inner = details.get("error", details)
    return inner if isinstance(inner, Mapping) else {}


def _details(error: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping):
            yield detail


def _names_object(message: str) -> bool:
    return re.search(r"cached?[ _-]?contents?", message, re.IGNORECASE) is not None


def _is_daily(error: Mapping[str, object]) -> bool:
    """Whether a quota of the whole day is used up: waiting some seconds does not help."""
    for detail in _details(error):
        violations = detail.get("violations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, Mapping) and "PerDay" in str(violation.get("quotaId")):
                return True
    return False


def _retry_after_s(error: Mapping[str, object], headers: Mapping[str, str]) -> float | None:
    """Return how long the API asks to wait: `RetryInfo.retryDelay`, or the header."""
    for detail in _details(error):
        asked = _SECONDS.fullmatch(str(detail.get("retryDelay")))
        if asked is not None:
            return float(asked[1])
    try:
        seconds = float({k.lower(): v for k, v in headers.items()}.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if seconds >= 0 and math.isfinite(seconds) else None
