"""Connections that are held open for nothing, and the end of a server."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2
import pytest
import uvicorn

from agentkit_runtime.api import create_app
from agentkit_runtime.api.connections import Patience, patient_protocol
from agentkit_runtime.api.draining import DrainingServer
from agentkit_runtime.api.starting import Starting
from agentkit_runtime.governing.gate import PressureGate
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.conftest import ANSWERS
from tests.runtime.service.scripted import BOUND_S, Pace, Script, scripted_model, wait_until

BODY = {"model": "scripted", "messages": [{"role": "user", "content": "novel"}], "stream": True}


@dataclass(frozen=True)
class Run:
    url: str
    server: DrainingServer
    service: ChatService
    pace: Pace
    starting: Starting
    thread: threading.Thread

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=BOUND_S)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def idle(self) -> bool:
        stats = self.service.stats()
        return (stats.running, stats.waiting, stats.held_slots) == (0, 0, 0)


@contextmanager
def running(
    text: tuple[Tokenizer, ChatTemplate],
    *,
    patience: Patience | None = None,
    drain_s: float = BOUND_S,
    body_timeout_s: float = 60.0,
) -> Iterator[Run]:
    pace = Pace(Script(text[0], ANSWERS))
    with (
        scripted_model(*text, pace, n_slots=60_000) as loaded,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        service, lifecycle, starting = ChatService(loaded), Lifecycle(), Starting()
        gate = PressureGate(service, lifecycle, clock=lambda: 0.0)
        app = create_app(service, gate=gate, lifecycle=lifecycle, body_timeout_s=body_timeout_s)
        config = uvicorn.Config(
            starting,
            log_level="error",
            lifespan="off",
            http=patient_protocol(patience or Patience()),
            timeout_graceful_shutdown=5,
        )
        server = DrainingServer(config, lifecycle, drain_s=drain_s)
        server.answering = app.state.site.answering
        lifecycle.ready()
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            wait_until(lambda: server.started)
            starting.became = app
            yield Run(url, server, service, pace, starting, thread)
        finally:
            pace.go()
            server.should_exit = True
            thread.join(BOUND_S)
            assert not thread.is_alive(), "the server did not stop"


def head(n_body: int) -> bytes:
    return (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {n_body}\r\n\r\n"
    ).encode()


def test_headers_that_do_not_come_close_the_connection(
    smollm2_text: tuple[Tokenizer, ChatTemplate],
) -> None:
    with running(smollm2_text, patience=Patience(header_s=0.05)) as run:
        with run.connect() as silent:
            assert silent.recv(1) == b""
        with run.connect() as half:
            half.sendall(b"GET /live HTTP/1.1\r\nHo")
            assert half.recv(1) == b""
        with run.connect() as second:  # also those of a second request on the same connection
            second.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert second.recv(4096).startswith(b"HTTP/1.1 200")
            second.sendall(b"GET /li")
            while second.recv(4096):
                pass


def test_a_connection_without_a_next_request_is_closed_after_longer_than_pools_keep_one(
    smollm2_text: tuple[Tokenizer, ChatTemplate],
) -> None:
    assert Patience().idle_s > 60, "a proxy would send into a connection's end"
    with running(smollm2_text, patience=Patience(idle_s=0.05)) as run, run.connect() as client:
        client.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = client.recv(4096)
        assert received.startswith(b"HTTP/1.1 200")
        while client.recv(4096):
            pass


def test_an_answer_may_take_longer_than_headers(
    smollm2_text: tuple[Tokenizer, ChatTemplate],
) -> None:
    with running(smollm2_text, patience=Patience(header_s=0.05)) as run:
        run.pace.hold()
        body = json.dumps({**BODY, "max_tokens": 2}).encode()
        with run.connect() as slow:
            slow.sendall(head(len(body)) + body)
            with run.connect() as silent:
                assert silent.recv(1) == b""  # so much time has passed
            run.pace.go()
            received = b""
            while b"[DONE]" not in received:
                piece = slow.recv(65536)
                assert piece, received
                received += piece


def test_a_client_that_does_not_read_is_cut_off_and_its_answer_aborted(
    smollm2_text: tuple[Tokenizer, ChatTemplate],
) -> None:
    with running(smollm2_text, patience=Patience(stall_s=0.05)) as run:
        # Small buffers: a few kilobytes are then more than the kernel takes.
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        with deaf:
            deaf.connect(("127.0.0.1", run.port))
            # A long answer that is not streamed in many small pieces would fit the kernel's buffer.
            body = json.dumps({**BODY, "n": 8, "logprobs": True, "top_logprobs": 20}).encode()
            deaf.sendall(head(len(body)) + body)
            wait_until(lambda: run.service.stats().running > 0)
            wait_until(lambda: run.idle)
            wait_until(lambda: not run.server.server_state.connections)
        assert run.pace.n_tokens < 50_000, "the answers came to their own end"


def test_a_body_that_does_not_come_is_408(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> None:
    with running(smollm2_text, body_timeout_s=0.05) as run, run.connect() as half:
        half.sendall(head(100) + b'{"model":')
        answer = b""
        while piece := half.recv(4096):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"did not come within 0.05 s" in answer


def test_while_the_model_is_loaded_probes_are_answered_and_others_told_to_come_again(
    smollm2_text: tuple[Tokenizer, ChatTemplate],
) -> None:
    with running(smollm2_text) as run:
        app, run.starting.became = run.starting.became, None
        probes = {path: httpx2.get(run.url + path) for path in ("/live", "/ready", "/health")}
        asked = httpx2.post(f"{run.url}/v1/chat/completions", json=BODY)
        run.starting.became = app

        assert {path: answer.status_code for path, answer in probes.items()} == {
            "/live": 200, "/ready": 503, "/health": 503,
        }  # fmt: skip
        assert asked.json()["error"]["code"] == "server_starting"
        assert asked.headers["retry-after"] == "5"
        assert httpx2.get(f"{run.url}/ready").status_code == 200


def test_a_drain_finishes_what_runs_refuses_what_comes_and_says_so_to_probes(
    smollm2_text: tuple[Tokenizer, ChatTemplate],
) -> None:
    with running(smollm2_text) as run:
        run.pace.hold()
        with httpx2.stream(
            "POST", f"{run.url}/v1/chat/completions", json={**BODY, "max_tokens": 3}
        ) as answer:
            wait_until(run.pace.waiting.is_set)
            run.server.should_exit = True
            wait_until(lambda: httpx2.get(f"{run.url}/ready").status_code == 503)
            late = httpx2.post(f"{run.url}/v1/chat/completions", json=BODY)
            assert (late.status_code, late.json()["error"]["code"]) == (503, "server_draining")
            assert httpx2.get(f"{run.url}/live").status_code == 200
            run.pace.go()
            lines = [line for line in answer.iter_lines() if line]
        run.thread.join(BOUND_S)

        assert lines[-1] == "data: [DONE]"
        assert '"finish_reason":"length"' in lines[-2]
        assert not run.thread.is_alive()


def test_what_does_not_finish_in_time_ends_with_a_word_about_it(
    smollm2_text: tuple[Tokenizer, ChatTemplate],
) -> None:
    with running(smollm2_text, drain_s=0.01) as run:
        run.pace.hold()
        with httpx2.stream("POST", f"{run.url}/v1/chat/completions", json=BODY) as answer:
            wait_until(run.pace.waiting.is_set)
            run.server.should_exit = True
            wait_until(lambda: httpx2.get(f"{run.url}/ready").status_code == 503)
            threading.Timer(0.2, run.pace.go).start()
            lines = [line for line in answer.iter_lines() if line]
        run.thread.join(BOUND_S)

        assert any('"error"' in line for line in lines), lines[-3:]
        assert run.idle


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_does_not_wait_for_answers(
    smollm2_text: tuple[Tokenizer, ChatTemplate], number: int
) -> None:
    with running(smollm2_text, drain_s=10 * BOUND_S) as run:
        run.pace.hold()
        with httpx2.stream("POST", f"{run.url}/v1/chat/completions", json=BODY):
            wait_until(run.pace.waiting.is_set)
            run.server.handle_exit(number, None)
            wait_until(lambda: httpx2.get(f"{run.url}/ready").status_code == 503)
            assert run.thread.is_alive(), "the first one waits"
            run.server.handle_exit(number, None)
            run.thread.join(BOUND_S)
            assert not run.thread.is_alive()


@pytest.mark.parametrize("field", ["header_s", "stall_s", "idle_s"])
def test_no_patience_at_all_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be at least"):
        Patience(**{field: 0.0})


def test_a_request_with_two_lengths_is_the_last_of_its_connection(
    smollm2_text: tuple[Tokenizer, ChatTemplate],
) -> None:
    smuggled = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(smollm2_text) as run, run.connect() as client:
        lengths = b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        client.sendall(head(5).replace(b"\r\n\r\n", lengths) + smuggled)
        received = b""
        while some := client.recv(4096):
            received += some
    assert received.count(b"HTTP/1.1 ") == received.count(b"HTTP/1.1 400") == 1
