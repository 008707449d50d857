"""The memory of encoded pieces: same answers, bounded, private to a tenant, shared by threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from agentkit_runtime.text.piece_cache import PieceCache
from agentkit_runtime.text.tokenizer import Tokenizer


def lengths(asked: list[str], max_chars: int) -> PieceCache:
    def encode(text: str) -> tuple[int, ...]:
        asked.append(text)
        return (len(text),)

    return PieceCache(encode, max_chars=max_chars)


def test_a_known_text_is_not_encoded_again() -> None:
    asked: list[str] = []
    cache = lengths(asked, 1000)
    assert [cache("t", text) for text in ("abc", "abc", "")] == [(3,), (3,), (0,)]
    assert asked == ["abc", ""]


def test_no_tenant_finds_what_another_said() -> None:
    asked: list[str] = []
    cache = lengths(asked, 1000)
    assert cache("one", "secret") == cache("two", "secret") == (6,)
    assert asked == ["secret", "secret"]


def test_the_least_recently_used_text_goes_first() -> None:
    asked: list[str] = []
    cache = lengths(asked, 3 * 40)
    for text in ("a" * 8, "b" * 8, "c" * 8, "a" * 8, "d" * 8, "a" * 8, "b" * 8):
        assert cache("t", text) == (8,)
    assert [text[0] for text in asked] == ["a", "b", "c", "d", "b"]
    assert cache.n_chars == 3 * 40


def test_a_text_that_is_too_long_is_encoded_and_not_kept() -> None:
    asked: list[str] = []
    cache = lengths(asked, 50)
    cache("t", "aa")
    assert cache("t", "x" * 70) == cache("t", "x" * 70) == (70,)
    assert asked == ["aa", "x" * 70, "x" * 70]
    assert cache("t", "aa") == (2,)
    assert len(asked) == 3


def test_threads_get_the_same_ids(smollm2: Tokenizer) -> None:
    texts = [f"<|im_start|>user\ntext {i % 7} of many<|im_end|>" for i in range(200)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: smollm2.encode_rendered(text, None), texts))
    for text, ids in zip(texts, found, strict=True):
        assert smollm2.decode(ids, skip_special=False) == text
        assert ids == found[texts.index(text)]
