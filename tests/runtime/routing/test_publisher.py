from __future__ import annotations

import logging
import random
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import zmq

from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.events import AllBlocksCleared, BlockRemoved, BlockStored, EventLog
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tiers.base import Medium, first_parent
from agentkit_runtime.kv.tokens import pack, unpack
from agentkit_runtime.kv.tree import RadixTree
from agentkit_runtime.routing import publisher as publishing
from agentkit_runtime.routing.backlog import Backlog
from agentkit_runtime.routing.publisher import KvEventPublisher
from agentkit_runtime.steering import NoEvents
from tests.runtime.routing.subscriber import Router, decoded, replayed, subscribed
from tests.runtime.service.scripted import wait_until

LOOPBACK = "tcp://127.0.0.1:*"


class FakeEngine:
    """An engine of which only the cache is there; calls run at once."""

    def __init__(self, *, kv_events: int | None = 1_000, n_slots: int = 512) -> None:
        self.cache = KvCache(SlotAllocator(n_slots), RadixTree())
        if kv_events is not None:
            self.cache.record_events(EventLog(max_events=kv_events))

    def call(self, work: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(self))
        except Exception as error:
            future.set_exception(error)
        return future

    def compute(self, namespace: bytes, tokens: list[int]) -> None:
        lease = self.cache.acquire(namespace, pack(tokens))
        self.cache.grow(lease, len(tokens))
        self.cache.commit(lease, pack(tokens))
        self.cache.release(lease)

    def blocks(self) -> dict[bytes, tuple[int, ...]]:
        """Tokens of the blocks that the tree has, by their names."""
        found: dict[bytes, tuple[int, ...]] = {}
        for root in self.cache._tree.roots():
            for node in root.subtree():
                tokens = unpack(b"".join(step.edge for step in node.path()))
                for index, name in enumerate(node.names, node.start // 16):
                    found[name] = tuple(tokens[16 * index : 16 * index + 16])
        return found


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    with zmq.Context() as context:
        yield context


@pytest.fixture
def publisher() -> Iterator[KvEventPublisher]:
    with KvEventPublisher(
        LOOPBACK, replay_endpoint=LOOPBACK, topic="kv", clock=lambda: 5.0
    ) as publisher:
        yield publisher


def received(socket: zmq.Socket[bytes], router: Router, n_events: int) -> None:
    while router.n_events < n_events:
        router.take(socket.recv_multipart())


def joined(
    publisher: KvEventPublisher, engine: FakeEngine, socket: zmq.Socket[bytes], router: Router
) -> None:
    """Wait until the subscription has reached the publisher: events before it are not sent."""
    publisher.follow(engine)  # type: ignore[arg-type]
    socket.setsockopt(zmq.RCVTIMEO, 20)
    while True:
        engine.cache.events.emit(AllBlocksCleared())  # type: ignore[union-attr]
        try:
            frames = socket.recv_multipart()
        except zmq.Again:
            continue
        break
    socket.setsockopt(zmq.RCVTIMEO, 20_000)
    router.next_seq = int.from_bytes(frames[1], "big")
    router.take(frames)


def test_a_subscriber_knows_what_is_in_the_tree_whatever_happens_to_it(
    publisher: KvEventPublisher, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    engine, router = FakeEngine(), Router()
    with subscribed(context, publisher.endpoint) as socket:
        joined(publisher, engine, socket, router)
        log = engine.cache.events
        assert log is not None
        behind = log.seq - router.n_events  # events of before it was heard
        rng = random.Random(7)
        prompts = [[rng.randrange(4) for _ in range(rng.randrange(16, 120))] for _ in range(20)]
        for step in range(150):
            namespace = b"ann" if rng.random() < 0.5 else b"bob"
            engine.compute(namespace, rng.choice(prompts) + [step] * rng.randrange(30))
            if rng.random() < 0.1:
                engine.cache.evict(rng.randrange(100))
            if rng.random() < 0.03:
                engine.cache.clear(namespace)
        received(socket, router, log.seq - behind)
    assert router.blocks == engine.blocks()
    assert len(router.blocks) > 10


def test_a_router_finds_a_prompt_from_its_first_block_on(
    publisher: KvEventPublisher, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    engine, router = FakeEngine(), Router()
    prompt = list(range(1_000, 1_050))
    with subscribed(context, publisher.endpoint) as socket:
        joined(publisher, engine, socket, router)
        engine.compute(b"ann", prompt)
        while not router.blocks:
            router.take(socket.recv_multipart())
    assert router.prefix_tokens(prompt) == 48
    assert router.prefix_tokens([*prompt[:40], 1, 2]) == 32


def test_what_was_missed_can_be_asked_for(
    publisher: KvEventPublisher, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    engine = FakeEngine()
    engine.compute(b"ann", list(range(32)))
    publisher.follow(engine)  # type: ignore[arg-type]
    assert publisher.replay_endpoint is not None
    wait_until(lambda: publisher._backlog.next_seq == 1)
    engine.compute(b"bob", list(range(64)))
    wait_until(lambda: publisher._backlog.next_seq == 2)
    router = Router()
    for frames in replayed(context, publisher.replay_endpoint, 0):
        assert frames[0] == b"kv"
        router.take(frames)
    assert router.blocks == engine.blocks()
    (last,) = replayed(context, publisher.replay_endpoint, 1)
    assert int.from_bytes(last[1], "big") == 1
    assert replayed(context, publisher.replay_endpoint, 99) == []


def test_nonsense_at_the_replay_socket_changes_nothing(
    publisher: KvEventPublisher, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    engine = FakeEngine()
    publisher.follow(engine)  # type: ignore[arg-type]
    assert publisher.replay_endpoint is not None
    with context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(publisher.replay_endpoint)
        for nonsense in ([b"x"], [b"", b"short"], [b"", b"", b"", b""]):
            socket.send_multipart(nonsense)
    engine.compute(b"ann", list(range(16)))
    wait_until(lambda: publisher._backlog.next_seq == 1)
    assert len(replayed(context, publisher.replay_endpoint, 0)) == 1


def test_who_cannot_keep_up_is_told_to_start_anew(
    context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "MAX_PENDING", 3)
    engine = FakeEngine()
    for start in range(0, 160, 16):  # more than may wait, before anybody sends
        engine.compute(b"ann", list(range(start, start + 16)))
    with KvEventPublisher(LOOPBACK, replay_endpoint=LOOPBACK) as publisher:
        publisher.follow(engine)  # type: ignore[arg-type]
        wait_until(lambda: publisher._backlog.next_seq == 1)
        assert publisher.replay_endpoint is not None
        (batch,) = replayed(context, publisher.replay_endpoint, 0)
    _, events, _ = decoded(batch[2])
    assert events[0] == {"type": "AllBlocksCleared"}
    assert 1 <= len(events[1:]) <= 3


def test_every_field_is_there_also_where_it_is_null() -> None:
    from agentkit_runtime.routing.wire import packed_batch

    name = b"\x01" * 32
    tier = BlockStored((name,), None, b"", Medium.DISK, KvFormat.FLOAT32, b"")
    first = BlockStored(
        (name,),
        first_parent(b"ann"),
        pack([70_000] * 16),
        Medium.DEVICE,
        KvFormat.FLOAT32,
        b"ann",
    )
    behind = first._replace(parent_block_hash=name)
    events = [tier, first, behind, BlockRemoved((name,), Medium.HOST), AllBlocksCleared()]
    common = {"block_size": 16, "lora_id": None, "lora_name": None, "block_hashes": [name]}
    stored = {"type": "BlockStored", "medium": "GPU", "token_ids": [70_000] * 16, **common}
    assert decoded(packed_batch(events, 1.5)) == [
        1.5,
        [
            {**stored, "medium": "DISK", "token_ids": [], "parent_block_hash": None},
            {**stored, "parent_block_hash": None},
            {**stored, "parent_block_hash": name},
            {"type": "BlockRemoved", "block_hashes": [name], "medium": "CPU"},
            {"type": "AllBlocksCleared"},
        ],
        0,
    ]


def test_the_backlog_is_bounded_in_batches_and_bytes() -> None:
    backlog = Backlog(max_batches=3, max_bytes=100)
    assert [backlog.add(b"x") for _ in range(5)] == [0, 1, 2, 3, 4]
    assert [seq for seq, _ in backlog.since(0)] == [2, 3, 4]
    assert [seq for seq, _ in backlog.since(4)] == [4]
    backlog.add(b"y" * 99)
    assert [seq for seq, _ in backlog.since(0)] == [4, 5]


@pytest.mark.parametrize(
    "endpoint", ["127.0.0.1:5557", "tcp://127.0.0.1", "tcp://h:99999", "ipc://"]
)
def test_an_address_that_is_none_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="ZeroMQ address"):
        KvEventPublisher(endpoint)


def test_a_taken_address_is_named(publisher: KvEventPublisher) -> None:
    with pytest.raises(OSError, match=publisher.endpoint):
        KvEventPublisher(publisher.endpoint)


def test_an_engine_without_events_is_refused(publisher: KvEventPublisher) -> None:
    with pytest.raises(NoEvents, match="kv_events"):
        publisher.follow(FakeEngine(kv_events=None))  # type: ignore[arg-type]


def test_an_address_that_others_can_reach_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), KvEventPublisher("tcp://0.0.0.0:*"):
        pass
    assert "token ids of all tenants' prompts" in caplog.text
    caplog.clear()
    with KvEventPublisher(LOOPBACK):
        pass
    assert not caplog.text


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(RuntimeFault, match=r"msgpack.*\.\[router\]"):
        KvEventPublisher(LOOPBACK)


def test_closing_leaves_no_thread_no_file_and_no_subscription() -> None:
    import os
    import threading

    n_files, n_threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        engine = FakeEngine()
        publisher = KvEventPublisher(LOOPBACK, replay_endpoint=LOOPBACK)
        publisher.follow(engine)  # type: ignore[arg-type]
        publisher.close()
        publisher.close()
        assert engine.cache.events is not None
        assert engine.cache.events._subscribers == []
    assert threading.active_count() == n_threads
    assert len(os.listdir("/proc/self/fd")) == n_files
