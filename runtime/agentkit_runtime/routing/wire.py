"""KV events as vLLM publishes them, which is what routers read.

A batch is a msgpack array `[seconds, events, data-parallel rank]`; an event is a map with its class
under "type" and with all of its fields, null ones included: decoders refuse a map that lacks one.
Block names are 32 bytes, as vLLM's are with SHA-256. A chain's first block has no parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.kv.events import AllBlocksCleared, BlockRemoved, BlockStored, KvEvent
from agentkit_runtime.kv.tiers.base import first_parent
from agentkit_runtime.kv.tokens import unpack

RANK = 0
"""One engine is one data-parallel rank."""


class StoredMap(TypedDict):
    """Blocks became readable."""

    type: Literal["BlockStored"]
    block_hashes: list[bytes]
    parent_block_hash: bytes | None
    token_ids: list[int]
    block_size: int
    lora_id: None
    medium: str
    lora_name: None


class RemovedMap(TypedDict):
    """Blocks can no longer be read from a medium."""

    type: Literal["BlockRemoved"]
    block_hashes: list[bytes]
    medium: str


class ClearedMap(TypedDict):
    """Nothing is left."""

    type: Literal["AllBlocksCleared"]


EventMap = StoredMap | RemovedMap | ClearedMap


def event_map(event: KvEvent) -> EventMap:
    """An event as a map."""
    match event:
        case BlockStored():
            return {
                "type": "BlockStored",
                "block_hashes": list(event.block_hashes),
                "parent_block_hash": _parent(event),
                "token_ids": list(unpack(event.token_ids)),
                "block_size": event.block_size,
                "lora_id": None,
                "medium": event.medium.value,
                "lora_name": None,
            }
        case BlockRemoved():
            return {
                "type": "BlockRemoved",
                "block_hashes": list(event.block_hashes),
                "medium": event.medium.value,
            }
        case AllBlocksCleared():
            return {"type": "AllBlocksCleared"}


def packed_batch(events: Sequence[KvEvent], now_s: float) -> bytes:
    """Events as one message. `now_s` is Unix time."""
    import msgpack  # type: ignore[import-untyped]

    maps = [event_map(event) for event in events]
    packed: bytes = msgpack.packb([now_s, maps, RANK], use_bin_type=True)
    return packed


def require_packages() -> None:
    """Raise RuntimeFault unless what this needs is installed."""
    try:
        import msgpack  # noqa: F401
        import zmq  # noqa: F401
    except ImportError as error:
        raise RuntimeFault(
            f"KV events over ZeroMQ need the package {error.name}, which is not installed; "
            'in a checkout run: pip install -c requirements.lock ".[router]"'
        ) from error


def _parent(event: BlockStored) -> bytes | None:
    """Here a namespace's first block has a parent of its own, which no router has ever seen."""
    if event.parent_block_hash == first_parent(event.namespace):
        return None
    return event.parent_block_hash
