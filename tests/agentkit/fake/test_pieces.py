"""From pieces of JSON to blocks: what is equal, and how long it is."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.policy import BlockKind, Ttl
from agentkit.fake.fields import Problem
from agentkit.fake.pieces import block_of, compact, mark_of

DATA = base64.b64encode(bytes(3_000)).decode()
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abcdef"), JSON, min_size=1), st.randoms())
def test_a_mark_and_the_order_of_a_piece_s_own_keys_change_nothing(
    piece: dict[str, Any], random: Any
) -> None:
    items = [*piece.items(), ("cache_control", {"type": "ephemeral", "ttl": "1h"})]
    random.shuffle(items)
    plain, marked = block_of(piece, BlockKind.TEXT), block_of(dict(items), BlockKind.TEXT)
    assert (plain.digest, plain.n_tokens) == (marked.digest, marked.n_tokens)
    assert plain.n_tokens == -(-len(compact(piece)) // 4)


def test_the_order_of_keys_inside_is_part_of_the_prompt() -> None:
    one = {"type": "tool_use", "input": {"a": 1, "b": 2}}
    other = {"type": "tool_use", "input": {"b": 2, "a": 1}}
    assert block_of(one, BlockKind.TOOL_USE) != block_of(other, BlockKind.TOOL_USE)


@pytest.mark.parametrize(
    ("piece", "kind", "n_tokens"),
    [
        (PNG, BlockKind.IMAGE, 1_600),
        ({"type": "input_image", "image_url": f"data:x,{DATA}"}, BlockKind.IMAGE, 1_600),
        ({"type": "image_url", "image_url": {"url": DATA}}, BlockKind.IMAGE, 1_600),
        ({"inlineData": {"mimeType": "image/png", "data": DATA}}, BlockKind.IMAGE, 1_600),
        ({"fileData": {"mimeType": "image/png", "fileUri": "x"}}, BlockKind.IMAGE, 1_600),
        (
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": DATA},
            },
            BlockKind.DOCUMENT,
            len(DATA) // 30,
        ),
        ({"type": "input_file", "file_data": DATA}, BlockKind.DOCUMENT, len(DATA) // 30),
    ],
)
def test_images_and_files_count_by_their_own_rules_and_not_by_their_bytes(
    piece: dict[str, Any], kind: BlockKind, n_tokens: int
) -> None:
    assert block_of(piece, kind).n_tokens == n_tokens


def test_a_result_counts_the_images_in_it_beside_its_text() -> None:
    text = {"type": "text", "text": "x" * 400}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [text, PNG]}
    block = block_of(result, BlockKind.TOOL_RESULT)
    assert 1_700 < block.n_tokens < 1_750
    assert block.shows_image
    assert not block_of({**result, "content": [text]}, BlockKind.TOOL_RESULT).shows_image


def test_marks_are_read_in_both_spellings_and_refused_in_others() -> None:
    one_hour = mark_of({"cache_control": {"type": "ephemeral", "ttl": "1h"}}, "x")
    assert one_hour is not None
    assert one_hour.ttl is Ttl.ONE_HOUR
    half = mark_of({"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}, "x")
    assert half is not None
    assert half.ttl is Ttl.THIRTY_MINUTES
    assert mark_of({}, "x") is None
    for wrong in ({"type": "forever"}, {"type": "ephemeral", "ttl": "2h"}, "ephemeral"):
        with pytest.raises(Problem):
            mark_of({"cache_control": wrong}, "x")


async def test_the_first_image_of_a_prompt_loses_its_messages_also_inside_a_result(
    anthropic: AsyncAnthropic,
) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    rules = [{"type": "text", "text": "Follow the rules. " * 200, **mark}]
    question = {"type": "text", "text": "Look, please. " * 200, **mark}
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    messages: list[Any] = [{"role": "user", "content": [question]}]

    async def read() -> tuple[int | None, int | None]:
        reply = await anthropic.messages.create(
            model="claude-sonnet-5-5",
            max_tokens=10,
            system=rules,  # type: ignore[arg-type]
            messages=messages,
        )
        return reply.usage.cache_read_input_tokens, reply.usage.cache_creation_input_tokens

    _, written = await read()
    assert await read() == (written, 0)
    result = {"type": "tool_result", "tool_use_id": "t", "content": [PNG]}
    messages += [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    size = len(json.dumps({"type": "text", "text": rules[0]["text"]}, separators=(",", ":")))
    assert (await read())[0] == -(-size // 4)
