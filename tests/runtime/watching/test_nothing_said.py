"""No log line, metric, span or remembered request holds what was said, or a key."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import opentelemetry.trace
import pytest
from fastapi import FastAPI

from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.load_text import load_text
from agentkit_runtime.server.access import Access
from agentkit_runtime.server.config import ServerConfig
from agentkit_runtime.server.parts import assembled
from agentkit_runtime.service import ChatService
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.watching import WatchOptions
from agentkit_runtime.watching.logs import JsonFormatter, TextFormatter
from tests.agentkit.observe.spans import Seen
from tests.runtime.api.serving import serving_app
from tests.runtime.service.scripted import Script, scripted_model

CANARY = "zebrafish"
SCHEMA = {"type": "object", "properties": {CANARY: {"type": "string", "not": {"const": CANARY}}}}
TOOL = {"name": CANARY, "description": CANARY, "parameters": {"type": "object", "properties": {}}}
PLAIN: dict[str, Any] = {
    "model": "scripted",
    "max_tokens": 20,
    "messages": [{"role": "user", "content": f"{CANARY}?"}],
    "input": f"{CANARY}?",
    "prompt": f"{CANARY}?",
    "text": f"{CANARY}?",
}
BODIES: tuple[dict[str, Any] | bytes, ...] = (
    {**PLAIN, "stream": True},
    {**PLAIN, "messages": CANARY, "input": 3, "prompt": {CANARY: 1}},
    {**PLAIN, "tools": [{"type": "function", "function": TOOL}], "tool_choice": CANARY},
    {**PLAIN, "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
    {**PLAIN, "messages": [{"role": "user", "content": f"the model breaks on {CANARY}"}]},
    {**PLAIN, "messages": [{"role": "user", "content": CANARY * 2000}], "input": CANARY * 2000},
    {"session": "s", "tenant": CANARY, "tag": CANARY, "name": CANARY, "handle": CANARY},
    CANARY.encode() + b"\xff\xfe",
)
FOREIGN = {
    "/v1/chat/completions": ("input", "prompt", "text"),
    "/v1/responses": ("messages", "max_tokens", "prompt", "text"),
}


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """All that is logged, in both forms; what the test's own client logs is left out."""
    stream = io.StringIO()
    root = logging.getLogger()
    level = root.level
    handlers = []
    for formatter in (JsonFormatter(), TextFormatter()):
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatter)
        handler.addFilter(lambda record: not record.name.startswith("http"))
        handlers.append(handler)
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield stream
    finally:
        root.setLevel(level)
        for handler in handlers:
            root.removeHandler(handler)


@contextmanager
def whole_server(gguf: Path, keys: Path) -> Iterator[tuple[str, FastAPI]]:
    """A server as `serve` puts it together, before a scripted model that breaks on some texts."""
    text = load_text(gguf)
    script = Script(text[0], {f"{CANARY}?": f"I am a {CANARY}."})
    with scripted_model(*text, script) as loaded:
        config = ServerConfig(
            model="scripted",
            access=Access(keys=keys),
            watch=WatchOptions(otel=True, tenant_metrics=True),
        )
        with (
            assembled(ChatService(loaded), config, Lifecycle("ready")) as parts,
            serving_app(parts.served) as (url, _),
        ):
            yield url, parts.app


def operations(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Method and path of every endpoint, but those that end the server's work."""
    for path, methods in app.openapi()["paths"].items():
        for method in methods if path != "/admin/v1/drain" else ():
            yield method.upper(), path.replace("{", "").replace("}", "")


def test_nothing_that_was_said_and_no_key_is_written_anywhere(
    smollm2_gguf: Path, tmp_path: Path, written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen()
    monkeypatch.setattr(opentelemetry.trace, "get_tracer_provider", lambda: seen.tracers)
    path = tmp_path / "keys" / "keys.db"
    with KeyStore(path, create=True) as store:
        user = store.add(roles=frozenset({"user"}), tenant="red", now_s=0.0)
        admin = store.add(roles=frozenset({"admin"}), tenant=None, now_s=0.0)
    statuses: dict[tuple[str, str], set[int]] = {}
    with whole_server(smollm2_gguf, path) as (url, app), httpx2.Client(base_url=url) as client:
        keys = {"user": user.key, "admin": admin.key, "nobody": f"sk-{CANARY}"}
        for method, route in operations(app):
            for status in send_all(client, method, route, keys):
                statuses.setdefault((method, route), set()).add(status)
        bearer = {"authorization": f"Bearer {admin.key}"}
        told = {
            "last requests": client.get("/admin/v1/requests?limit=1000", headers=bearer).text,
            "metrics": client.get("/metrics", headers=bearer).text,
        }
    told["logs"] = written.getvalue()
    told["spans"] = "".join(span.to_json() for span in seen.spans)
    assert 200 in statuses["POST", "/v1/chat/completions"]
    assert 500 in statuses["POST", "/v1/chat/completions"], "the model broke"
    for what, text in told.items():
        assert "red" in text, f"{what}: somebody was there"
        assert CANARY not in text.lower(), what
        for key in (user.key, admin.key):
            assert key[12:] not in text, what


def fitting(route: str, body: dict[str, Any]) -> dict[str, Any]:
    """`body` without what an endpoint refuses at once because it is another's."""
    others = FOREIGN.get(route, ())
    return {name: value for name, value in body.items() if name not in others}


def send_all(client: httpx2.Client, method: str, route: str, keys: dict[str, str]) -> Iterator[int]:
    """Ask an endpoint in every way, and read the beginning of what it answers."""
    has_body = method in ("POST", "PUT", "PATCH")
    allowed = "admin" if route.startswith("/admin") else "user"
    for who, key in keys.items():
        if who != allowed and "completions" not in route:
            continue  # every other endpoint refuses these in the same way
        for body in BODIES if has_body and who == allowed else (PLAIN if has_body else None,):
            with client.stream(
                method,
                f"{route}?{CANARY}={CANARY}",
                headers={"authorization": f"Bearer {key}", "x-api-key": key, "x-odd": CANARY},
                json=fitting(route, body) if isinstance(body, dict) else None,
                content=body if isinstance(body, bytes) else None,
            ) as answer:
                if has_body or "event-stream" not in answer.headers.get("content-type", ""):
                    answer.read()  # a stream that was asked for without a body never ends
                yield answer.status_code
