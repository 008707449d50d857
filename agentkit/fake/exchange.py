"""One request from its arrival to its end: what the cache does, when, and what is sent."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

from agentkit.caching.policy import BlockKind
from agentkit.caching.request import Block
from agentkit.caching.simulate import InFlight, Served
from agentkit.fake.api import Answer, Api, Finish, Prompt
from agentkit.fake.fields import JsonObject, Problem
from agentkit.fake.ledger import Record
from agentkit.fake.pieces import compact
from agentkit.fake.reply import Failure, Reply, cut

if TYPE_CHECKING:
    from agentkit.fake.provider import FakeProvider

_Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[_Message]]
Send: TypeAlias = Callable[[_Message], Awaitable[None]]

_CLIENT_GONE = 499
_BROKEN = 502
"""What the ledger calls a response that broke off."""


class Exchange:
    """Answers one request that the cache has let in. An ASGI application of one use."""

    def __init__(
        self, fake: FakeProvider, api: Api, prompt: Prompt, flight: InFlight, record: Record
    ) -> None:
        self._fake = fake
        self._api = api
        self._prompt = prompt
        self._flight = flight
        self._record = record
        self._is_open = True
        self._responding = False

    async def __call__(self, scope: _Message, receive: Receive, send: Send) -> None:
        """Answer, or stop where the client goes away: then the cache learns of an abort."""
        work = asyncio.ensure_future(self._answer(send))
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
            self._abort(_CLIENT_GONE)

    async def _answer(self, send: Send) -> None:
        reply = await self._reply()
        if isinstance(reply, Failure):
            await self._fail(reply, send)
            return
        answer, blocks = self._written_down(reply)
        await self._sleep(reply.first_byte_s)
        if self._prompt.stream:
            await self._stream(reply, answer, blocks, send)
        else:
            await self._send_whole(reply, answer, blocks, send)

    async def _reply(self) -> Reply | Failure:
        try:
            reply = self._fake.respond(self._prompt.ask)
            return await reply if inspect.isawaitable(reply) else reply
        except Exception:
            self._abort(500)
            raise

    async def _fail(self, failure: Failure, send: Send) -> None:
        await self._sleep(failure.after_s)
        self._abort(failure.status)
        problem = Problem(
            failure.message, status=failure.status, retry_after_s=failure.retry_after_s
        )
        status, body, headers = error_response(self._api, problem, self._record.request_id)
        await send_json(send, status, body, {**headers, **failure.headers})

    async def _send_whole(
        self, reply: Reply, answer: Answer, blocks: tuple[Block, ...], send: Send
    ) -> None:
        await self._sleep(reply.seconds)
        self._begin()
        served = self._end(answer, blocks)
        body = self._api.whole(self._prompt, answer, served, _thinking(blocks))
        await send_json(send, 200, body, {**self._headers(), **reply.headers})

    async def _stream(
        self, reply: Reply, answer: Answer, blocks: tuple[Block, ...], send: Send
    ) -> None:
        before = self._flight.served
        deltas = self._api.deltas(self._prompt, answer, before)
        pause = reply.seconds / max(1, len(deltas))
        self._begin()
        kind = {"content-type": self._api.media_type}
        headers = {**self._headers(), **kind, **reply.headers}
        await _start(send, 200, headers)
        line = _Line(send, reply.breaks_at_byte)
        await line.send(self._api.opening(self._prompt, answer, before))
        for delta in deltas[: reply.breaks_after]:
            await self._sleep(pause)
            await line.send(delta)
        if reply.breaks_after is not None or line.is_broken:
            self._abort(_BROKEN)
            return  # without an end: server and transport take it for a broken connection
        served = self._end(answer, blocks)
        await line.send(self._api.closing(self._prompt, answer, served, _thinking(blocks)))
        if not line.is_broken:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _written_down(self, reply: Reply) -> tuple[Answer, tuple[Block, ...]]:
        reply, was_cut = cut(reply, self._prompt.max_tokens)
        finish: Finish = "length" if was_cut else "tool_calls" if reply.calls else "stop"
        ids = self._fake.ids
        answer = Answer(
            id=self._record.request_id,
            at=self._fake.time.now(),
            model=self._prompt.request.identity.model,
            text=reply.text,
            thinking=reply.thinking,
            signature=ids.new("sig_"),
            calls=reply.calls,
            call_ids=tuple(ids.new(self._api.call_prefix) for _ in reply.calls),
            finish=finish,
            diagnosis=self._api.diagnose(
                self._prompt,
                self._fake.earlier(self._prompt.request.tenant, self._prompt.compare_with),
            ),
        )
        return answer, self._api.output(answer)

    def _begin(self) -> None:
        with self._fake.lock:
            self._flight.response_began()
        self._responding = True

    def _end(self, answer: Answer, blocks: tuple[Block, ...]) -> Served:
        n_tokens = sum(block.n_tokens for block in blocks)
        with self._fake.lock:
            served = self._flight.end(output_tokens=n_tokens, output=blocks)
        self._is_open = False
        self._record.close(200, served)
        self._fake.remember(self._prompt.request, self._record.request_id)
        self._api.ended(self._prompt, answer)
        return served

    def _abort(self, status: int) -> None:
        if not self._is_open:
            return
        self._is_open = False
        with self._fake.lock:
            # What was read and written until then is billed.
            served = self._flight.served if self._responding else None
            self._flight.abort()
        self._record.close(status, served)

    async def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            await self._fake.time.sleep(seconds)

    def _headers(self) -> dict[str, str]:
        return {"request-id": self._record.request_id, "x-request-id": self._record.request_id}


def error_response(
    api: Api, problem: Problem, request_id: str
) -> tuple[int, JsonObject, dict[str, str]]:
    """Return status, body and headers of an error."""
    headers = {"request-id": request_id, "x-request-id": request_id}
    if problem.retry_after_s is not None:
        headers["retry-after"] = f"{problem.retry_after_s:g}"
    return problem.status, api.error(problem, request_id), headers


async def send_json(send: Send, status: int, body: JsonObject, headers: dict[str, str]) -> None:
    """Send a whole response."""
    await _start(send, status, {**headers, "content-type": "application/json"})
    await send({"type": "http.response.body", "body": compact(body), "more_body": False})


async def _start(send: Send, status: int, headers: dict[str, str]) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


class _Line:
    """A connection that takes so many bytes, and no more."""

    def __init__(self, send: Send, n_bytes: int | None) -> None:
        self._send = send
        self._left = n_bytes
        self.is_broken = False

    async def send(self, data: bytes) -> None:
        """Send a part of a body, as far as the connection takes it."""
        if self._left is not None:
            self.is_broken = self.is_broken or len(data) > self._left
            data = data[: self._left]
            self._left -= len(data)
        if data:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _thinking(blocks: tuple[Block, ...]) -> int:
    return sum(block.n_tokens for block in blocks if block.kind is BlockKind.THINKING)
