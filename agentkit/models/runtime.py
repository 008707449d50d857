"""Models that a server of ours serves: `runtime:http://host:port`.

What `local:` models have in this process, over HTTP: the same requests, masks, hints and warm-ups.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from agentkit.errors import ConfigurationError, ModelError, RequestRefused
from agentkit.events import ModelEnd, ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.models.own.answers import translate
from agentkit.models.own.client import ServerClient
from agentkit.models.own.hint_sender import HintSender
from agentkit.models.own.hints import hint_json, warmed_usage
from agentkit.models.own.model import OwnModel
from agentkit.models.own.names import checked_url, label_of, priority_of
from agentkit.models.own.tenant_keys import TenantKeys
from agentkit.usage import Usage
from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.kv.hints import Hint
from agentkit_runtime.wire_chat import (
    CHAT_PATH,
    INFO_PATH,
    VERSION,
    WARM_PATH,
    InfoDocument,
    WarmedDocument,
    WireError,
    chat_json,
    event_from_json,
    warm_json,
)

if TYPE_CHECKING:
    from httpx2 import AsyncClient


class RuntimeModel(OwnModel):
    """A model that an `agentkit-runtime serve` of ours serves.

    Usable from several event loops and threads. All agents that name the same model string are
    given the same object.

    The server tells tenants apart by their keys, not by what a request says. So agents with
    `tenant` set need a key for each; with one key for all they would share a cache in which each
    can feel the others' prompts.

    Args:
        url: of the server, such as `http://localhost:8321`.
        model: a name that the server goes by; empty is whatever it serves.
        api_key: of the server, or a key for each tenant ("" is agents without one). By default that
            in AGENTKIT_RUNTIME_KEY, or none.
        shares_cache: whether agents of several tenants may use one key, and so one cache.
        priority: the class of all requests; `batch` waits for the others.
        deadline_s: seconds after which an answer ends, finished or not; None waits for ever.
        silence_s: seconds after which a server that says nothing is given up.
        client: the HTTP client to use, which stays yours to close; by default one of our own.

    Raises:
        ConfigurationError: the URL or a number is none.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str = "",
        api_key: str | Mapping[str, str] | None = None,
        shares_cache: bool = False,
        priority: Literal["batch", "normal", "interactive"] = "normal",
        deadline_s: float | None = None,
        silence_s: float = 600.0,
        client: AsyncClient | None = None,
    ) -> None:
        super().__init__()
        self._url = checked_url(url)
        self._model = model
        self._keys = TenantKeys(self.label, api_key, shares_cache=shares_cache)
        self._priority = priority_of(priority)
        for name, seconds in (("deadline_s", deadline_s), ("silence_s", silence_s)):
            if seconds is not None and not 0 < seconds < float("inf"):
                raise ConfigurationError(
                    f"{name} must be a number of seconds above 0, got {seconds!r}"
                )
        self._deadline_s = deadline_s
        self._client = ServerClient(self._url, label=self.label, silence_s=silence_s, given=client)
        self._info: InfoDocument | None = None
        self._hints = HintSender(self._client, self._keys, label=self.label)

    @property
    def label(self) -> str:
        """The model string."""
        return f"runtime:{self._url}" + (f"#{self._model}" if self._model else "")

    @property
    def context_tokens(self) -> int | None:
        """The most tokens of a prompt and its answer; None until the server has told it."""
        info = self._info
        return None if info is None else info["context_tokens"]

    async def warm(self, request: ModelRequest, *, keep_s: float | None) -> Usage:
        """Compute a front when nothing else waits, and pin it if it is to be kept; see `Warms`."""
        front = self._front(request)
        pin = keep_s is not None
        body = warm_json(
            front,
            model=self._model,
            pin=pin,
            ttl_s=keep_s,
            name=label_of(request.agent) if pin else None,
        )
        headers = self._keys.headers(request.tenant)
        found = await self._client.document("POST", WARM_PATH, body, headers)
        warmed = cast("WarmedDocument", found)
        return warmed_usage(warmed["tokens"], warmed["cached_tokens"])

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the server; see `Model.stream`. Closing the generator closes the connection."""
        body = self._body(request)
        headers = self._keys.headers(request.tenant)
        try:
            await self._known(headers)
            ended = False
            async with aclosing(self._client.events(CHAT_PATH, body, headers)) as events:
                async for data in events:
                    for event in self._translated(data):
                        ended = ended or isinstance(event, ModelEnd)
                        yield event
            if not ended:
                raise ModelError(f"{self.label} broke off its answer", retryable=True)
        except ModelError as error:
            if error.retryable:
                self._info = None  # who answers next may be another server
            raise
        finally:
            if not request.reuse.again:
                self.conversation_ended(request)

    async def aclose(self) -> None:
        """Send the hints that are under way and close this event loop's connections."""
        await self._hints.sent()
        await self._client.aclose()

    def _body(self, request: ModelRequest) -> bytes:
        try:
            return chat_json(self._encoded(request), model=self._model)
        except WireError as error:
            raise RequestRefused(f"{self.label} cannot be sent the request: {error}") from error

    def _encoded(self, request: ModelRequest) -> ChatRequest:
        encoded = super()._encoded(request)
        return replace(
            encoded,
            session=label_of(encoded.session or ""),
            tags=frozenset(map(label_of, encoded.tags)),
            priority=self._priority,
            deadline_s=self._deadline_s,
        )

    def _translated(self, data: str) -> list[ModelEvent]:
        try:
            event = event_from_json(data)
        except WireError as error:
            raise ModelError(f"{self.label} sent {error}") from error
        return [] if event is None else [*translate(event, self.label, another_may_answer=True)]

    async def _known(self, headers: Mapping[str, str]) -> None:
        """Learn what the server is, once."""
        if self._info is not None:
            return
        info = cast("InfoDocument", await self._client.document("GET", INFO_PATH, None, headers))
        if info["version"] != VERSION:
            raise RequestRefused(
                f"{self.label} speaks version {info['version']} of the protocol and this agentkit "
                f"version {VERSION}; install the same release ({info['release']}) at both ends"
            )
        self._info = info

    def _advise(self, hint: Hint, tenant: str) -> None:
        """Send a hint, if anybody has asked this server anything: else it is worth none."""
        if self._info is not None:
            self._hints.send(hint_json(hint), tenant)

    def __repr__(self) -> str:
        return f"RuntimeModel({self._url!r}, model={self._model!r})"


class RuntimeModels:
    """One model for each model string, whoever names it first. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[str, RuntimeModel] = {}

    def get(self, rest: str) -> RuntimeModel:
        """Return the model that `runtime:rest` names.

        Raises:
            ConfigurationError: the rest is no URL.
        """
        with self._lock:
            if rest not in self._models:
                url, _, model = rest.partition("#")
                self._models[rest] = RuntimeModel(url, model=model)
            return self._models[rest]


def runtime_models() -> RuntimeModels:
    """Return the models of this process: its agents share connections and what is learnt."""
    return _MODELS


_MODELS = RuntimeModels()
