"""Whole agents at every provider: real adapters and SDKs, a fake provider, virtual time; and what
went over the wire, piece by piece, as each provider's cache reads it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import httpx2
from anthropic import AsyncAnthropic
from google.genai import Client
from google.genai.types import HttpOptions
from openai import AsyncOpenAI

from agentkit.caching.options import CacheOptions
from agentkit.caching.simulate import Served
from agentkit.caching.times import VirtualTime
from agentkit.fake import Ask, Failure, FakeProvider, Reply
from agentkit.models.hosted.anthropic import AnthropicAdapter, AnthropicOptions
from agentkit.models.hosted.gemini import GeminiAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_chat import DEEPSEEK, OPENAI, OPENROUTER, ChatAdapter
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from tests.agentkit.json_text import elements, members

T = TypeVar("T")
Pieces = list[str]
Respond = Callable[[Ask], "Reply | Failure | Awaitable[Reply | Failure]"]
PROVIDERS = ("anthropic", "responses", "chat", "openrouter", "deepseek", "gemini")
TAKES_IMAGES = frozenset(PROVIDERS) - {"deepseek"}


class AnyWorld:
    """A fake provider, and models that talk to it; each call of `model` is another process."""

    def __init__(self, respond: Respond) -> None:
        self.time = VirtualTime()
        self.fake = FakeProvider(time=self.time, respond=respond)
        self._http: list[httpx2.AsyncClient] = []

    def model(self, provider: str, name: str | None = None, **cache: Any) -> HostedModel[Any]:
        """A new adapter, client and tracker: nothing is remembered of those before."""
        http = httpx2.AsyncClient(transport=self.fake.transport(), timeout=None)
        self._http.append(http)
        return HostedModel(
            _adapter(provider, name, http, self.time), cache=CacheOptions(**cache), time=self.time
        )

    @property
    def served(self) -> list[Served]:
        """What became of the requests that were answered."""
        return [each for each in self.fake.served if isinstance(each, Served)]

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work in virtual time."""

        async def all_of_it() -> T:
            try:
                return await work()
            finally:
                for each in self._http:
                    await each.aclose()

        async def driven() -> T:
            return await self.time.drive(all_of_it())

        return asyncio.run(driven())


def _adapter(provider: str, name: str | None, http: httpx2.AsyncClient, time: VirtualTime) -> Any:
    def openai(path: str) -> AsyncOpenAI:
        url = f"http://fake/{path}"
        return AsyncOpenAI(api_key="k", base_url=url, http_client=http, max_retries=0)

    match provider:
        case "anthropic":
            claude = AsyncAnthropic(
                api_key="k", base_url="http://fake", http_client=http, max_retries=0
            )
            options = AnthropicOptions(thinking="adaptive")
            return AnthropicAdapter(name or "claude-opus-5", client=claude, options=options)
        case "responses":
            return ResponsesAdapter(name or "gpt-6.1-sol", client=openai("v1"))
        case "chat":
            return ChatAdapter(name or "gpt-6.1-sol", profile=OPENAI, client=openai("v1"))
        case "openrouter":
            model = name or "anthropic/claude-sonnet-5-5"
            return ChatAdapter(model, profile=OPENROUTER, client=openai("v1"))
        case "deepseek":
            client = openai("deepseek")
            return ChatAdapter(name or "deepseek-flash", profile=DEEPSEEK, client=client)
        case "gemini":
            http_options = HttpOptions(base_url="http://fake", httpx_async_client=http)
            google = Client(vertexai=False, api_key="k", http_options=http_options)
            return GeminiAdapter(name or "gemini-3.8-flash", client=google, time=time)
    raise AssertionError(provider)


def pieces_of(body: bytes) -> Pieces:
    """The exact text of each piece of a body in its cache's order, without marks.

    Tools, then system, then the parts of the messages, each with what is around it.
    """
    return [_MARK.sub("", piece) for piece in _pieces(body.decode())]


def stable_pieces_of(body: bytes, volatile: str) -> Pieces:
    """The same up to the first piece with the text `volatile`, which must be at the end."""
    pieces = pieces_of(body)
    at = next((n for n, piece in enumerate(pieces) if volatile in piece), len(pieces))
    assert len(pieces) - at <= 1, "text for one request stands before something that stays"
    return pieces[:at]


def front_of(body: bytes) -> Pieces:
    """The pieces of tools and system text alone."""
    history = ('{"role":"user"', '{"role":"assistant"', '{"type":"message","role":"user"')
    pieces = pieces_of(body)
    n_front = next(n for n, piece in enumerate(pieces) if piece.startswith(history))
    return pieces[:n_front]


_MARK = re.compile(r',"(?:cache_control|prompt_cache_breakpoint)":\{[^{}]*\}')


def _pieces(text: str) -> Iterator[str]:
    known = dict(members(text))
    for tool in elements(known.get("tools", "[]")):
        inside = dict(members(tool))
        yield from (
            elements(inside["functionDeclarations"]) if "functionDeclarations" in inside else [tool]
        )
    yield from elements(known.get("system", "[]"))
    if "systemInstruction" in known:
        yield from elements(dict(members(known["systemInstruction"]))["parts"])
    # A message is one piece: where its parts end is part of what was sent.
    for name in ("messages", "input", "contents"):
        yield from elements(known.get(name, "[]"))


def assert_prefix(earlier: Sequence[str], later: Sequence[str]) -> None:
    """Each piece of the earlier request is in the later one, at its place, to the byte."""
    for n, (mine, theirs) in enumerate(zip(earlier, later, strict=False)):
        assert theirs == mine, f"piece {n} of {len(earlier)} has changed"
    assert len(later) >= len(earlier)
