"""The adapter: lays out, fills in, sends, and learns what a server does not know."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import (
    CompatiblePolicy,
    DeepSeekPolicy,
    OpenAiMarkPolicy,
    Policy,
    Provider,
    UsageField,
    policy_for,
)
from agentkit.context import SystemPart
from agentkit.errors import ModelError, RequestRefused, UnknownModel
from agentkit.events import ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.openai_chat.body import (
    ChatBody,
    cache_fields,
    dropped_with,
    finish,
    lost_marks,
    steering_fields,
)
from agentkit.models.hosted.openai_chat.clients import ChatClients
from agentkit.models.hosted.openai_chat.encode import Encoder
from agentkit.models.hosted.openai_chat.hosts import HostPins
from agentkit.models.hosted.openai_chat.layout import ChatLayout, lay_out
from agentkit.models.hosted.openai_chat.options import ChatOptions
from agentkit.models.hosted.openai_chat.profiles import Profile
from agentkit.models.hosted.openai_chat.stream import ChunkReader
from agentkit.models.hosted.openai_common import (
    CacheFieldsRefusedWarning,
    LostMarkWarning,
    send,
)
from agentkit.models.hosted.wire import Body
from agentkit.warn import warn_user

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_IDLE_S = 600.0
"""How long a host is held where the gateway's rules do not say."""


class CacheUnreportedWarning(UserWarning):
    """A server does not say what it reads from its cache."""


class ChatAdapter:
    """A model behind OpenAI's Chat Completions, or behind one of the many servers that speak it.

    Args:
        model: the server's name of the model.
        profile: what kind of server it is; see `PROFILES`.
        client: the official client; by default one with the key from the profile's variable.
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
        policy = _policy(profile.provider, model)
        self._isolating = _isolating(policy)
        self._where = _usage_field(profile, policy)
        self._clients = ChatClients(client, profile, self.label, base_url)
        self._encoder = Encoder(profile, self.label, takes_marks=_takes_marks(policy))
        idle_s = policy.idle_s if isinstance(policy, CompatiblePolicy) else None
        self._hosts = HostPins(now_s, idle_s or _IDLE_S)
        self._one_system = self._options.one_system_message
        self._refused: frozenset[str] = frozenset()
        self._n_unreported = 0
        self._has_warned_of: set[type[Warning]] = set()

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

    @property
    def refused_fields(self) -> frozenset[str]:
        """Fields that the server does not know. They are not sent any more."""
        return self._refused

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
            model=self._model,
            profile=self._profile,
            options=self._options,
            one_system_message=self._one_system,
        )

    def body(self, layout: ChatLayout, plan: CachePlan, request: ModelRequest) -> ChatBody:
        """Return the final bytes; see `Adapter.body`."""
        lost = lost_marks(layout, plan)
        if lost and self._profile.mark is not None:
            kinds = sorted({layout.blocks[index].block.kind.value for index in lost})
            self._warn_once(
                f"{self.label}: no cache mark can stand on {kinds}; it is left out", LostMarkWarning
            )
        key = _host_key(request)
        return finish(
            layout,
            plan,
            self._profile,
            model=self._model,
            steering=steering_fields(request, plan, self._profile, self._options),
            hints={**cache_fields(plan, self._profile), **self._host_field(key)},
            headers=self._options.headers,
            without=self._refused,
            # A field that keeps tenants apart is not given up for a server that refuses it.
            needed=self._isolating if request.tenant else frozenset(),
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
            refused = frozenset() if has_begun else self._spared(body, error)
            if not refused or not isinstance(body, ChatBody):
                raise self._explained(error) from error
            again = Body(data=body.render(self._refused | refused), headers=body.headers)
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
        reader = ChunkReader(self.label, self._profile, self._where, self._now_s)
        sent = send(
            await self._clients.get(),
            "/chat/completions",
            body,
            label=self.label,
            key_variable=self._profile.key_variable or "the client",
        )
        async with aclosing(sent) as chunks:
            async for chunk in chunks:
                self._learn(without)
                for event in reader.push(chunk):
                    yield event
        if reader.host is not None and isinstance(body, ChatBody):
            self._hosts.served(body.host_key, reader.host)
        for event in reader.finish(self._unreported(reader)):
            yield event

    def _spared(self, body: Body, error: RequestRefused) -> frozenset[str]:
        """Return the fields that the refusal is or may be about, and that can be left out."""
        if not isinstance(body, ChatBody):
            return frozenset()
        message = str(error)
        named = frozenset(name for name in body.optional if name in message)
        if not named and _UNKNOWN_FIELD.search(message):
            named = body.optional
        return dropped_with(named, self._profile) if named else named

    def _learn(self, without: frozenset[str]) -> None:
        """The server took a request without these fields."""
        new = without - self._refused
        if new:
            self._refused |= new
            warn_user(
                f"{self.label}: the server does not know {sorted(new)}; requests go without, "
                "and less may be cached than planned",
                CacheFieldsRefusedWarning,
            )

    def _explained(self, error: RequestRefused) -> ModelError:
        """Where the chat template wants one system message, later requests have one."""
        if self._one_system or not _ONE_SYSTEM.search(str(error)):
            return error
        self._one_system = True
        return ModelError(
            f"{error}; asking again with one system message (to begin with one, pass "
            "options=ChatOptions(one_system_message=True))",
            retryable=True,
        )

    def _host_field(self, key: tuple[str, ...]) -> dict[str, object]:
        field = self._profile.served_by
        if field is None or field in self._options.body or not self._options.holds_host:
            return {}
        host = self._hosts.wanted(key)
        return {} if host is None else {field: {"order": [host], "allow_fallbacks": True}}

    def _unreported(self, reader: ChunkReader) -> str | None:
        """Return what would make the server report its reads, where it does not.

        The first silence may be a miss, which some servers do not report either.
        """
        if reader.usage.cache_read_tokens is not None:
            self._n_unreported = -1
        flag = self._where.flag
        if self._n_unreported < 0 or flag is None:
            return None
        self._n_unreported += 1
        note = f"the server does not report its cache; start it with {flag}"
        if self._n_unreported > 1:
            self._warn_once(f"{self.label}: {note}", CacheUnreportedWarning)
        return note

    def _warn_once(self, message: str, category: type[Warning]) -> None:
        if category not in self._has_warned_of:
            self._has_warned_of.add(category)
            warn_user(message, category)

    def __repr__(self) -> str:
        return f"ChatAdapter({self._model!r}, profile={self._profile.provider.value!r})"


_UNKNOWN_FIELD = re.compile(
    r"extra (inputs|fields)|additional propert|(unknown|unrecognized|unexpected|unsupported)"
    r"( request)? (argument|field|key|keyword|parameter|property)",
    re.IGNORECASE,
)
"""How servers say that they do not know a field, without naming it."""
_ONE_SYSTEM = re.compile(
    r"system message must|only (one|a single) system|system (role|message)s? .*(first|beginning)",
    re.IGNORECASE,
)
"""How chat templates say that they take one system message."""


def _policy(provider: Provider, model: str) -> Policy | None:
    try:
        return policy_for(provider, model, datetime.now(UTC).date())
    except UnknownModel:
        return None


def _usage_field(profile: Profile, policy: Policy | None) -> UsageField:
    if profile.usage is None and isinstance(policy, CompatiblePolicy):
        return policy.usage
    return profile.usage or UsageField(path="usage.prompt_tokens_details.cached_tokens")


def _takes_marks(policy: Policy | None) -> bool:
    if isinstance(policy, CompatiblePolicy):
        return policy.mark_budget > 0
    return isinstance(policy, OpenAiMarkPolicy)


def _isolating(policy: Policy | None) -> frozenset[str]:
    """Return the body fields that keep caches of different values apart."""
    match policy:
        case CompatiblePolicy(salt=salt) if salt is not None:
            return frozenset((salt.field,))
        case DeepSeekPolicy(partition_field=name):
            return frozenset((name,))
        case _:
            return frozenset()


def _host_key(request: ModelRequest) -> tuple[str, ...]:
    """Return who shares entries: the tenant's requests with the same tools and rules."""
    rules = (s.digest for s in request.context.front if s.part is SystemPart.RULES)
    return (request.tenant, request.toolset.digest, *rules)
