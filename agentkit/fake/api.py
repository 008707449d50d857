"""What the pieces of the fake share: a parsed request, a finished answer, and what an API does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from agentkit.blocks import Json
from agentkit.caching.request import Block, CacheRequest, Tenant
from agentkit.caching.simulate import Served
from agentkit.fake.fields import JsonObject, Problem
from agentkit.fake.reply import Ask, Call


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: JsonObject
    tenant: Tenant
    model: str = ""
    """From the path, where the API has it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A request, understood."""

    request: CacheRequest
    ask: Ask
    stream: bool
    max_tokens: int | None
    body: JsonObject
    compare: bool = False
    """Whether the client asks why the cache missed."""
    compare_with: str | None = None
    """Id of the earlier response that the miss is explained against."""


Finish = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A turn of the fake model, with everything that was made up for it."""

    id: str
    at: datetime
    model: str
    text: str
    thinking: str
    signature: str
    """Proof of the thinking; unique."""
    calls: tuple[Call, ...]
    call_ids: tuple[str, ...]
    finish: Finish
    diagnosis: Json = None
    """What the API says about the cache miss."""


@dataclass(slots=True)
class Ids:
    """Names that are the same in every run."""

    _made: Counter[str] = field(default_factory=Counter)

    def new(self, prefix: str) -> str:
        """Return `prefix` and a number of its own."""
        self._made[prefix] += 1
        return f"{prefix}fake{self._made[prefix]:08d}"


class Api(Protocol):
    """One API: how it reads requests and writes responses. Decides nothing about caching."""

    name: str
    id_prefix: str
    call_prefix: str
    media_type: str
    """Of a stream."""

    def parse(self, call: HttpCall) -> Prompt:
        """Understand a request.

        Raises:
            Problem: the API refuses it, for another reason than its cache marks.
        """
        ...

    def ended(self, prompt: Prompt, answer: Answer) -> None:
        """Keep what later requests may name."""
        ...

    def output(self, answer: Answer) -> tuple[Block, ...]:
        """Return the blocks of an answer, equal to those of a later request that replays it."""
        ...

    def diagnose(self, prompt: Prompt, before: CacheRequest | None) -> Json:
        """Explain a miss against an earlier request; None: it is not known."""
        ...

    def whole(self, prompt: Prompt, answer: Answer, served: Served, n_thinking: int) -> JsonObject:
        """Return the response."""
        ...

    def opening(self, prompt: Prompt, answer: Answer, served: Served) -> bytes:
        """Return how a stream begins; `served` has no output yet."""
        ...

    def deltas(self, prompt: Prompt, answer: Answer, served: Served) -> Sequence[bytes]:
        """Return the middle of a stream, in the pieces in which it is sent."""
        ...

    def closing(self, prompt: Prompt, answer: Answer, served: Served, n_thinking: int) -> bytes:
        """Return the end of a stream, with the usage."""
        ...

    def error(self, problem: Problem, request_id: str) -> JsonObject:
        """Return the error's JSON."""
        ...


def parts_of(text: str, size: int = 16) -> list[str]:
    """Return a text in the pieces in which it is streamed."""
    return [text[at : at + size] for at in range(0, len(text), size)]
