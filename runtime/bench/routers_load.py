"""Conversations through a router, by a client that tries again where that can help."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx2

RULES = (
    "You are the clerk of a museum in a small town by the sea. The museum opens at ten and closes "
    "at five; on Mondays it stays closed. A ticket costs four coins, children come in free, and on "
    "the first Sunday of a month so does everybody else. The tower has a hundred and twelve steps "
    "and no lift. Dogs stay outside, bags go into the lockers, and photographs are welcome without "
    "a flash. The collection has ships in bottles, sea charts, a whale's jaw, the lamp of the old "
    "lighthouse, and letters of sailors to those who waited. Answer in one short sentence, be kind "
    "to everybody, and say so when you do not know."
)
_TOPICS = ("the tower", "the whale", "the lamp", "the letters", "the lockers", "the charts")
_NO_ANSWER = 0
_SAVED = frozenset({_NO_ANSWER, 500, 502, 503, 504})
"""Statuses after which another try can find a server that lives."""
_PATIENCE_S = 60.0
_AHEAD_S = 0.5


@dataclass(slots=True)
class Outcome:
    """What became of the requests of all conversations."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tries_again: int = 0
    """Tries that failed before the first byte and were repeated."""
    cut: int = 0
    """Streams that ended in the middle: nobody but the asker can ask again."""
    failed: list[str] = field(default_factory=list)
    """Requests that no retry saved."""

    @property
    def hit_rate(self) -> float:
        """Prompt tokens that were read from a cache, of all."""
        return self.cached_tokens / max(1, self.prompt_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Conversations that grow: the same rules, then questions and answers."""

    url: str
    name: str
    """Distinguishes the sessions of one trial from those of others."""
    sessions: int = 12
    turns: int = 8
    streamed: bool = False
    """Every other session asks for streams."""
    after_request: Callable[[int], None] = lambda n: None
    """Called with the number of requests that are done."""

    async def run(self) -> Outcome:
        """All conversations at a time, each turn by turn; the first one begins a little earlier."""
        outcome, begun = Outcome(), asyncio.Event()
        limits = httpx2.Limits(max_connections=self.sessions)
        async with httpx2.AsyncClient(base_url=self.url, timeout=120, limits=limits) as client:
            await asyncio.gather(
                *(self._talk(client, i, outcome, begun) for i in range(self.sessions))
            )
        return outcome

    async def _talk(
        self, client: httpx2.AsyncClient, index: int, outcome: Outcome, begun: asyncio.Event
    ) -> None:
        session, streamed = f"{self.name}-{index}", self.streamed and index % 2 == 1
        if index:
            await begun.wait()
            await asyncio.sleep(_AHEAD_S)  # so that a router can have heard of its blocks
        messages = [{"role": "system", "content": RULES}]
        for turn in range(self.turns):
            topic = _TOPICS[turn % len(_TOPICS)]
            asked = f"This is visitor {session}, question {turn}: what about {topic}?"
            messages.append({"role": "user", "content": asked})
            answer = await self._ask(client, session, messages, outcome, streamed)
            begun.set()
            if answer is None:
                return
            messages.append({"role": "assistant", "content": answer})
            outcome.requests += 1
            self.after_request(outcome.requests)

    async def _ask(
        self,
        client: httpx2.AsyncClient,
        session: str,
        messages: list[dict[str, str]],
        outcome: Outcome,
        streamed: bool,
    ) -> str | None:
        """The answer; None when the request failed for good."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + _PATIENCE_S
        pause_s = 0.1
        while True:
            tried = _Try(streamed)
            problem = await tried.send(client, session, messages)
            if problem is None:
                outcome.prompt_tokens += tried.prompt_tokens
                outcome.cached_tokens += tried.cached_tokens
                return tried.text
            if problem not in _SAVED or loop.time() > due_s:
                outcome.failed.append(f"{session}: {tried.said}")
                return None
            outcome.cut += tried.begun
            outcome.tries_again += not tried.begun
            await asyncio.sleep(pause_s)
            pause_s = min(2.0, 2 * pause_s)


class _Try:
    """One attempt at one request."""

    def __init__(self, streamed: bool) -> None:
        self._streamed = streamed
        self.begun = False
        self.text = ""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.said = ""

    async def send(
        self, client: httpx2.AsyncClient, session: str, messages: list[dict[str, str]]
    ) -> int | None:
        """None when it went well, else the status, or `_NO_ANSWER`."""
        body: dict[str, object] = {
            "model": "smollm2",
            "messages": messages,
            "max_tokens": 4,
            # Routers read the header and not all pass it on; the worker reads the body.
            "prompt_cache_key": session,
        }
        if self._streamed:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        headers = {"x-session-id": session}
        try:
            async with client.stream(
                "POST", "/v1/chat/completions", json=body, headers=headers
            ) as answer:
                if answer.status_code != 200:
                    self.said = f"{answer.status_code} {(await answer.aread())[:200]!r}"
                    return answer.status_code
                if self._streamed:
                    return await self._read_stream(answer)
                self._take(json.loads(await answer.aread()), "message")
                return None
        except httpx2.TransportError as error:
            self.said = repr(error)
            return _NO_ANSWER

    async def _read_stream(self, answer: httpx2.Response) -> int | None:
        async for line in answer.aiter_lines():
            if not line.startswith("data: "):
                continue
            self.begun = True
            if line == "data: [DONE]":
                return None
            chunk = json.loads(line.removeprefix("data: "))
            if "error" in chunk:
                self.said = str(chunk["error"])
                return _NO_ANSWER
            self._take(chunk, "delta")
        self.said = "the stream ended without [DONE]"
        return _NO_ANSWER

    def _take(self, document: dict[str, object], where: str) -> None:
        choices, usage = document["choices"], document.get("usage")
        assert isinstance(choices, list)
        for choice in choices:
            self.text += choice[where].get("content") or ""
        if isinstance(usage, dict):
            self.prompt_tokens = usage["prompt_tokens"]
            self.cached_tokens = usage["prompt_tokens_details"]["cached_tokens"]
