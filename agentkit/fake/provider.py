"""The fake provider: its caches, what it has served, and the application that speaks for it."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette

from agentkit.caching.policy import Platform, Provider, Switches, compatible_policy
from agentkit.caching.request import CacheRequest, Tenant
from agentkit.caching.simulate import (
    Refused,
    Served,
    SimulatedAnthropic,
    SimulatedCache,
    SimulatedDeepSeek,
    SimulatedGemini,
    SimulatedOpenAi,
)
from agentkit.caching.simulate.compatible import SimulatedCompatible
from agentkit.caching.times import RealTime, Time
from agentkit.fake import ledger
from agentkit.fake.api import Ids
from agentkit.fake.app import COMPATIBLE, routes
from agentkit.fake.gemini.contents import Contents
from agentkit.fake.ledger import Record
from agentkit.fake.reply import Respond, obey

if TYPE_CHECKING:
    from agentkit.fake.transport import FakeTransport

_REMEMBERED = 10_000
"""Requests that diagnostics can be asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """The simulated caches behind the APIs."""

    anthropic: SimulatedAnthropic
    openai: SimulatedOpenAi
    deepseek: SimulatedDeepSeek
    gemini: SimulatedGemini
    compatible: Mapping[Provider, SimulatedCompatible]
    """Servers that speak OpenAI's protocol and cache by themselves."""

    @classmethod
    def at(
        cls,
        time: Time,
        *,
        switches: Switches | None = None,
        platform: Platform = Platform.DIRECT,
    ) -> Caches:
        """Return caches with nothing in them."""
        return cls(
            anthropic=SimulatedAnthropic(clock=time.now, platform=platform, switches=switches),
            openai=SimulatedOpenAi(clock=time.now, platform=platform, switches=switches),
            deepseek=SimulatedDeepSeek(clock=time.now, switches=switches),
            gemini=SimulatedGemini(clock=time.now, platform=platform, switches=switches),
            compatible={
                provider: SimulatedCompatible(
                    clock=time.now,
                    policy_of=partial(compatible_policy, provider, switches=switches),
                )
                for provider in COMPATIBLE
            },
        )

    def of(self, provider: Provider) -> SimulatedCache:
        """Return the cache of a provider."""
        match provider:
            case Provider.ANTHROPIC:
                return self.anthropic
            case Provider.OPENAI:
                return self.openai
            case Provider.DEEPSEEK:
                return self.deepseek
            case Provider.GEMINI:
                return self.gemini
            case _:
                return self.compatible[provider]


def tenant_of_key(key: str) -> Tenant:
    """Return the tenant of an API key: each key is an organisation of its own."""
    return Tenant(organization=f"org-{hashlib.blake2b(key.encode(), digest_size=6).hexdigest()}")


class FakeProvider:
    """Speaks the APIs of Anthropic, OpenAI, DeepSeek and Gemini over their simulated caches.

    Args:
        time: what lifetimes, prices and delays are reckoned in.
        respond: decides what the model says; see `obey` for the default.
        switches: choices where the providers' documentation contradicts itself.
        platform: where the models are hosted.
        caches: caches with other settings, made for the same time; `switches` and `platform` are
            theirs then.
        tenant_of: whose caches a request with this API key uses.
    """

    def __init__(
        self,
        *,
        time: Time | None = None,
        respond: Respond = obey,
        switches: Switches | None = None,
        platform: Platform = Platform.DIRECT,
        caches: Caches | None = None,
        tenant_of: Callable[[str], Tenant] = tenant_of_key,
    ) -> None:
        self.time = time or RealTime()
        self.respond = respond
        self.caches = caches or Caches.at(self.time, switches=switches, platform=platform)
        self.contents = Contents(self.caches.gemini)
        self.tenant_of = tenant_of
        self.ids = Ids()
        self.lock = threading.RLock()
        """Held around each step of a cache: sync and async clients may be in several threads."""
        self.records: list[Record] = []
        """All requests, in the order of their arrival."""
        self._earlier: OrderedDict[tuple[str, str], CacheRequest] = OrderedDict()
        self.app = Starlette(routes=routes(self))

    @property
    def requests(self) -> list[bytes]:
        """The bodies of all requests, as they arrived."""
        return [record.body for record in self.records]

    @property
    def served(self) -> list[Served | Refused]:
        """What became of the requests that reached a cache, in the order of their arrival."""
        return [record.outcome for record in self.records if record.outcome is not None]

    def transport(self) -> FakeTransport:
        """Return a transport for `httpx2.AsyncClient` and `httpx2.Client`: no socket is opened.

        Raises:
            MissingExtra: httpx2 is not installed.
        """
        from agentkit.fake.transport import FakeTransport

        return FakeTransport(self.app)

    def ledger(self) -> dict[str, Any]:
        """Return reads, writes, costs and misses as JSON."""
        return ledger.to_json(self.records, self.contents.cost())

    def report(self) -> str:
        """Return the sums as a table for people."""
        return ledger.to_text(self.records, self.contents.cost())

    def remember(self, request: CacheRequest, response_id: str) -> None:
        """Keep a request, for diagnostics."""
        self._earlier[request.tenant.organization, response_id] = request
        while len(self._earlier) > _REMEMBERED:
            self._earlier.popitem(last=False)

    def earlier(self, tenant: Tenant, response_id: str | None) -> CacheRequest | None:
        """Return the request of an earlier response of the same tenant."""
        return self._earlier.get((tenant.organization, response_id or ""))


def create_app(
    *,
    time: Time | None = None,
    respond: Respond = obey,
    switches: Switches | None = None,
    platform: Platform = Platform.DIRECT,
) -> Starlette:
    """Return the ASGI application of a new `FakeProvider`; it is in `app.state.fake`."""
    fake = FakeProvider(time=time, respond=respond, switches=switches, platform=platform)
    fake.app.state.fake = fake
    return fake.app
