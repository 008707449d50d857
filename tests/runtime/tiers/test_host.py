"""Places in host memory: who has one, who must leave, and that none is lost."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentkit_runtime.kv.tiers.arena import HostArena
from agentkit_runtime.kv.tiers.host import HostBlock, HostIndex

NAMES = st.integers(0, 7).map(lambda i: bytes([i]))


def space(name: bytes) -> bytes:
    """Each name belongs to one of two namespaces."""
    return b"even" if name[0] % 2 == 0 else b"odd"


class HostMachine(RuleBasedStateMachine):
    """Against a list of names, least recently used first, and a list of uses."""

    def __init__(self) -> None:
        super().__init__()
        self.index = HostIndex(4)
        self.model: list[bytes] = []
        self.uses: list[HostBlock] = []

    @rule(name=NAMES)
    def insert(self, name: bytes) -> None:
        if name in self.index:
            return
        in_use = {use.place for use in self.uses}
        block, gone = self.index.insert(name, space(name))
        if block is None:
            assert len(in_use) == 4
            return
        assert block.place not in in_use
        if gone is not None:
            used = {use.name for use in self.uses if use.listed}
            assert gone == next(n for n in self.model if n not in used)
            # What is in use and was looked at on the way counts as recently used.
            at = self.model.index(gone)
            self.model = self.model[at + 1 :] + self.model[:at]
        self.model.append(name)
        self.uses.append(block)

    @rule(name=NAMES)
    def use(self, name: bytes) -> None:
        block = self.index.use(name)
        assert (block is not None) == (name in self.model)
        if block is not None:
            self.uses.append(block)

    @precondition(lambda self: self.uses)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.index.release(self.uses.pop(data.draw(st.integers(0, len(self.uses) - 1))))

    @rule(names=st.lists(NAMES, max_size=3, unique=True))
    def touch(self, names: list[bytes]) -> None:
        self.index.touch(names)
        known = [name for name in names if name in self.model]
        self.model = [name for name in self.model if name not in known] + known

    @rule(name=NAMES)
    def drop(self, name: bytes) -> None:
        assert self.index.drop(name) == (name in self.model)
        self.model = [n for n in self.model if n != name]

    @rule(namespace=st.sampled_from([b"even", b"odd", None]))
    def forget(self, namespace: bytes | None) -> None:
        gone = [n for n in self.model if namespace in (None, space(n))]
        assert sorted(self.index.forget(namespace)) == sorted(gone)
        self.model = [n for n in self.model if n not in gone]

    @invariant()
    def books_balance(self) -> None:
        self.index.check(len(self.uses))
        assert list(self.index.names()) == self.model
        places = {}
        for use in self.uses:
            assert places.setdefault(use.place, use) is use, "two blocks in one place"


TestHost = HostMachine.TestCase
TestHost.settings = settings(max_examples=60, stateful_step_count=40)


def test_an_index_needs_a_place() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        HostIndex(0)


@pytest.mark.parametrize("places", [[0], [0, 1, 2], [2, 1, 0], [5, 6, 1, 2, 7], []])
def test_rows_come_back_from_the_places_they_were_put_in(places: list[int]) -> None:
    arena = HostArena(8, 4, torch.device("cpu"))
    rows = torch.arange(len(places) * 64, dtype=torch.int64).to(torch.uint8).view(-1, 4)
    arena.put(places, rows)
    assert torch.equal(torch.cat([rows[:0], *arena.take(places)]), rows)
    for index, place in enumerate(places):
        assert bytes(arena.bytes_of(place)) == bytes(rows[index * 16 : index * 16 + 16].flatten())


def test_neighbours_are_taken_in_one_piece() -> None:
    arena = HostArena(8, 4, torch.device("cpu"))
    assert [len(rows) // 16 for rows in arena.take([3, 4, 5, 1, 2, 7])] == [3, 2, 1]
