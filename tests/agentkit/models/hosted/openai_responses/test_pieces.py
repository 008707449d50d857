"""What is kept of encoded segments."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from agentkit.caching.policy import BlockKind
from agentkit.caching.request import Role
from agentkit.models.hosted.openai_responses.pieces import Entry, PieceStore, piece


class Encoding:
    """Counts how often something is encoded."""

    def __init__(self, n_bytes: int = 10) -> None:
        self.count = 0
        self._data = b"x" * n_bytes

    def __call__(self) -> tuple[Entry, ...]:
        self.count += 1
        made = piece(self._data, kind=BlockKind.TEXT, n_tokens=1)
        return (Entry(Role.USER, (made,)),)


def test_what_was_used_longest_ago_goes_when_there_is_no_room() -> None:
    store = PieceStore(max_bytes=25)
    first, second, third = Encoding(), Encoding(), Encoding()

    for digest, encode in [("a", first), ("b", second), ("a", first), ("c", third)]:
        store.get(digest, encode)
    for digest, encode in [("a", first), ("c", third), ("b", second)]:
        store.get(digest, encode)

    assert (first.count, second.count, third.count) == (1, 2, 1)


def test_a_segment_larger_than_the_store_is_kept_while_it_is_the_last() -> None:
    store, large = PieceStore(max_bytes=25), Encoding(100)

    store.get("large", large)
    store.get("large", large)

    assert large.count == 1


def test_threads_get_the_same_pieces() -> None:
    store, encode = PieceStore(max_bytes=100), Encoding()

    def work(number: int) -> tuple[Entry, ...]:
        return store.get(str(number % 20), encode)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(2_000)))

    assert len({entries[0].pieces[0].data for entries in found}) == 1
    assert encode.count >= 20
