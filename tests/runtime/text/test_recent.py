"""The bounded memory of what was used last."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from agentkit_runtime.text.recent import Recent

KEYS = st.integers(0, 6)
STEPS = st.lists(st.one_of(st.tuples(KEYS), st.tuples(KEYS, st.integers(0, 12))), max_size=60)


def test_what_was_read_last_stays_before_what_was_put_last() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (1, None, 3)


def test_a_new_value_takes_the_weight_of_the_old_one_away() -> None:
    recent: Recent[str, int] = Recent(10)
    recent.put("a", 1, weight=9)
    recent.put("a", 2, weight=3)
    assert (recent.weight, recent.get("a")) == (3, 2)


def test_what_is_heavier_than_the_memory_is_not_kept_and_drops_nothing_else() -> None:
    recent: Recent[str, int] = Recent(10)
    recent.put("a", 1, weight=4)
    recent.put("b", 2, weight=11)
    assert (recent.get("a"), recent.get("b"), recent.weight) == (1, None, 4)
    recent.put("a", 3, weight=11)
    assert (recent.get("a"), recent.weight, len(recent)) == (None, 0, 0)


@given(STEPS)
def test_it_is_the_newest_that_fit(steps: list[tuple[int, ...]]) -> None:
    recent: Recent[int, int] = Recent(20)
    kept: OrderedDict[int, tuple[int, int]] = OrderedDict()
    for number, (key, *weight) in enumerate(steps):
        if not weight:
            assert recent.get(key) == (kept[key][0] if key in kept else None)
            if key in kept:
                kept.move_to_end(key)
            continue
        recent.put(key, number, weight[0])
        kept.pop(key, None)
        kept[key] = (number, weight[0])
        while sum(each for _, each in kept.values()) > 20:
            kept.popitem(last=False)
        assert recent.weight == sum(each for _, each in kept.values())
    assert len(recent) == len(kept)
