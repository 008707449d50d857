"""A whole server with keys, and the command line before it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch
from typer.testing import CliRunner

from agentkit_runtime import cli
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.load_text import load_text
from agentkit_runtime.server.access import Access
from agentkit_runtime.server.config import ServerConfig
from agentkit_runtime.server.parts import assembled
from agentkit_runtime.service import ChatService
from agentkit_runtime.tenancy.store import KeyStore
from tests.runtime.api.serving import serving_app
from tests.runtime.service.scripted import BOUND_S, Pace, Script, scripted_model

ANSWERS = {
    "hello": "Hello, who are you?",
    "again": "Good day.",
    "Question": "Nothing is known.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """What it printed."""
        return json.loads(self.stdout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """A server with a scripted model and keys of an operator and of the tenants ann and bob."""

    url: str
    keys: dict[str, str]
    pace: Pace

    def run(self, command: str, *arguments: str, key: str | None = "ann") -> Ran:
        """A command with the server's address in front of its arguments."""
        environment = {"AGENTKIT_RUNTIME_KEY": "" if key is None else self.keys[key]}
        done = CliRunner().invoke(cli.app, [command, self.url, *arguments], env=environment)
        return Ran(code=done.exit_code, stdout=done.stdout, stderr=done.stderr)

    def ask(self, text: str, system: str | None = None, **headers: str) -> dict[str, Any]:
        """A chat of ann's; its usage."""
        messages = [] if system is None else [{"role": "system", "content": system}]
        answer = httpx2.post(
            f"{self.url}/v1/chat/completions",
            headers={"Authorization": f"Bearer {self.keys['ann']}", **headers},
            json={
                "model": "scripted",
                "messages": [*messages, {"role": "user", "content": text}],
            },
            timeout=BOUND_S,
        )
        usage: dict[str, Any] = answer.json()["usage"]
        return usage


@pytest.fixture(scope="session")
def shared_shop(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    torch.set_num_threads(1)
    store = tmp_path_factory.mktemp("keys") / "keys.db"
    with KeyStore(store, create=True) as opened:
        made = {
            "ann": opened.add(roles=frozenset({"user"}), tenant="ann", now_s=0.0).key,
            "bob": opened.add(roles=frozenset({"user"}), tenant="bob", now_s=0.0).key,
            "root": opened.add(roles=frozenset({"admin"}), tenant=None, now_s=0.0).key,
        }
    tokenizer, template = load_text(smollm2_gguf)
    pace = Pace(
        Script(
            tokenizer,
            {"hello": "Hello, who are you?", "again": "Good day.", "Question": "Nothing is known."},
        )
    )
    config = ServerConfig(model="scripted", access=Access(keys=store))
    with scripted_model(tokenizer, template, pace) as loaded:
        with assembled(ChatService(loaded), config, Lifecycle("ready")) as parts:
            with serving_app(parts.served) as (url, _):
                yield Shop(url=url, keys=made, pace=pace)


@pytest.fixture
def shop(shared_shop: Shop) -> Shop:
    """The server with nothing cached."""
    answer = httpx2.post(
        f"{shared_shop.url}/admin/v1/flush",
        headers={"Authorization": f"Bearer {shared_shop.keys['root']}"},
        json={"all": True},
    )
    assert answer.status_code == 200, answer.text
    return shared_shop
