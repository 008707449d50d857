"""A router's view of a worker: an independent reader of what the publisher sends.

It decodes msgpack by hand (by https://github.com/msgpack/msgpack/blob/master/spec.md), so that an
error in the encoding is not undone by the same library.
"""

from __future__ import annotations

import struct
from typing import Any

import zmq

BOUND_MS = 20_000


def decoded(data: bytes) -> Any:
    """A msgpack document. Raises ValueError for types that events have no use for."""
    value, end = _value(data, 0)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes behind the document")
    return value


def _value(data: bytes, at: int) -> tuple[Any, int]:
    code = data[at]
    if code < 0x80:
        return code, at + 1
    if code in _FIXED:
        return _FIXED[code], at + 1
    if code in _NUMBERS:
        form = _NUMBERS[code]
        end = at + 1 + struct.calcsize(form)
        return struct.unpack(form, data[at + 1 : end])[0], end
    if code & 0xF0 == 0x80:
        return _map(data, at + 1, code & 0x0F)
    if code & 0xF0 == 0x90:
        return _list(data, at + 1, code & 0x0F)
    if code & 0xE0 == 0xA0:
        end = at + 1 + (code & 0x1F)
        return data[at + 1 : end].decode(), end
    kind, form = _SIZED[code]
    begin = at + 1 + struct.calcsize(form)
    n = struct.unpack(form, data[at + 1 : begin])[0]
    if kind == "list":
        return _list(data, begin, n)
    if kind == "map":
        return _map(data, begin, n)
    raw = data[begin : begin + n]
    return (raw if kind == "bytes" else raw.decode()), begin + n


def _list(data: bytes, at: int, n: int) -> tuple[list[Any], int]:
    items = []
    for _ in range(n):
        item, at = _value(data, at)
        items.append(item)
    return items, at


def _map(data: bytes, at: int, n: int) -> tuple[dict[Any, Any], int]:
    flat, at = _list(data, at, 2 * n)
    return dict(zip(flat[::2], flat[1::2], strict=True)), at


_FIXED = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}
_SIZED = {
    0xC4: ("bytes", ">B"),
    0xC5: ("bytes", ">H"),
    0xD9: ("text", ">B"),
    0xDC: ("list", ">H"),
    0xDD: ("list", ">I"),
    0xDE: ("map", ">H"),
}


class Router:
    """What a router believes to be on a worker's device: tokens of each block, by its name."""

    def __init__(self) -> None:
        self.blocks: dict[bytes, tuple[int, ...]] = {}
        self.parents: dict[bytes, bytes | None] = {}
        self.next_seq = 0
        self.n_events = 0

    def take(self, frames: list[bytes]) -> None:
        """Take in a batch; the numbers must have no holes."""
        _, seq, payload = frames
        assert len(seq) == 8
        assert int.from_bytes(seq, "big") == self.next_seq
        self.next_seq += 1
        seconds, events, rank = decoded(payload)
        assert isinstance(seconds, float)
        assert rank == 0
        assert events
        self.n_events += len(events)
        for event in events:
            self._apply(event)

    def prefix_tokens(self, token_ids: list[int]) -> int:
        """How many leading tokens of a prompt it believes to be cached, in whole blocks."""
        children = {(parent, self.blocks[name]): name for name, parent in self.parents.items()}
        n, at = 0, None
        while True:
            name = children.get((at, tuple(token_ids[n : n + 16])))
            if name is None:
                return n
            n, at = n + 16, name

    def _apply(self, event: dict[str, Any]) -> None:
        kind = event.pop("type")
        if kind == "BlockStored":
            names = event.pop("block_hashes")
            tokens = event.pop("token_ids")
            parent = event.pop("parent_block_hash")
            medium = event.pop("medium")
            assert event == {"block_size": 16, "lora_id": None, "lora_name": None}
            if medium == "GPU":
                self._store(names, parent, tokens)
        elif kind == "BlockRemoved":
            if event["medium"] == "GPU":
                for name in event["block_hashes"]:
                    del self.blocks[name], self.parents[name]
        else:
            assert kind == "AllBlocksCleared"
            self.blocks.clear()
            self.parents.clear()

    def _store(self, names: list[bytes], parent: bytes | None, tokens: list[int]) -> None:
        assert parent is None or parent in self.blocks
        assert len(tokens) == 16 * len(names)
        for index, name in enumerate(names):
            assert len(name) == 32
            self.blocks[name] = tuple(tokens[16 * index : 16 * index + 16])
            self.parents[name] = parent
            parent = name


def subscribed(context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """A connected subscriber of everything."""
    socket = context.socket(zmq.SUB)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.RCVTIMEO, BOUND_MS)
    socket.connect(endpoint)
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    return socket


def replayed(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, since: int
) -> list[list[bytes]]:
    """The batches from number `since` on."""
    with context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.RCVTIMEO, BOUND_MS)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(endpoint)
        socket.send_multipart([b"", since.to_bytes(8, "big")])
        batches = []
        while True:
            empty, topic, seq, payload = socket.recv_multipart()
            assert empty == b""
            if int.from_bytes(seq, "big", signed=True) == -1:
                return batches
            batches.append([topic, seq, payload])
