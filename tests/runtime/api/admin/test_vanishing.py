"""Who leaves while a prefix is computed stops that, as with answers."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.runtime.api.admin.operated import RULES, Operated, messages
from tests.runtime.service.scripted import BOUND_S, wait_until

PREFIX = {"messages": messages()}
WARM = {"version": 1, "request": {"messages": [{"role": "system", "content": RULES}]}}


@pytest.mark.parametrize(
    ("key", "path", "body"),
    [
        ("ann", "/v1/agentkit/warm", WARM),
        ("ann", "/v1/agentkit/prewarm", {**PREFIX, "pin": True}),
        ("root", "/admin/v1/prewarm", {**PREFIX, "tenant": "ann"}),
        ("root", "/admin/v1/pins", {**PREFIX, "tenant": "ann"}),
        ("root", "/admin/v1/published", PREFIX),
    ],
)
def test_a_prefix_whose_client_has_left_is_not_computed(
    operated: Operated, key: str, path: str, body: dict[str, Any]
) -> None:
    """Fault: it was computed, and even pinned, for nobody."""
    served, root = operated.served, operated.root
    engine = served.service._loaded.engine
    chat = {"model": "scripted", "messages": messages("hello"), "stream": True}
    served.pace.hold()
    try:
        with _sent(served.url, "bob", "/v1/chat/completions", chat):
            assert served.pace.waiting.wait(BOUND_S)  # the engine stands still in bob's step
            with _sent(served.url, key, path, body):
                wait_until(lambda: bool(engine._commands))
            wait_until(lambda: served.n_handlers == 1)
    finally:
        served.pace.go()
    wait_until(lambda: served.idle)

    assert operated.cached(operated.ann, "hello") == 0
    assert root.get("/admin/v1/pins").json()["data"] == []
    assert root.get("/admin/v1/published").json()["data"] == []


@contextmanager
def _sent(url: str, key: str, path: str, body: dict[str, Any]) -> Iterator[socket.socket]:
    """A connection on which something was asked for; it is just cut at the end."""
    encoded = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(encoded)}\r\n\r\n"
    )
    address = ("127.0.0.1", int(url.rpartition(":")[2]))
    with socket.create_connection(address, timeout=BOUND_S) as connection:
        connection.sendall(head.encode() + encoded)
        yield connection
