"""The servers that `serve_overhead.py` compares, each in a process of its own.

    python runtime/bench/overhead_server.py bare|ours TOKENS

`bare` is what FastAPI and uvicorn cost with nothing in it: a validated body, a stream of ready-made
events. `ours` is the whole server with keys, gates, metrics and logs before an engine that answers
at once: everything but the model. Both stop when their standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from agentkit_runtime.api.connections import Patience, patient_protocol
from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.load import EngineOptions, load_engine
from agentkit_runtime.reply import ChatStream
from agentkit_runtime.server.access import Access
from agentkit_runtime.server.config import ServerConfig
from agentkit_runtime.server.parts import assembled
from agentkit_runtime.service import ChatService
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.types import (
    Delta,
    EngineEvent,
    Finished,
    FinishReason,
    GenerateRequest,
    RequestStats,
)

WORD = " museum"


class Marks:
    """When the last request came to each of its stages, and those of all before."""

    def __init__(self) -> None:
        self.now: dict[str, float] = {}
        self.kept: list[dict[str, float]] = []

    def at(self, stage: str) -> None:
        """The request is here."""
        self.now[stage] = time.perf_counter()


class Marking:
    """Notes when requests reach the application; `/marks` tells all, and begins anew."""

    def __init__(self, app: ASGIApp, marks: Marks) -> None:
        self._app = app
        self._marks = marks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Note when it came, and pass it on."""
        if scope["type"] == "http" and scope["path"] == "/marks":
            kept, self._marks.kept = self._marks.kept, []
            await JSONResponse(kept)(scope, receive, send)
            return
        sent = next((value for name, value in scope["headers"] if name == b"x-sent"), b"0")
        self._marks.now = {"sent": float(sent), "application": time.perf_counter()}
        await self._app(scope, receive, send)
        self._marks.kept.append(self._marks.now)


# -- nothing but FastAPI -----------------------------------------------------------------------


class BareBody(BaseModel):
    """A chat, looked at no closer than this."""

    model_config = ConfigDict(extra="allow")
    messages: list[dict[str, Any]]


def bare_app(marks: Marks, n_tokens: int) -> ASGIApp:
    """Validates a body and streams events that were made before."""
    chunk = {
        "id": "chatcmpl-0",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "bare",
        "choices": [{"index": 0, "delta": {"content": WORD}, "finish_reason": None}],
    }
    ready = f"data: {json.dumps(chunk)}\n\n".encode()
    app = FastAPI()

    async def events() -> AsyncIterator[bytes]:
        for _ in range(n_tokens):
            await asyncio.sleep(0)
            yield ready
        yield b"data: [DONE]\n\n"

    @app.post("/v1/chat/completions")
    async def chat(body: BareBody) -> StreamingResponse:
        marks.at("submitted")
        return StreamingResponse(events(), media_type="text/event-stream")

    return app


# -- ours, before an engine that answers at once -----------------------------------------------


class ReadyEngine:
    """The engine of a loaded model, but requests are answered without it."""

    def __init__(self, engine: Any, marks: Marks, word: int, n_tokens: int) -> None:
        self._engine = engine
        self._marks = marks
        self._word = word
        self._n_tokens = n_tokens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def submit(self, request: GenerateRequest) -> ReadyGeneration:
        """Answer at once."""
        self._marks.at("submitted")
        return ReadyGeneration(len(request.prompt), self._word, self._n_tokens)


class ReadyGeneration:
    """A token each time that the loop comes round."""

    def __init__(self, n_prompt: int, word: int, n_tokens: int) -> None:
        self._stats = RequestStats(
            prompt_tokens=n_prompt,
            cached_tokens=0,
            completion_tokens=n_tokens,
            queue_s=0.0,
            ttft_s=0.0,
            total_s=0.0,
        )
        self._word = word
        self._n_tokens = n_tokens

    async def __aiter__(self) -> AsyncIterator[EngineEvent]:
        for number in range(self._n_tokens):
            await asyncio.sleep(0)
            yield Delta(WORD, (self._word,), stats=None if number else self._stats)
        yield Finished(reason=FinishReason.LENGTH, stats=self._stats)

    def abort(self) -> None:
        """There is nothing to stop."""


class MarkedService(ChatService):
    """Says when a request has come through HTTP."""

    stages = Marks()

    async def open_many(self, request: ChatRequest, n: int) -> list[ChatStream]:
        """As it is."""
        self.stages.at("decoded")
        return await super().open_many(request, n)


@contextmanager
def our_app(marks: Marks, n_tokens: int) -> Iterator[tuple[ASGIApp, str]]:
    """The server as `agentkit-runtime serve --keys` puts it together, and a key."""
    loaded = load_engine("smollm2", EngineOptions(max_slots=16_384, threads=1))
    (word,) = loaded.tokenizer.encode_rendered(WORD, None)
    ready: Any = ReadyEngine(loaded.engine, marks, word, n_tokens)
    MarkedService.stages = marks
    service = MarkedService(replace(loaded, engine=ready))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.db"
        with KeyStore(path, create=True) as store:
            key = store.add(roles=frozenset({"user"}), tenant="ann", now_s=time.time()).key
        config = ServerConfig(model="smollm2", access=Access(keys=path))
        with assembled(service, config, Lifecycle("ready")) as parts:
            yield parts.served, key
    service.close()


def main() -> None:
    """Serve until standard input ends."""
    kind, n_tokens = sys.argv[1], int(sys.argv[2])
    marks = Marks()
    if kind == "bare":
        _serve(Marking(bare_app(marks, n_tokens), marks), "")
    else:
        with our_app(marks, n_tokens) as (app, key):
            _serve(Marking(app, marks), key)


def _serve(app: ASGIApp, key: str) -> None:
    config = uvicorn.Config(
        app,
        port=0,
        lifespan="off",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        http=patient_protocol(Patience()) if key else "h11",
    )
    server = uvicorn.Server(config)
    listener = config.bind_socket()
    sys.stdout.write(f"{listener.getsockname()[1]} {key}\n")
    sys.stdout.flush()

    def end() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=end, daemon=True).start()
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
