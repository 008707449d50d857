"""What names a prefix is all of it: no short hash, no part of it, no other bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.messages import decode_messages
from agentkit_runtime.api.openai.request import ChatCompletionBody
from agentkit_runtime.kv.events import BlockStored
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, chain, first_parent
from agentkit_runtime.kv.tokens import pack
from tests.runtime.kv.world import World
from tests.runtime.tiers.support import bench, disk_in

FRONT = list(range(2 * BLOCK_TOKENS))


@pytest.mark.parametrize("at", range(0, 2 * BLOCK_TOKENS, 5))
def test_a_block_s_name_depends_on_every_bit_of_every_token_before_it(at: int) -> None:
    """R25. Fault: what stood for a part of a prompt was cut to 16 bits, and others' content was
    read."""
    names = chain(first_parent(b"n"), pack(FRONT))
    assert {len(name) for name in names} == {32}
    for bit in (0, 7, 15, 16, 30):
        other = list(FRONT)
        other[at] ^= 1 << bit
        others = chain(first_parent(b"n"), pack(other))
        assert others[-1] != names[-1]
        assert (others[0] == names[0]) == (at >= BLOCK_TOKENS)


def test_tokens_that_differ_in_high_bits_only_share_nothing() -> None:
    """R25: the tree compares tokens, all bits of them."""
    world = World(200)
    world.whole(b"n", FRONT)
    other = [token + (1 << 16) for token in FRONT]
    assert world.cache.peek(b"n", pack(other)) == 0


def test_pictures_are_refused_and_not_left_out_of_a_prompt() -> None:
    """R25: a picture that is not part of what is compared would be another user's picture."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    content = [{"type": "text", "text": "What is this?"}, picture]
    body = ChatCompletionBody.model_validate(
        {"model": "m", "messages": [{"role": "user", "content": content}]}
    )
    with pytest.raises(ApiError, match="image_url"):
        decode_messages(body.messages)


@pytest.mark.parametrize("n_same", [2, 8, 16, 31])
def test_a_name_that_begins_like_another_finds_nothing(tmp_path: Path, n_same: int) -> None:
    """R26. Fault: 64 bits of a hash that is not a cryptographic one, and nothing compared."""
    b = bench(host_blocks=2, disk=disk_in(tmp_path))
    (name,) = b.store(b"a", b"x")
    b.store(b"a", b"yz")  # now it is on disk only
    for where in ("disk", "host"):
        assert b.tiers.held([name]) == 1, where
        assert b.tiers.held([name[:n_same] + bytes(32 - n_same)]) == 0
        b.store(b"a", b"x")
    b.tiers.close()


def test_a_file_under_another_block_s_name_is_not_read_as_that_block(tmp_path: Path) -> None:
    """R26: what the name promises is compared with what the file says it is."""
    first = bench(disk=disk_in(tmp_path))
    (mine,), (others,) = first.store(b"a", b"x"), first.store(b"a", b"y")
    first.tiers.close()
    (there,) = tmp_path.rglob(f"{others.hex()}.kv")
    there.rename(there.with_name(f"{mine.hex()}.kv"))
    b = bench(disk=disk_in(tmp_path))
    fetch = b.tiers.fetch([mine])
    b.readers.run()
    assert fetch.n_blocks == 0
    assert b.tiers.stats().failures == 1
    fetch.close()
    b.tiers.close()


def test_prompts_with_the_same_first_message_have_other_names_from_where_they_part() -> None:
    """R40. Fault: a router that knew prompts by their first message sent all to one worker."""
    world = World(400)
    tails = [[*range(base, base + BLOCK_TOKENS)] for base in (100, 200)]
    for tail in tails:
        world.whole(b"n", [*FRONT, *tail])
    stored = [numbered.event for numbered in world.log.since(0)]  # type: ignore[union-attr]
    first, second = [event for event in stored if isinstance(event, BlockStored)]
    assert second.parent_block_hash == first.block_hashes[1]
    assert set(first.block_hashes).isdisjoint(second.block_hashes)
    for tail in tails:
        names = chain(first_parent(b"n"), pack([*FRONT, *tail]))
        assert names[-1] in first.block_hashes + second.block_hashes
