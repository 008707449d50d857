"""A file server on the loopback interface that misbehaves as it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Mood = Literal[
    "well",
    "no ranges",
    "cut",
    "wrong range",
    "busy",
    "gone",
    "other bytes",
    "longer",
    "shorter",
    "stalls",
]


@dataclass
class FileServer:
    """What it serves, how it behaves request by request (the last mood stays), what was asked."""

    content: bytes
    moods: list[Mood] = field(default_factory=lambda: ["well"])
    ranges: list[str | None] = field(default_factory=list)
    port: int = 0
    go_on: threading.Event = field(default_factory=threading.Event)
    """What a stalled answer waits for."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/moved/model.whl"

    def next_mood(self) -> Mood:
        return self.moods.pop(0) if len(self.moods) > 1 else self.moods[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    state: FileServer


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        if self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", "/model.whl")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        state = self.server.state
        state.ranges.append(self.headers["Range"])
        self._answer(state, state.next_mood())

    def _answer(self, state: FileServer, mood: Mood) -> None:
        start = 0
        asked = self.headers["Range"]
        if asked and mood != "no ranges":
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if mood in ("busy", "gone"):
            self.send_error(503 if mood == "busy" else 404)
        elif start >= len(state.content):
            self.send_error(416)
        else:
            self._send(state.content, mood, start)

    def _send(self, content: bytes, mood: Mood, start: int) -> None:
        body = content[start:]
        changed = {"other bytes": bytes(len(body)), "longer": body + b"more", "shorter": body[:-1]}
        body = changed.get(mood, body)
        self.send_response(206 if start else 200)
        if start:
            first, end = start + (mood == "wrong range"), len(content)
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{end}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if mood == "cut":
            body = body[: len(body) // 2]
            self.close_connection = True
        if mood == "stalls":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.server.state.go_on.wait(30)
            body = body[len(body) // 2 :]
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def serving(content: bytes, *moods: Mood) -> Iterator[FileServer]:
    """Serve until the body ends. `/moved/...` redirects to the file."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.state = FileServer(content, list(moods or ("well",)), port=server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.state
    finally:
        server.state.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
