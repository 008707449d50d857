"""One request to the model, as it is remembered: numbers and names, never a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentkit_runtime.kv.missed import Cause

Outcome = Literal["done", "gone", "refused", "failed"]
"""done     every answer came to its end
gone     the client went away first
refused  it never ran: a limit, a deadline of admission, or a request that cannot be served
failed   it began and broke
"""

Finish = Literal["stop", "length", "tool_calls", "abort", "revoked", "error"]
"""Why an answer ended; revoked: the key it was asked with is let in no more."""

Temperature = Literal["hit", "miss", "unknown"]
"""Whether at least half of a prompt was read from the cache. Unknown: it never came to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """A request that is over. Seconds are durations unless their name says otherwise."""

    request_id: str
    """Of the HTTP request: `x-request-id`."""
    id: str
    """In the answer, such as `chatcmpl-...`."""
    endpoint: str
    tenant: str
    key_id: str | None
    session: str | None
    priority: str
    began_unix_s: float
    outcome: Outcome
    status: int
    """The HTTP status; 499 where the client went away."""
    code: str | None
    """Of the failure, as clients see it."""
    finish: tuple[Finish, ...]
    """Why each answer ended; where one was cut off: `abort`, or `error` if the request failed."""
    seconds: float
    """From the request's arrival at the server's gate to its end."""
    ttft_s: float | None
    """To the first piece of the answer; None where there was none."""
    queue_s: float | None = None
    """In the engine, up to the first step; None where no answer came to its end, as below."""
    prefill_s: float | None = None
    """From there to the first token."""
    decode_s: float | None = None
    """From there to the last."""
    ended_unix_s: float | None = None
    """When the engine's last news came."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt, read from the cache."""
    restored_tokens: int = 0
    """Of them, those that came back from host memory or disk."""
    completion_tokens: int = 0
    """Of all answers."""
    missed: Cause | None = None
    """Why no more of the prompt was read from the cache; the first token that was not is number
    `cached_tokens`."""
    lost_tokens: int = 0
    """Tokens behind the cached ones that had been cached lately."""

    @property
    def temperature(self) -> Temperature:
        """A hit is a request that the engine counts as warm."""
        if not self.prompt_tokens:
            return "unknown"
        return "hit" if 2 * self.cached_tokens >= self.prompt_tokens else "miss"
