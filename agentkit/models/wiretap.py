"""Lets a test hear what models are asked, without a change of any agent. Nobody listens as a rule.

What listens is kept in a context variable, so it hears the tasks and threads that are begun below
it, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from agentkit.models.base import ModelRequest


class Listener(Protocol):
    """Hears of requests as they are made. What it raises ends the run."""

    def asked(self, request: ModelRequest) -> None:
        """A model is about to be asked."""
        ...

    def sent_body(self, request: ModelRequest, stable: tuple[bytes, ...], body: bytes) -> None:
        """A hosted model sends the request's body.

        Args:
            request: what it was made of.
            stable: the pieces of the body that a later request of the run must begin with.
            body: the bytes on the wire.
        """
        ...


_LISTENERS: ContextVar[tuple[Listener, ...]] = ContextVar("agentkit_wiretap", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let a listener hear what is asked inside this context."""
    token = _LISTENERS.set((*_LISTENERS.get(), listener))
    try:
        yield
    finally:
        _LISTENERS.reset(token)


def listeners() -> tuple[Listener, ...]:
    """Return who listens, the outermost first."""
    return _LISTENERS.get()
