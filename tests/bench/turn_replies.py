"""A provider that does no work: it answers each request with bytes that are nearly finished.

It runs in a process of its own, so that its time is not counted, and talks HTTP over the loopback
interface: the transport costs what it costs in earnest. Of a request it counts the tool results,
which say how many turns the run has had, and the bytes: a token is four of them, and all of the
run's request before is read from a cache, if it was long enough for one.

    python tests/bench/turn_replies.py    # prints its port; ends with its input
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from turn_work import city

_BYTES_PER_TOKEN = 4
_LEAST_CACHED = 1_024
"""Tokens: shorter prompts are not cached, as at the real providers."""
_SAID = ("I look at ", "the next city", " of the list.")

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is known of a request."""

    turn: int
    n_calls: int
    """How many calls the answer has; 0 in the last turn."""
    total: int
    """Tokens of the prompt."""
    read: int
    """Of these, tokens that come from the cache."""

    @property
    def written(self) -> int:
        """Tokens that are written to the cache."""
        return max(0, self.total - self.read - 4) if self.total >= _LEAST_CACHED else 0

    @property
    def arguments(self) -> list[str]:
        """The arguments of each call."""
        numbers = range(self.turn * self.n_calls, (self.turn + 1) * self.n_calls)
        return [f'{{"city": "{city(number)}"}}' for number in numbers]


def _messages(ask: Ask) -> list[Json]:
    begin = {"type": "message_start", "message": _message(ask, [], 1)}
    events: list[Json] = [begin, _start(0, {"type": "text", "text": ""})]
    events += (_delta(0, {"type": "text_delta", "text": part}) for part in _SAID)
    events.append({"type": "content_block_stop", "index": 0})
    for place, (call, arguments) in enumerate(zip(_uses(ask), ask.arguments, strict=True), 1):
        events.append(_start(place, {**call, "input": {}}))
        for part in (arguments[:9], arguments[9:]):
            events.append(_delta(place, {"type": "input_json_delta", "partial_json": part}))
        events.append({"type": "content_block_stop", "index": place})
    reason = "tool_use" if ask.n_calls else "end_turn"
    usage = {"output_tokens": 40}
    end = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
    return [*events, end, {"type": "message_stop"}]


def _whole_message(ask: Ask) -> Json:
    text = {"type": "text", "text": "".join(_SAID)}
    calls = [
        {**call, "input": json.loads(arguments)}
        for call, arguments in zip(_uses(ask), ask.arguments, strict=True)
    ]
    message = _message(ask, [text, *calls], 40)
    return {**message, "stop_reason": "tool_use" if ask.n_calls else "end_turn"}


def _message(ask: Ask, content: Sequence[Json], output_tokens: int) -> Json:
    usage = {
        "input_tokens": ask.total - ask.read - ask.written,
        "cache_creation_input_tokens": ask.written,
        "cache_read_input_tokens": ask.read,
        "output_tokens": output_tokens,
    }
    head = {"id": f"msg_{ask.turn}", "type": "message", "role": "assistant", "model": "m"}
    return {**head, "content": content, "usage": usage}


def _uses(ask: Ask) -> list[Json]:
    return [
        {"type": "tool_use", "id": f"toolu_{ask.turn}_{number}", "name": "lookup"}
        for number in range(ask.n_calls)
    ]


def _start(index: int, block: Json) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, delta: Json) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _responses(ask: Ask) -> list[Json]:
    said, *calls = _output(ask)
    events: list[Json] = [{"type": "response.created", "response": _response(ask, done=False)}]
    events.append(_item("added", 0, {**said, "content": []}))
    text = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0}
    events += ({**text, "item_id": said["id"], "logprobs": [], "delta": part} for part in _SAID)
    events.append(_item("done", 0, said))
    for place, (call, arguments) in enumerate(zip(calls, ask.arguments, strict=True), 1):
        events.append(_item("added", place, {**call, "arguments": ""}))
        delta = {"type": "response.function_call_arguments.delta", "item_id": call["id"]}
        for part in (arguments[:9], arguments[9:]):
            events.append({**delta, "output_index": place, "delta": part})
        events.append(_item("done", place, call))
    events.append({"type": "response.completed", "response": _response(ask, done=True)})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _whole_response(ask: Ask) -> Json:
    return _response(ask, done=True)


def _response(ask: Ask, *, done: bool) -> Json:
    head = {
        "id": f"resp_{ask.turn}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "m",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    if not done:
        return {**head, "status": "in_progress", "output": []}
    details = {"cached_tokens": ask.read, "cache_write_tokens": ask.written}
    usage = {
        "input_tokens": ask.total,
        "input_tokens_details": details,
        "output_tokens": 40,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": ask.total + 40,
    }
    return {**head, "status": "completed", "output": _output(ask), "usage": usage}


def _output(ask: Ask) -> list[Json]:
    content = [{"type": "output_text", "text": "".join(_SAID), "annotations": []}]
    said = {"type": "message", "id": f"msg_{ask.turn}", "role": "assistant", "content": content}
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{ask.turn}_{number}",
            "call_id": f"call_{ask.turn}_{number}",
            "name": "lookup",
            "arguments": arguments,
            "status": "completed",
        }
        for number, arguments in enumerate(ask.arguments)
    ]
    return [{**said, "status": "completed"}, *calls]


def _item(what: str, index: int, item: Json) -> Json:
    return {"type": f"response.output_item.{what}", "output_index": index, "item": item}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Api:
    result: bytes
    """What each tool result has in a request, once."""
    stream: Callable[[Ask], list[Json]]
    whole: Callable[[Ask], Json]


_APIS = {
    "/v1/messages": _Api(result=b'"tool_use_id"', stream=_messages, whole=_whole_message),
    "/v1/responses": _Api(
        result=b'"function_call_output"', stream=_responses, whole=_whole_response
    ),
}


class _Provider:
    """Answers the turns of runs. How many, and of how many calls, is in the path: `/400/1/v1/...`.

    A run's prompt begins with `Run`, a number and a colon, which tells it from its siblings.
    """

    def __init__(self) -> None:
        self._lengths: dict[bytes, int] = {}
        """By run: the tokens of its request before."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_content_length(head))
                writer.write(self._answer(head, body))
                await writer.drain()
        writer.close()

    def _answer(self, head: bytes, body: bytes) -> bytes:
        path = head.split(b" ", 2)[1].decode()
        turns, calls, name = path.removeprefix("/").split("/", 2)
        api, n_turns, n_calls = _APIS["/" + name], int(turns), int(calls)
        turn = body.count(api.result) // n_calls
        total = len(body) // _BYTES_PER_TOKEN
        run = _RUN.search(body)
        assert run is not None, "the prompt does not say which run this is"
        before = self._lengths.get(run[0], 0) if turn else 0
        self._lengths[run[0]] = total
        ask = Ask(
            turn=turn,
            n_calls=n_calls if turn < n_turns - 1 else 0,
            total=total,
            read=before if before >= _LEAST_CACHED else 0,
        )
        if _STREAMS.search(body) is None:
            return _http("application/json", json.dumps(api.whole(ask)).encode())
        return _http("text/event-stream", _stream(api.stream(ask)))


_RUN = re.compile(rb"Run \d+:")
_STREAMS = re.compile(rb'"stream": ?true')


def _content_length(head: bytes) -> int:
    lines = head.lower().split(b"\r\n")
    return next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))


def _stream(events: list[Json]) -> bytes:
    def lines() -> Iterator[str]:
        for event in events:
            yield f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n"

    return "".join(lines()).encode()


def _http(kind: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def main() -> None:
    """Serve until the input ends: until the process that began this one ends."""
    server = await asyncio.start_server(_Provider().serve, "127.0.0.1", 0, limit=2**24, backlog=512)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
