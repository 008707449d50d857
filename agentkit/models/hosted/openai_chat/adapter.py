"""The adapter: lays out, fills in, sends, and learns what a server does not know."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from agentkit.blocks import File, Image
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import Provider
from agentkit.context import SystemPart
from agentkit.errors import RequestRefused
from agentkit.events import ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.begun import Begun
from agentkit.models.hosted.openai_chat.attachments import can_show
from agentkit.models.hosted.openai_chat.body import (
    ChatBody,
    cache_fields,
    finish,
    lost_marks,
    steering_fields,
)
from agentkit.models.hosted.openai_chat.clients import new_client
from agentkit.models.hosted.openai_chat.encode import Encoder
from agentkit.models.hosted.openai_chat.hosts import HostPins
from agentkit.models.hosted.openai_chat.layout import ChatLayout, Sheet, lay_out
from agentkit.models.hosted.openai_chat.learning import Refusals, Silence
from agentkit.models.hosted.openai_chat.options import ChatOptions
from agentkit.models.hosted.openai_chat.profiles import Profile
from agentkit.models.hosted.openai_chat.rules import wire_rules
from agentkit.models.hosted.openai_chat.stream import ChunkReader
from agentkit.models.hosted.openai_common import LostMarkWarning, send
from agentkit.models.hosted.rate_headers import OnHeaders
from agentkit.models.hosted.wire import Body
from agentkit.models.loop_clients import LoopClients
from agentkit.warn import warn_user

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class ChatAdapter:
    """A model behind OpenAI's Chat Completions, or behind one of the many servers that speak it.

    Args:
        model: the server's name of the model.
        profile: what kind of server it is; see `PROFILES`.
        client: the official client; by default one with the key from the profile's variable. An
            `AsyncAzureOpenAI` must be made with its `azure_deployment`.
        base_url: where the server is; by default the profile's.
        options: settings for all requests.
        now_s: a monotonic clock, for the time to the first token.
    """

    def __init__(
        self,
        model: str,
        *,
        profile: Profile,
        client: AsyncOpenAI | None = None,
        base_url: str | None = None,
        options: ChatOptions | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._profile = profile
        self._options = options or ChatOptions()
        self._now_s = now_s
        self.on_headers: OnHeaders | None = None
        """Hears the headers of each response; see `TellsHeaders`."""
        self._rules = wire_rules(profile, model)
        self._clients = LoopClients(
            client,
            lambda: new_client(self.label, profile, base_url),
            lambda client: client.close(),
        )
        self._encoder = Encoder(profile, self.label, takes_marks=self._rules.takes_marks)
        self._begun = Begun[Sheet]()
        self._hosts = HostPins(now_s, self._rules.idle_s)
        self._refusals = Refusals(
            self.label, profile, one_system_message=self._options.one_system_message
        )
        self._silence = Silence(self.label, self._rules.usage)
        self._has_lost_marks = False

    @property
    def label(self) -> str:
        """The model string."""
        return f"{self._profile.provider}:{self._model}"

    @property
    def provider(self) -> Provider:
        """Whose cache rules hold."""
        return self._profile.provider

    @property
    def model(self) -> str:
        """The server's name of the model."""
        return self._model

    def shows(self, block: Image | File) -> bool:
        """Whether the server can be shown an image or a document."""
        return can_show(block, self._profile)

    @property
    def refused_fields(self) -> frozenset[str]:
        """Fields that the server does not know. They are not sent any more."""
        return self._refusals.fields

    def layout(self, request: ModelRequest) -> ChatLayout:
        """Return the request's pieces; see `Adapter.layout`."""
        if request.settings.top_k is not None and not self._profile.top_k:
            raise RequestRefused(
                f"{self.label} has no top_k, got {request.settings.top_k!r}; leave it out of "
                "settings, or use top_p"
            )
        return lay_out(
            request,
            self._encoder,
            self._begun,
            model=self._model,
            profile=self._profile,
            options=self._options,
            one_system_message=self._refusals.one_system_message,
        )

    def body(self, layout: ChatLayout, plan: CachePlan, request: ModelRequest) -> ChatBody:
        """Return the final bytes; see `Adapter.body`."""
        self._warn_of_lost_marks(layout, plan)
        key = _host_key(request)
        return finish(
            layout,
            plan,
            self._profile,
            model=self._model,
            steering=steering_fields(request, plan, self._profile, self._options),
            hints={**cache_fields(plan, self._profile), **self._host_field(key)},
            headers=self._options.headers,
            without=self._refusals.fields,
            # A field that keeps tenants apart is not given up for a server that refuses it.
            needed=self._rules.isolating if request.tenant else frozenset(),
            host_key=key,
        )

    async def stream(self, body: Body) -> AsyncGenerator[ModelEvent, None]:
        """Send it; see `Adapter.stream`.

        Where the server refuses a field that only serves the cache, the request is sent once more
        without, and so are all later ones.
        """
        has_begun = False
        try:
            async with aclosing(self._send(body, frozenset())) as events:
                async for event in events:
                    has_begun = True
                    yield event
            return
        except RequestRefused as error:
            refused = frozenset() if has_begun else self._refusals.spared(body, error)
            if not refused or not isinstance(body, ChatBody):
                raise self._refusals.explained(error) from error
            without = self._refusals.fields | refused
            again = dataclasses.replace(body, data=body.render(without))
        async with aclosing(self._send(again, refused)) as events:
            async for event in events:
                yield event

    async def touch(self, body: Body) -> ModelEvent | None:
        """None: these servers have no request that only reads."""
        del body
        return None

    async def aclose(self) -> None:
        """Close the client of this event loop, unless it was given."""
        await self._clients.aclose()

    async def _send(self, body: Body, without: frozenset[str]) -> AsyncGenerator[ModelEvent, None]:
        reader = ChunkReader(self.label, self._profile, self._rules.usage, self._now_s)
        sent = send(
            await self._clients.get(),
            "/chat/completions",
            body,
            label=self.label,
            key_variable=self._profile.key_variable or "the client",
            on_headers=self.on_headers,
        )
        async with aclosing(sent) as chunks:
            async for chunk in chunks:
                self._refusals.learn(without)
                for event in reader.push(chunk):
                    yield event
        if reader.host is not None and isinstance(body, ChatBody):
            self._hosts.served(body.host_key, reader.host)
        for event in reader.finish(self._silence.note(reader.usage)):
            yield event

    def _host_field(self, key: tuple[str, ...]) -> dict[str, object]:
        field = self._profile.served_by
        if field is None or field in self._options.body or not self._options.holds_host:
            return {}
        host = self._hosts.wanted(key)
        return {} if host is None else {field: {"order": [host], "allow_fallbacks": True}}

    def _warn_of_lost_marks(self, layout: ChatLayout, plan: CachePlan) -> None:
        lost = lost_marks(layout, plan)
        if not lost or self._profile.mark is None or self._has_lost_marks:
            return
        self._has_lost_marks = True
        kinds = sorted({layout.blocks[index].block.kind.value for index in lost})
        warn_user(
            f"{self.label}: no cache mark can stand on {kinds}; it is left out", LostMarkWarning
        )

    def __repr__(self) -> str:
        return f"ChatAdapter({self._model!r}, profile={self._profile.provider.value!r})"


def _host_key(request: ModelRequest) -> tuple[str, ...]:
    """Return who shares entries: the tenant's requests with the same tools and rules."""
    rules = (s.digest for s in request.context.front if s.part is SystemPart.RULES)
    return (request.tenant, request.toolset.digest, *rules)
