"""The SDK's errors in our words. Source: client 2.14.0."""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.errors import ModelError, RequestRefused
from agentkit.models.hosted.openai_common import retry_after_s

KEY_VARIABLE = "ANTHROPIC_API_KEY"

_PASSING = frozenset(("api_error", "overloaded_error", "rate_limit_error", "timeout_error"))
_ACCOUNT = frozenset(("authentication_error", "billing_error", "permission_error"))
_PASSING_STATUS = frozenset((408, 409, 429))
_ACCOUNT_STATUS = frozenset((401, 402, 403))


def translate_error(error: Exception, label: str) -> ModelError:
    """Return our error for one that the SDK, or the connection under it, raised.

    Retryable are timeouts, broken connections, 408, 409, 429 and 5xx (529 is an overload), unless
    the server says otherwise; also where a stream reports such an error in its middle.
    """
    import anthropic

    if isinstance(error, anthropic.APITimeoutError):
        return ModelError(f"{label} timed out", retryable=True)
    if isinstance(error, anthropic.APIStatusError):
        return _status_error(
            f"{label}: {error}", error.status_code, error.type, error.response.headers
        )
    if isinstance(error, anthropic.APIConnectionError):
        return ModelError(f"{label} cannot be reached: {error.__cause__ or error}", retryable=True)
    if isinstance(error, anthropic.CredentialsError | TypeError):
        return ModelError(
            f"{label} has no key: set {KEY_VARIABLE}, or pass client=AsyncAnthropic(api_key=...) "
            f"({error})"
        )
    if isinstance(error, anthropic.AnthropicError):
        return ModelError(f"{label}: {error}")
    return ModelError(f"{label} broke off: {error!r}", retryable=True)


def _status_error(
    message: str, status: int, kind: str | None, headers: Mapping[str, str]
) -> ModelError:
    if status in _ACCOUNT_STATUS or kind in _ACCOUNT:
        return ModelError(f"{message}; check the key in {KEY_VARIABLE} and what it may use")
    passing = status in _PASSING_STATUS or status >= 500
    if status < 400:  # the response began well, and its stream reported an error
        passing = kind in _PASSING
    told = headers.get("x-should-retry")
    if (passing and told != "false") or told == "true":
        return ModelError(message, retryable=True, retry_after_s=retry_after_s(headers))
    return ModelError(message) if passing else RequestRefused(message)
