"""A provider that does no work: it answers each request with bytes that are nearly finished.

It runs in a process of its own, so that its time is not counted, and talks HTTP over the loopback
interface: the transport costs what it costs in earnest. What a request says is not read, only how
long it is: a token is four bytes, and all of the connection's request before is read from a cache.

    python tests/bench/turn_replies.py    # prints its port; ends with its input
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

BYTES_PER_TOKEN = 4

Events = list[Mapping[str, object]]


def city(turn: int) -> str:
    """Return what the model asks about in a turn."""
    return f"city number {turn} of the list"


def _messages(turn: int, n_turns: int, total: int, read: int) -> Events:
    usage = {
        "input_tokens": 4,
        "cache_creation_input_tokens": max(0, total - read - 4),
        "cache_read_input_tokens": read,
        "output_tokens": 1,
    }
    message = {"id": f"msg_{turn}", "type": "message", "role": "assistant", "content": []}
    begin = {"type": "message_start", "message": {**message, "model": "m", "usage": usage}}
    is_last = turn == n_turns - 1
    text = {"type": "text", "text": ""}
    events: Events = [begin, {"type": "content_block_start", "index": 0, "content_block": text}]
    events += (
        _delta(0, {"type": "text_delta", "text": part})
        for part in ("I look at ", "the next city", " of the list.")
    )
    events.append({"type": "content_block_stop", "index": 0})
    if not is_last:
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "lookup", "input": {}}
        events.append({"type": "content_block_start", "index": 1, "content_block": call})
        events += (
            _delta(1, {"type": "input_json_delta", "partial_json": part})
            for part in ('{"city": ', f'"{city(turn)}"}}')
        )
        events.append({"type": "content_block_stop", "index": 1})
    reason = "end_turn" if is_last else "tool_use"
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 40},
    }
    return [*events, end, {"type": "message_stop"}]


def _delta(index: int, delta: Mapping[str, object]) -> Mapping[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _responses(turn: int, n_turns: int, total: int, read: int) -> Events:
    identity = {"id": f"resp_{turn}", "object": "response", "status": "in_progress", "output": []}
    events: Events = [{"type": "response.created", "response": identity}]
    said = "I look at the next city of the list."
    content = [{"type": "output_text", "text": said, "annotations": []}]
    message = {"type": "message", "id": f"msg_{turn}", "role": "assistant", "content": content}
    output: list[Mapping[str, object]] = [message]
    events.append(_output("added", 0, {**message, "content": []}))
    events += (
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": part}
        for part in ("I look at ", "the next city", " of the list.")
    )
    events.append(_output("done", 0, message))
    if turn < n_turns - 1:
        arguments = f'{{"city": "{city(turn)}"}}'
        head = {"type": "function_call", "id": f"fc_{turn}", "call_id": f"call_{turn}"}
        call = {**head, "name": "lookup", "arguments": arguments}
        output.append(call)
        events.append(_output("added", 1, {**call, "arguments": ""}))
        events += (
            {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": part}
            for part in (arguments[:9], arguments[9:])
        )
        events.append(_output("done", 1, call))
    written = max(0, total - read - 4)
    usage = {
        "input_tokens": total,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "output_tokens": 40,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": total + 40,
    }
    done = {**identity, "status": "completed", "output": output, "usage": usage}
    numbered = [*events, {"type": "response.completed", "response": done}]
    return [{**event, "sequence_number": number} for number, event in enumerate(numbered)]


def _output(what: str, index: int, item: Mapping[str, object]) -> Mapping[str, object]:
    return {"type": f"response.output_item.{what}", "output_index": index, "item": item}


_APIS: Mapping[str, Callable[[int, int, int, int], Events]] = {
    "/v1/messages": _messages,
    "/v1/responses": _responses,
}


def _stream(events: Events) -> bytes:
    def lines() -> Iterator[str]:
        for event in events:
            yield f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n"

    return "".join(lines()).encode()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the turns of one run. Its length is in the path: `/400/v1/messages`."""
    turn = read = 0
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            n_turns, api = head.split(b" ", 2)[1].decode().removeprefix("/").split("/", 1)
            length = next(
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            )
            await reader.readexactly(length)
            total = length // BYTES_PER_TOKEN
            body = _stream(_APIS["/" + api](turn, int(n_turns), total, read))
            turn, read = turn + 1, total
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                b"content-length: %d\r\n\r\n%b" % (len(body), body)
            )
            await writer.drain()
    writer.close()


async def main() -> None:
    """Serve until the input ends: until the process that began this one ends."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=2**24)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
