"""Any order of saves, fetches, writes, reads, forgetting and restarts, against a dict."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, Medium, TierChange
from agentkit_runtime.kv.tiers.disk_file import HEADER_BYTES
from agentkit_runtime.kv.tiers.fetch import TierFetch
from tests.runtime.tiers.support import BLOCK, Bench, bench, content, disk_in, names_of, on_device

SPACES = st.sampled_from([b"ns-a", b"ns-b"])
PROMPTS = st.binary(min_size=1, max_size=5).map(lambda b: bytes(x % 3 for x in b))
HEX = "[0-9a-f]" * 64
HOST_BLOCKS, DISK_BLOCKS = 6, 9


class TierMachine(RuleBasedStateMachine):
    """The model knows which blocks may be there (saved and not forgotten), never more."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.may_be_there: dict[bytes, bytes] = {}
        self.open: list[tuple[TierFetch, bytes, list[bytes]]] = []
        self.start()

    def start(self) -> None:
        self.bench: Bench = bench(
            host_blocks=HOST_BLOCKS, disk=disk_in(self.folder, max_blocks=DISK_BLOCKS)
        )
        self.routed: dict[Medium, set[bytes]] = {Medium.HOST: set(), Medium.DISK: set()}
        self.bench.tiers.listen(self.route)

    def route(self, change: TierChange) -> None:
        there = self.routed[change.medium]
        for name in change.names:
            assert (name in there) != change.stored, "stored or removed twice"
            (there.add if change.stored else there.discard)(name)

    def teardown(self) -> None:
        self.bench.tiers.close()
        shutil.rmtree(self.folder)

    @rule(space=SPACES, prompt=PROMPTS, first=st.integers(0, 3), fails=st.booleans())
    def save(self, space: bytes, prompt: bytes, first: int, fails: bool) -> None:
        blocks = on_device(self.bench.pool, space, prompt)[first:]
        self.bench.pool.fails = fails and len(prompt) == 2
        self.bench.tiers.save(blocks)
        self.bench.pool.fails = False
        self.bench.pool.rows.fill_(255)
        self.may_be_there.update((block.name, space) for block in blocks)

    @rule(space=SPACES, prompt=PROMPTS)
    def fetch(self, space: bytes, prompt: bytes) -> None:
        names = names_of(space, prompt)
        held = self.bench.tiers.held(names)
        assert all(name in self.may_be_there for name in names[:held])
        if held:
            self.open.append((self.bench.tiers.fetch(names[:held]), space, names[:held]))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), load=st.booleans())
    def end_fetch(self, data: st.DataObject, load: bool) -> None:
        fetch, _, names = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        n = fetch.n_blocks
        if load:
            fetch.load([Extent(5, n * BLOCK_TOKENS)] if n else [])
            for index, name in enumerate(names[:n]):
                begin = 5 + index * BLOCK_TOKENS
                loaded = self.bench.pool.rows[begin : begin + BLOCK_TOKENS]
                assert bool((loaded == content(name)).all()), "rows of something else"
        fetch.close()

    @precondition(lambda self: self.bench.writer.waiting)
    @rule()
    def write(self) -> None:
        self.bench.writer.run(1)

    @precondition(lambda self: self.bench.readers.waiting)
    @rule()
    def read(self) -> None:
        self.bench.readers.run(1)

    @rule(data=st.data(), byte=st.integers(0, BLOCK + HEADER_BYTES - 1))
    def damage(self, data: st.DataObject, byte: int) -> None:
        files = sorted(self.folder.glob(f"kv-1/{HEX}/*/*.kv"))
        if files:
            path = data.draw(st.sampled_from(files))
            rows = bytearray(path.read_bytes())
            rows[byte] ^= 1
            path.write_bytes(rows)

    @rule(space=st.one_of(st.none(), SPACES))
    def forget(self, space: bytes | None) -> None:
        self.bench.tiers.forget(space)
        gone = [name for name, owner in self.may_be_there.items() if space in (None, owner)]
        for name in gone:
            del self.may_be_there[name]
        for fetch, owner, _ in self.open:
            if space in (None, owner):
                assert (fetch.done, fetch.n_blocks) == (True, 0)

    @rule(space=SPACES, prompt=PROMPTS, first=st.integers(0, 3))
    def forget_blocks(self, space: bytes, prompt: bytes, first: int) -> None:
        gone = set(names_of(space, prompt)[first:])
        self.bench.tiers.forget_blocks(sorted(gone))
        for name in gone:
            self.may_be_there.pop(name, None)
        for fetch, _, names in self.open:
            if gone.intersection(names):
                assert (fetch.done, fetch.n_blocks) == (True, 0)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            for fetch, *_ in self.open:
                fetch.close()
        else:  # killed: nothing that waits is written, nothing is deleted
            self.bench.writer.waiting.clear()
        self.bench.tiers.close()
        self.open.clear()
        self.start()
        there = self.routed[Medium.HOST] | self.routed[Medium.DISK]
        self.may_be_there = {n: o for n, o in self.may_be_there.items() if n in there}
        assert there == set(self.may_be_there), "forgotten blocks came back"

    @invariant()
    def books_balance(self) -> None:
        tiers = self.bench.tiers
        stats = tiers.stats()
        assert stats.host_blocks == len(self.routed[Medium.HOST]) <= HOST_BLOCKS
        assert stats.disk_bytes <= DISK_BLOCKS * (BLOCK + 150)
        tiers.held([b"nothing"])  # tells what threads did
        assert stats.disk_blocks == len(self.routed[Medium.DISK])
        on_disk = {bytes.fromhex(path.stem) for path in self.folder.glob(f"kv-1/{HEX}/*/*.kv")}
        assert on_disk == self.routed[Medium.DISK]
        assert (self.routed[Medium.HOST] | on_disk) <= set(self.may_be_there)


TestTiers = TierMachine.TestCase
TestTiers.settings = settings(max_examples=40, stateful_step_count=25)
