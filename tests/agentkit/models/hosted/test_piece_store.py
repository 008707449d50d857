"""What is kept of encoded segments."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from agentkit.models.hosted.piece_store import PieceStore


class Encoding:
    """Counts how often something is encoded."""

    def __init__(self, n_bytes: int = 1_000) -> None:
        self.count = 0
        self._data = b"x" * n_bytes

    def __call__(self) -> bytes:
        self.count += 1
        return bytes(bytearray(self._data))  # another object each time


def test_what_was_used_longest_ago_goes_when_there_is_no_room() -> None:
    store = PieceStore[bytes](len, max_bytes=2_500)
    first, second, third = Encoding(), Encoding(), Encoding()

    for key, encode in [("a", first), ("b", second), ("a", first), ("c", third)]:
        store.get(key, encode)
    for key, encode in [("a", first), ("c", third), ("b", second)]:
        store.get(key, encode)

    assert (first.count, second.count, third.count) == (1, 2, 1)
    assert len(store) == 2


def test_what_is_larger_than_the_store_is_kept_while_it_is_the_last() -> None:
    store, large, small = PieceStore[bytes](len, max_bytes=25), Encoding(), Encoding(1)

    store.get("large", large)
    store.get("large", large)
    store.get("small", small)
    store.get("large", large)

    assert large.count == 2


def test_entries_without_bytes_are_bounded_too() -> None:
    store = PieceStore[bytes](len, max_bytes=10_000)

    for number in range(1_000):
        store.get(number, Encoding(0))

    assert 1 < len(store) <= 50


def test_threads_that_encode_at_the_same_time_get_the_same_pieces() -> None:
    store, both = PieceStore[bytes](len), threading.Barrier(2)
    encode = Encoding()

    def slow() -> bytes:
        both.wait(10)  # nothing is kept before both have begun
        return encode()

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: store.get("key", slow), range(2))

    assert encode.count == 2
    assert one is other
    assert len(store) == 1
