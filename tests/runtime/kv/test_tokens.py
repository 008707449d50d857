from __future__ import annotations

import pytest

from agentkit_runtime.kv.tokens import common_prefix, count, pack, require_whole_tokens, unpack


def test_tokens_are_little_endian_int32() -> None:
    assert pack([1, 258, -1]) == b"\x01\0\0\0\x02\x01\0\0\xff\xff\xff\xff"


def test_unpack_undoes_pack() -> None:
    ids = [0, 1, 49151, 2**31 - 1]
    assert unpack(pack(ids)) == ids
    assert count(pack(ids)) == 4


def test_an_id_beyond_int32_is_refused() -> None:
    with pytest.raises(OverflowError):
        pack([2**31])


def test_half_a_token_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 4 bytes long, got 6"):
        require_whole_tokens(b"\0" * 6)


@pytest.mark.parametrize(
    ("tokens", "offset", "edge", "expected"),
    [
        ([1, 2, 3], 0, [1, 2, 4], 2),
        ([1, 2, 3], 0, [1, 2, 3, 4], 3),
        ([9, 1, 2, 3], 1, [1, 2], 2),
        ([9, 1, 2, 3], 1, [2], 0),
        # Equal bytes across a token border do not count: 0x0100 and 0x0200 share their low byte.
        ([256], 0, [512], 0),
    ],
)
def test_common_prefix_counts_whole_tokens(
    tokens: list[int], offset: int, edge: list[int], expected: int
) -> None:
    assert common_prefix(pack(tokens), 4 * offset, pack(edge)) == expected
