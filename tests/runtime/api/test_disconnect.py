"""A client that vanishes gives its slots back, whatever it was waiting for."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from tests.runtime.api.serving import Served
from tests.runtime.service.scripted import BOUND_S, wait_until


@contextmanager
def asking(served: Served, *, stream: bool) -> Iterator[socket.socket]:
    """A connection on which a reply without end was asked for; it is just cut at the end."""
    body = json.dumps(
        {
            "model": "scripted",
            "messages": [{"role": "user", "content": "novel"}],
            "stream": stream,
        }
    ).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    address = ("127.0.0.1", int(served.url.rpartition(":")[2]))
    with socket.create_connection(address, timeout=BOUND_S) as connection:
        connection.sendall(head.encode() + body)
        yield connection


def wait_until_aborted(served: Served) -> None:
    """Wait until nothing is held; the reply must not have come to its own end (the context's)."""
    before = served.pace.n_tokens
    wait_until(lambda: served.idle)
    assert served.pace.n_tokens - before < 1000


def hello(served: Served) -> int:
    """Ask for a short reply; its number of tokens."""
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
    answer = httpx2.post(f"{served.url}/v1/chat/completions", json=body, timeout=BOUND_S)
    return int(answer.json()["usage"]["completion_tokens"])


def read_until(connection: socket.socket, wanted: bytes) -> None:
    received = b""
    while wanted not in received:
        piece = connection.recv(65536)
        assert piece, f"the server closed the connection after {received!r}"
        received += piece


def test_vanishing_in_the_middle_of_a_stream(served: Served) -> None:
    """R34. Fault: the client was gone, and the answer went on."""
    with asking(served, stream=True) as connection:
        read_until(connection, b'"content":" more"')
        assert not served.idle

    wait_until_aborted(served)


def test_vanishing_while_an_unstreamed_answer_is_made(served: Served) -> None:
    """R34. Fault: what was not streamed was never cancelled."""
    before = served.pace.n_tokens
    with asking(served, stream=False):
        wait_until(lambda: served.pace.n_tokens > before + 5)
        assert not served.idle

    wait_until_aborted(served)


@pytest.mark.parametrize("stream", [True, False])
def test_vanishing_before_the_first_token_stops_within_one_step(
    served: Served, stream: bool
) -> None:
    """The model is held in its first step: when it goes on, no second step may come."""
    served.pace.hold()
    before = served.pace.n_tokens
    try:
        with asking(served, stream=stream):
            wait_until(served.pace.waiting.is_set)
        wait_until(lambda: served.n_handlers == 0)
    finally:
        served.pace.go()

    # The engine saw the abort before it sees this request.
    n_hello = hello(served)
    assert served.pace.n_tokens == before + 1 + n_hello
    wait_until(lambda: served.idle)


def test_the_server_answers_others_while_one_client_waits(served: Served) -> None:
    served.pace.hold()
    try:
        with asking(served, stream=True):
            wait_until(served.pace.waiting.is_set)
            assert httpx2.get(f"{served.url}/health", timeout=BOUND_S).status_code == 200
    finally:
        served.pace.go()

    wait_until(lambda: served.idle)


def test_slots_do_not_leak_over_many_vanished_clients(served: Served) -> None:
    for turn in range(10):
        with asking(served, stream=turn % 2 == 0):
            before = served.pace.n_tokens
            wait_until(lambda n=before: served.pace.n_tokens > n)  # type: ignore[misc]
    wait_until(lambda: served.idle)

    stats = served.service.stats()
    assert stats.free_slots + stats.cached_slots == stats.total_slots
