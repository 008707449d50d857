"""No key is in an answer, a log line, a metric or what is kept of requests: known, wrong or old."""

from __future__ import annotations

import logging
from typing import Any

import httpx2
import pytest

from agentkit_runtime.service import ChatService
from agentkit_runtime.tenancy.key import new_key, shown
from agentkit_runtime.watching.logs import JsonFormatter, TextFormatter
from agentkit_runtime.watching.options import WatchOptions
from tests.runtime.service.scripted import BOUND_S
from tests.runtime.tenancy.house import House, Text, chat_body, open_house
from tests.runtime.tenancy.isolation_cases import all_routes

BODIES: tuple[Any, ...] = (
    {"json": chat_body()},
    {"json": chat_body(stream=True)},
    {"json": {"model": "nonsense", "messages": 5}},
    {"content": b'{"model": "scripted", ', "headers": {"content-type": "application/json"}},
    {"content": b"\xff\xfe", "headers": {"content-type": "application/json"}},
    {},
)
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses", "/nowhere")


class Everything(logging.Handler):
    """Keeps each line, in both forms."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += [formatter.format(record) for formatter in (JsonFormatter(), TextFormatter())]


def ways(key: str) -> list[dict[str, str]]:
    """How a key can come, wrongly put ones included."""
    return [
        {"Authorization": f"Bearer {key}"},
        {"x-api-key": key},
        {"api-key": key, "x-api-key": f"{key}x"},
        {"Authorization": f"Basic {key}"},
        {"x-api-key": key, "x-agentkit-priority": "urgent"},
        {"x-api-key": key, "x-agentkit-deadline-s": "-1"},
    ]


def test_whatever_fails_no_key_is_told(
    smollm2_text: Text, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = Everything()
    root = logging.getLogger()
    level = root.level
    root.addHandler(logs)
    root.setLevel(logging.DEBUG)
    watch = WatchOptions(tenant_metrics=True, log_level="debug")
    try:
        with open_house(smollm2_text, tmp_path, watch=watch) as house:
            old = house.store.add(roles=frozenset({"user"}), tenant="old", now_s=0.0)
            house.store.revoke(old.record.id, now_s=1.0)
            canaries = [*house.keys.values(), old.key, new_key(), "sk-canary-" + "7" * 40]
            told = _drive(house, canaries)
            told += _break(house, monkeypatch)
            told.append(house.root.get("/metrics").text)
            for path in ("/admin/v1/requests", "/admin/v1/state", "/admin/v1/tree"):
                told.append(house.root.get(path).text)
    finally:
        root.removeHandler(logs)
        root.setLevel(level)

    assert len(told) > 100
    assert len(logs.lines) > 100
    everything = "\n".join((*told, *logs.lines))
    assert "key_" in everything, "keys have names for logs"
    for canary in canaries:
        for start in range(len(shown(canary)), len(canary) - 8):
            assert canary[start : start + 8] not in everything


def _drive(house: House, canaries: list[str]) -> list[str]:
    """Every endpoint with keys in several ways, and bodies of all sorts at some of them."""
    told = []

    def ask(method: str, path: str, key: str, way: int, body: Any) -> None:
        headers = {**ways(key)[way], **body.get("headers", {})}
        answer = client.request(method, path, **{**body, "headers": headers})
        told.append(f"{answer.headers} {answer.text}")

    with httpx2.Client(base_url=house.url, timeout=BOUND_S) as client:
        for number, (method, path) in enumerate(all_routes(house.app.routes)):
            if path not in ("/admin/v1/kv-events", "/openapi.json"):  # without end; long
                ask(method, path, canaries[number % len(canaries)], number % 6, {})
        for way in range(6):
            for number, canary in enumerate(canaries):
                path = PATHS[(way + number) % len(PATHS)]
                ask("POST", path, canary, way, BODIES[(2 * way + number) % len(BODIES)])
        for path in PATHS:  # let in, and then wrong
            for body in BODIES:
                ask("POST", path, house.keys["ann"], 1, body)
    return told


def _break(house: House, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A fault of ours in the middle of a request, which is logged with its traceback."""

    async def fault(self: ChatService, *arguments: object) -> None:
        raise LookupError("a fault of ours")

    monkeypatch.setattr(ChatService, "open_many", fault)
    answer = house.ann.post("/v1/chat/completions", json=chat_body())
    assert answer.status_code == 500
    return [answer.text]
