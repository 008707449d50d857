"""What gates decide about and watchers follow: a request that was asked, and its place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from agentkit_runtime.api.caller import Caller
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatEvent, ChatRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that was let in, as watchers see it. Watchers must not write out its texts."""

    id: str
    """The id in the answer, such as `chatcmpl-...`."""
    endpoint: str
    """The route, such as `/v1/chat/completions`."""
    caller: Caller
    chat: ChatRequest
    n: int
    """Answers that are wanted: to `chat`; for gates, to all prompts."""
    headers: Mapping[str, str]
    """Of the request, names in lower case. Holds credentials: never to be written out."""
    began_s: float
    """On the server's monotonic clock."""
    more: tuple[ChatRequest, ...] = ()
    """Further prompts of the same request, for gates: all of them are let in, or none is."""
    prompt_tokens: int | None = None
    """An estimate of all prompts together, made in a thread; None where they are small enough for
    gates to make it themselves, by `api.estimate`."""

    @property
    def chats(self) -> tuple[ChatRequest, ...]:
        """All prompts."""
        return (self.chat, *self.more)


class Watch(Protocol):
    """Follows one request. Methods are called in the event loop, must not block, and are tried:
    what they raise is logged and changes nothing."""

    def event(self, index: int, event: ChatEvent) -> None:
        """Answer `index` went on; `ChatFinished` is its last event."""

    def closed(self, failure: BaseException | None) -> None:
        """The request is over, also when it never got an answer. Called exactly once.

        `failure` says what ended it early; None when all answers were read to their end, or the
        client went away.
        """


class Watcher(Protocol):
    """Looks at all requests."""

    def asked(self, asked: Asked) -> Watch:
        """A request came. Called before the gate is asked."""


class Ticket(Protocol):
    """A request's place in the server."""

    def opened(self) -> None:
        """The engine has the request. Not called when it was refused on the way there."""

    def costs(self, left: Callable[[], Future[int]]) -> None:
        """`left` asks the engine what it has to compute of a prompt that it has got."""

    def event(self, index: int, event: ChatEvent) -> None:
        """Answer `index` went on."""

    def leave(self) -> None:
        """The request is over. Called exactly once."""


class NotYet(ApiError):
    """A refusal (429) by what is only estimated; `more_known` waits until to try is worth it."""

    def __init__(self, message: str, more_known: Callable[[], Awaitable[None]]) -> None:
        super().__init__(message, status=429, code="rate_limit_exceeded", retry_after_s=1)
        self.more_known = more_known


class Gate(Protocol):
    """Decides what may run."""

    def enter(self, asked: Asked) -> Ticket:
        """Let a request in.

        Raises:
            ApiError: 429 or 503, with `retry_after_s`.
            NotYet: to be tried again soon, in place of sending the client away.
        """

    def look(self, caller: Caller) -> None:
        """Let a request in that wants no answer, such as the tokens of a text.

        Raises:
            ApiError: 429, with `retry_after_s`.
        """


class OpenGate:
    """Lets everything in."""

    def enter(self, asked: Asked) -> Ticket:
        """Let it in."""
        return _NoTicket()

    def look(self, caller: Caller) -> None:
        """Let it in."""


class _NoTicket:
    def opened(self) -> None:
        pass

    def costs(self, left: Callable[[], Future[int]]) -> None:
        pass

    def event(self, index: int, event: ChatEvent) -> None:
        pass

    def leave(self) -> None:
        pass
