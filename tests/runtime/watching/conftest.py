from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import torch

from agentkit_runtime.api import create_app
from agentkit_runtime.api.caller import Authenticator, Caller
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.load_text import load_text
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.watching import Watching, WatchOptions
from tests.runtime.api.serving import serving_app
from tests.runtime.service.scripted import Pace, Script, scripted_model

ANSWERS = {"hello": "Hello, who are you?", "novel": "Once..."}


@pytest.fixture(scope="session", autouse=True)
def one_compute_thread() -> None:
    """The scripted model's tensors are too small to share out."""
    torch.set_num_threads(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A running server that is watched."""

    url: str
    watching: Watching
    service: ChatService
    pace: Pace
    client: httpx2.Client

    def chat(self, text: str, *, headers: dict[str, str] | None = None, **body: Any) -> Any:
        """Ask, and return the whole HTTP answer."""
        messages = [{"role": "user", "content": text}]
        document = {"model": "scripted", "messages": messages, **body}
        return self.client.post("/v1/chat/completions", json=document, headers=headers or {})

    def rows(self, path: str = "/admin/v1/requests", **query: Any) -> list[dict[str, Any]]:
        """The last requests, newest first."""
        answer = self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["requests"])


MakeWatched = Callable[..., AbstractContextManager[Watched]]


@pytest.fixture(scope="session")
def watched_server(smollm2_gguf: Any) -> MakeWatched:
    """Start a watched server: `watched_server(WatchOptions(...), authenticator=..., ...)`."""
    text: tuple[Tokenizer, ChatTemplate] = load_text(smollm2_gguf)

    @contextmanager
    def start(
        options: WatchOptions | None = None,
        *,
        authenticator: Authenticator | None = None,
        n_slots: int = 4096,
        **app_options: Any,
    ) -> Iterator[Watched]:
        watch = {
            name: app_options.pop(name)
            for name in ("tracer_provider", "pressure")
            if name in app_options
        }
        pace = Pace(Script(text[0], ANSWERS))
        with scripted_model(*text, pace, n_slots=n_slots) as loaded:
            service = ChatService(loaded)
            watching = Watching(service, options, **watch)
            more = (watching.routes, *app_options.pop("more", ()))
            app = create_app(
                service,
                watchers=watching.watchers,
                more=more,
                open_paths=watching.open_paths,
                authenticator=authenticator,
                **app_options,
            )
            with (
                serving_app(watching.around(app)) as (url, _),
                httpx2.Client(base_url=url, timeout=30) as client,
            ):
                yield Watched(url=url, watching=watching, service=service, pace=pace, client=client)

    return start


@pytest.fixture(scope="module")
def watched(watched_server: MakeWatched) -> Iterator[Watched]:
    """One for a whole module."""
    with watched_server(WatchOptions(tenant_metrics=True)) as server:
        yield server


class Keys:
    """Two tenants and an operator. `Authorization: Bearer sk-<tenant>`."""

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        name = headers.get("authorization", "").removeprefix("Bearer sk-")
        if name == "admin":
            return Caller(tenant="operator", roles=frozenset({"admin"}), key_id="key_admin")
        if name in ("red", "blue"):
            return Caller(tenant=name, key_id=f"key_{name}")
        raise ApiError("an API key is needed", status=401, code="invalid_api_key")


def as_(name: str) -> dict[str, str]:
    """Headers of one of them."""
    return {"authorization": f"Bearer sk-{name}"}
