"""The operations of many agents on a prefix tree, for any tree, timed. Standard library only.

64 agents share 8,000 tokens; each has 20 turns of 200 new prompt tokens and 100 generated ones, in
turn. A turn is a match (find the prompt, lock it, list its slots) and an insert (of prompt and
answer, with the unlock). Then all contexts are matched once more; and the same again in a pool that
has room for 60 % of the tokens, with evictions.
"""

from __future__ import annotations

import random
import statistics
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

SHARED = 8_000
PROMPT = 200
ANSWER = 100


@dataclass(frozen=True, slots=True)
class Load:
    """How much of it."""

    agents: int = 64
    turns: int = 20
    room: float = 0.6
    """Pool of the second phase, as a share of all distinct tokens."""

    @property
    def distinct(self) -> int:
        """Tokens that a tree without evictions ends up with."""
        return SHARED + self.agents * self.turns * (PROMPT + ANSWER)

    def contexts(self) -> list[array[int]]:
        """What each agent's context is at the end."""
        draw = random.Random(5)

        def tokens(n: int) -> array[int]:
            return array("i", (draw.randrange(100, 32_000) for _ in range(n)))

        shared = tokens(SHARED)
        return [shared + tokens(self.turns * (PROMPT + ANSWER)) for _ in range(self.agents)]

    def steps(self) -> Iterator[tuple[int, int, int]]:
        """Agent, tokens of the prompt, tokens with the answer; in order."""
        for turn in range(self.turns):
            before = SHARED + turn * (PROMPT + ANSWER)
            for agent in range(self.agents):
                yield agent, before + PROMPT, before + PROMPT + ANSWER


class Tree(Protocol):
    """A prefix tree with its free list. Handles and keys are whatever it likes."""

    def key(self, tokens: array[int]) -> Any:
        """Tokens in the form that the engine keeps them in; not timed."""

    def match(self, key: Any) -> Any:
        """Find, lock, and list the slots. Returns a handle."""

    def length(self, handle: Any) -> int:
        """Return how many tokens were found; not timed."""

    def shortage(self, n_tokens: int) -> int:
        """Return how many slots must be evicted before `n_tokens` can be had; not timed."""

    def evict(self, n_tokens: int) -> None:
        """Make room."""

    def slots(self, handle: Any, n_tokens: int) -> Any:
        """Get the slots of a whole sequence, found ones and new ones; not timed."""

    def insert(self, handle: Any, key: Any, slots: Any) -> None:
        """Insert, and unlock."""


@dataclass(slots=True)
class Timed:
    """Median microseconds of thread CPU time, and hit rates."""

    match_us: float = 0.0
    insert_us: float = 0.0
    rematch_us: float = 0.0
    match_evicting_us: float = 0.0
    evict_us: float = 0.0
    hit: float = 0.0
    hit_evicting: float = 0.0

    def as_dict(self) -> dict[str, float]:
        """Return all of it as plain values."""
        return asdict(self)


@dataclass(slots=True)
class _Clock:
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def run(self, name: str, work: Callable[..., Any], *args: Any) -> Any:
        began = time.thread_time_ns()
        result = work(*args)
        taken = time.thread_time_ns() - began
        self.seconds.setdefault(name, []).append(taken / 1_000)
        return result

    def median(self, name: str) -> float:
        return statistics.median(self.seconds.get(name, [0.0]))


def measure(make: Callable[[int], Tree], load: Load) -> Timed:
    """Run the load on trees that `make` builds for a number of slots."""
    contexts = load.contexts()
    clock = _Clock()
    tree = make(load.distinct + 64)
    hit = _play(tree, load, contexts, clock, "")
    for context in contexts:
        key = tree.key(context)
        handle = clock.run("rematch", tree.match, key)
        tree.insert(handle, key, tree.slots(handle, len(context)))
    hit_evicting = _play(make(int(load.room * load.distinct)), load, contexts, clock, "_evicting")
    return Timed(
        clock.median("match"),
        clock.median("insert"),
        clock.median("rematch"),
        clock.median("match_evicting"),
        clock.median("evict_evicting"),
        hit,
        hit_evicting,
    )


def _play(tree: Tree, load: Load, contexts: list[array[int]], clock: _Clock, suffix: str) -> float:
    found = wanted = 0
    for agent, n_prompt, n_full in load.steps():
        prompt = tree.key(contexts[agent][:n_prompt])
        full = tree.key(contexts[agent][:n_full])
        handle = clock.run("match" + suffix, tree.match, prompt)
        found += tree.length(handle)
        wanted += n_prompt
        missing = tree.shortage(n_full - tree.length(handle))
        if missing > 0:
            clock.run("evict" + suffix, tree.evict, missing)
        slots = tree.slots(handle, n_full)
        clock.run("insert" + suffix, tree.insert, handle, full, slots)
    return found / wanted
