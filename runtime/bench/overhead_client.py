"""A client of streams that costs next to nothing: it shares two cores with what it measures."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

END = b"data: [DONE]"
_COMPLETION = re.compile(rb'"completion_tokens":(\d+)')


@dataclass(frozen=True, slots=True)
class Streamed:
    """One answer, as it came."""

    events: int
    tokens: int | None
    """As the server told."""


async def stream(port: int, body: Mapping[str, object], key: str = "") -> Streamed:
    """Ask for a stream and read it to its end. Raises AssertionError for anything but one."""
    content = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    try:
        head = [
            "POST /v1/chat/completions HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            f"Authorization: Bearer {key}",
            "Connection: close",
            f"x-sent: {time.perf_counter()}",
        ]
        writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + content)
        received = await reader.read()
    finally:
        writer.close()
    assert received.startswith(b"HTTP/1.1 200"), received[:400]
    assert END in received, received[-400:]
    told = _COMPLETION.findall(received)
    return Streamed(received.count(b"data: ") - 1, int(told[-1]) if told else None)


async def streams(
    port: int, bodies: Sequence[Mapping[str, object]], key: str = ""
) -> list[Streamed]:
    """All at a time."""
    return list(await asyncio.gather(*(stream(port, body, key) for body in bodies)))
