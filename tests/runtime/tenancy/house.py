"""A whole server with keys, as `serve` puts it together, in front of a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI

from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.kv.tiers.base import Tiers
from agentkit_runtime.server.access import Access
from agentkit_runtime.server.config import ServerConfig
from agentkit_runtime.server.parts import assembled
from agentkit_runtime.service import ChatService
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.serving import serving_app
from tests.runtime.service.scripted import BOUND_S, Pace, Script, scripted_model

ANSWERS = {"hello": "Hello, who are you?", "novel": "Once..."}
NAMESPACE_KEY = b"k" * 32

Text = tuple[Tokenizer, ChatTemplate]


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """The server and its people: two tenants, an operator, and somebody without a key."""

    url: str
    app: FastAPI
    service: ChatService
    pace: Pace
    store: KeyStore
    keys: dict[str, str]
    ann: httpx2.Client
    bob: httpx2.Client
    root: httpx2.Client
    nobody: httpx2.Client

    @property
    def idle(self) -> bool:
        """Whether no request runs and no slot is held."""
        stats = self.service.stats()
        return (stats.running, stats.waiting, stats.held_slots) == (0, 0, 0)


@contextmanager
def open_house(
    text: Text,
    folder: Path,
    *,
    n_slots: int = 4096,
    tiers: Callable[[KvStorage], Tiers] | None = None,
    **options: Any,
) -> Iterator[House]:
    """A house with its key store in `folder`, which may be there already."""
    pace = Pace(Script(text[0], ANSWERS))
    with ExitStack() as running:
        enter = running.enter_context
        store = enter(KeyStore(folder / "keys.db", create=True))
        keys = {
            name: store.add(roles=frozenset({role}), tenant=tenant, now_s=0.0).key
            for name, role, tenant in (
                ("ann", "user", "ann"),
                ("bob", "user", "bob"),
                ("root", "admin", None),
            )
        }
        loaded = enter(scripted_model(*text, pace, n_slots=n_slots, kv_events=1000, tiers=tiers))
        service = ChatService(loaded, namespace_key=NAMESPACE_KEY)
        config = ServerConfig(model="scripted", **{"access": Access(keys=store.path)} | options)
        parts = enter(assembled(service, config, Lifecycle("ready"), model_ids=("scripted",)))
        url, _ = enter(serving_app(parts.served))
        clients = {
            name: enter(httpx2.Client(base_url=url, headers=headers, timeout=BOUND_S))
            for name, headers in (
                *((name, {"Authorization": f"Bearer {key}"}) for name, key in keys.items()),
                ("nobody", {}),
            )
        }
        yield House(
            url=url,
            app=parts.app,
            service=service,
            pace=pace,
            store=store,
            keys=keys,
            **clients,
        )


def chat_body(text: str = "hello", *, system: str = "Be brief.", **more: Any) -> dict[str, Any]:
    """A chat completion of some sixty tokens."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return {"model": "scripted", "messages": messages, "max_tokens": 4, **more}


def ask(client: httpx2.Client, text: str = "hello", **more: Any) -> httpx2.Response:
    """A chat completion; the whole answer."""
    headers = more.pop("headers", None)
    return client.post("/v1/chat/completions", json=chat_body(text, **more), headers=headers)
