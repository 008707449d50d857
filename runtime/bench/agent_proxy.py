"""Stands between a coding agent and the server: notes what goes through, and may demand a call."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FORCED: Mapping[str, object] = {
    "/v1/messages": {"type": "any", "disable_parallel_tool_use": True},
    "/v1/chat/completions": "required",
    "/v1/responses": "required",
}
"""What demands a call, by endpoint."""


@dataclass
class Seen:
    """What went through the proxy while an agent ran."""

    statuses: list[int] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    prompt_tokens: list[int] = field(default_factory=list)
    cached_tokens: list[int] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    """What an agent changed of the front that it had sent before: the first part of each."""
    unserved: set[str] = field(default_factory=set)
    """What the server told that it leaves out."""
    sent: list[list[str]] = field(default_factory=list)
    """The parts of each request's prompt, in order."""
    n_results: int = 0
    """Results of tools in the last request."""
    failures: list[str] = field(default_factory=list)


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on to the server at the URL `target`, and notes them."""

    daemon_threads = True

    def __init__(self, target: str, *, forces: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target.removeprefix("http://")
        self.forces = forces
        self.seen = Seen()

    @property
    def url(self) -> str:
        """Where agents find it."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        asked = self._look(path, body)
        connection = http.client.HTTPConnection(self.server.target, timeout=600)
        hops = ("host", "accept-encoding", "content-length", "connection")
        headers = {k: v for k, v in self.headers.items() if k.lower() not in hops}
        connection.request(self.command, self.path, asked, headers)
        answer = connection.getresponse()
        said = answer.read()
        if path in FORCED:
            _note(self.server.seen, answer.status, said)
            self.server.seen.unserved.update(
                name for name in answer.getheader("x-agentkit-unserved", "").split(", ") if name
            )
        with contextlib.suppress(BrokenPipeError):  # an agent that was stopped
            self.send_response(answer.status)
            self.send_header("content-type", answer.getheader("content-type", "text/plain"))
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

    do_GET = do_POST = do_HEAD = _pass_on

    def _look(self, path: str, body: bytes) -> bytes:
        if path not in FORCED:
            return body
        self.server.seen.paths.add(path)
        asked: dict[str, Any] = json.loads(body)
        self.server.seen.n_results = _results_in(asked)
        _note_moved(self.server.seen, asked)
        if not (self.server.forces and asked.get("tools")) or self.server.seen.n_results:
            return body
        return json.dumps({**asked, "tool_choice": FORCED[path]}).encode()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the report does."""


def _parts(asked: Mapping[str, Any]) -> list[str]:
    """What a prompt is made of, in order, but for marks that only concern the cache."""
    said = asked.get("messages") or asked.get("input") or []
    turns = [said] if isinstance(said, str) else said
    front = [asked.get("tools"), asked.get("system") or asked.get("instructions")]
    return [json.dumps(_unmarked(part)) for part in [*front, *turns]]


def _unmarked(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _unmarked(value) for key, value in part.items() if key != "cache_control"}
    return [_unmarked(value) for value in part] if isinstance(part, list) else part


def _note_moved(seen: Seen, asked: Mapping[str, Any]) -> None:
    """Compare a request with the one before that shares most with it, if it is its conversation."""
    parts = _parts(asked)
    shared = [(_n_shared(earlier, parts), len(earlier)) for earlier in seen.sent]
    n_shared, n_earlier = max(shared, default=(0, 0))
    if 2 < n_shared < n_earlier:
        seen.moved.append(f"message {n_shared - 2} of {n_earlier - 2}")
    seen.sent.append(parts)


def _n_shared(one: list[str], other: list[str]) -> int:
    return next(
        (n for n, (left, right) in enumerate(zip(one, other, strict=False)) if left != right),
        min(len(one), len(other)),
    )


def _results_in(asked: Mapping[str, Any]) -> int:
    """Results of tools in a conversation of any of the three APIs."""
    text = json.dumps(asked.get("messages") or asked.get("input") or [])
    kinds = (
        '"tool_result"',
        '"role": "tool"',
        '"function_call_output"',
        '"custom_tool_call_output"',
    )
    return sum(text.count(kind) for kind in kinds)


def _note(seen: Seen, status: int, said: bytes) -> None:
    seen.statuses.append(status)
    if status >= 400:
        seen.failures.append(said.decode("utf-8", "replace")[:300])
        return
    usage: dict[str, Any] = {}
    text = said.decode("utf-8", "replace")
    for line in [f"data: {text}"] if text.startswith("{") else text.splitlines():
        if line.startswith("data: {"):
            document = json.loads(line.removeprefix("data: "))
            holder = document.get("response") or document
            usage = holder.get("usage") or usage
    prompt, cached = _tokens(usage)
    seen.prompt_tokens.append(prompt)
    seen.cached_tokens.append(cached)


def _tokens(usage: Mapping[str, Any]) -> tuple[int, int]:
    """Prompt and cached tokens, as each API counts them."""
    if "cache_read_input_tokens" in usage:
        read = int(usage["cache_read_input_tokens"])
        return int(usage["input_tokens"]) + int(usage["cache_creation_input_tokens"]) + read, read
    prompt = usage.get("prompt_tokens", usage.get("input_tokens", 0))
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    return int(prompt), int(details.get("cached_tokens", 0))
