"""A real uvicorn server on a free loopback port, in a thread."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from agentkit_runtime.api import create_app
from agentkit_runtime.service import ChatService

BOUND_S = 30.0
"""No test waits longer for anything."""


@contextmanager
def serving(service: ChatService) -> Iterator[str]:
    """The server's base URL, while the block runs."""
    app = create_app(service, clock=lambda: 1_700_000_000.5)
    config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # asyncio.run in a thread of its own: uvicorn leaves signals alone outside the main thread.
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(BOUND_S)
            assert not thread.is_alive(), "the server did not stop"


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until `condition` holds; fails when that takes too long."""
    deadline = time.monotonic() + BOUND_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        pause.wait(0.002)
