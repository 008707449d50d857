"""A real uvicorn server on a free loopback port, in a thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from agentkit_runtime.api import create_app
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.service.scripted import BOUND_S, Pace, Script, scripted_model, wait_until


@contextmanager
def serving(service: ChatService) -> Iterator[tuple[str, uvicorn.Server]]:
    """The base URL and the server, while the block runs."""
    with serving_app(create_app(service, clock=lambda: 1_700_000_000.5)) as started:
        yield started


@contextmanager
def serving_app(app: ASGIApp) -> Iterator[tuple[str, uvicorn.Server]]:
    """As `serving`, for an application that a test has made."""
    config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as `server.run` does
        # asyncio.run in a thread of its own: uvicorn leaves signals alone outside the main thread.
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
        finally:
            server.should_exit = True
            thread.join(BOUND_S)
            assert not thread.is_alive(), "the server did not stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A running server and what is behind it."""

    url: str
    server: uvicorn.Server
    service: ChatService
    pace: Pace

    @property
    def idle(self) -> bool:
        """Whether no request runs and no slot is held."""
        stats = self.service.stats()
        return (stats.running, stats.waiting, stats.held_slots) == (0, 0, 0)

    @property
    def n_handlers(self) -> int:
        """Requests whose handlers have not ended."""
        return len(self.server.server_state.tasks)


@contextmanager
def served_script(
    text: tuple[Tokenizer, ChatTemplate], answers: dict[str, str]
) -> Iterator[Served]:
    """A server in front of a scripted model, under the real engine."""
    pace = Pace(Script(text[0], answers))
    with scripted_model(*text, pace) as loaded:
        service = ChatService(loaded)
        with serving(service) as (url, server):
            yield Served(url=url, server=server, service=service, pace=pace)
