"""Prefix hashes with a memory are those without one, whatever was asked before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.chain import Prefixes, PrefixMemory, boundaries
from agentkit.caching.policy import BlockKind, Change, Invalidation, Section
from agentkit.caching.request import Block, CacheRequest, Identity, Mark, Message, Role

RULES = (
    Invalidation(change=Change.MODEL, lost_from=Section.TOOLS),
    Invalidation(change=Change.TOOL_CHOICE, lost_from=Section.MESSAGES),
    Invalidation(change=Change.IMAGES, lost_from=Section.MESSAGES),
)
OTHER_RULES = RULES[:1]


def _block(name: int, n_tokens: int = 5) -> Block:
    kind = BlockKind.IMAGE if name == 4 else BlockKind.TEXT
    return Block(kind=kind, digest=bytes([name]), n_tokens=n_tokens)


def _request(*messages: tuple[int, ...], tools: tuple[int, ...] = (0,)) -> CacheRequest:
    return CacheRequest(
        identity=Identity(model="m"),
        tools=tuple(map(_block, tools)),
        system=(_block(1),),
        messages=tuple(
            Message(Role.ASSISTANT if number % 2 else Role.USER, tuple(map(_block, blocks)))
            for number, blocks in enumerate(messages)
        ),
    )


def _shown(prefixes: Prefixes) -> list[tuple[object, ...]]:
    """Return all that is promised of prefixes: marks and lengths of their blocks are not."""
    return [
        (*each[:3], each.block.digest, each.block.kind, each.section, each.message, each.role)
        for each in prefixes
    ]


_blocks = st.builds(_block, st.integers(0, 4), st.integers(0, 3))
_some = st.lists(_blocks, max_size=3).map(tuple)
_requests = st.builds(
    CacheRequest,
    identity=st.builds(
        Identity, model=st.sampled_from("mn"), tool_choice=st.sampled_from(("auto", "any"))
    ),
    tools=_some,
    system=_some,
    messages=st.lists(st.builds(Message, st.sampled_from(Role), _some), max_size=5).map(tuple),
)


@st.composite
def _sequences(draw: st.DrawFn) -> list[CacheRequest]:
    """Requests that grow, shrink, get marks and other lengths, or begin anew."""
    found = [draw(_requests)]
    for _ in range(draw(st.integers(1, 6))):
        last = found[-1]
        match draw(st.sampled_from(("grow", "cut", "mark", "resize", "other", "again"))):
            case "grow":
                more = draw(st.lists(st.builds(Message, st.sampled_from(Role), _some), max_size=3))
                found.append(replace(last, messages=(*last.messages, *more)))
            case "cut":
                found.append(replace(last, messages=last.messages[:-1]))
            case "mark":
                places = draw(st.sets(st.integers(0, 9), max_size=3))
                known = {place for place in places if place < last.n_blocks}
                found.append(last.with_marks(dict.fromkeys(known, Mark())))
            case "resize":
                blocks = [replace(block, n_tokens=draw(st.integers(0, 3))) for block in last.blocks]
                found.append(last.with_blocks(blocks))
            case "other":
                found.append(draw(_requests))
            case _:
                found.append(found[0])
    return found


@given(_sequences(), st.sampled_from((1, 12, 1_000)), st.lists(st.booleans(), min_size=7))
def test_a_memory_changes_no_prefix(
    requests: list[CacheRequest], size: int, others: list[bool]
) -> None:
    memory = PrefixMemory(size)

    for request, other in zip(requests, others, strict=False):
        rules = OTHER_RULES if other else RULES
        remembered = boundaries(request, scope=("s",), invalidations=rules, memory=memory)

        expected = boundaries(request, scope=("s",), invalidations=rules)
        assert _shown(remembered) == _shown(expected)
        assert remembered.keys == expected.keys == tuple(prefix.key for prefix in expected)
        assert remembered.settings == expected.settings


def test_only_new_messages_are_hashed() -> None:
    memory = PrefixMemory()
    short = _request((2,), (3,))
    long = replace(short, messages=(*short.messages, *_request((5,)).messages))
    before = boundaries(short, scope=(), invalidations=RULES, memory=memory)

    after = boundaries(long, scope=(), invalidations=RULES, memory=memory)

    assert all(was is now for was, now in zip(before, after, strict=False))
    assert len(after) == len(before) + 1


@pytest.mark.parametrize("place", [0, 1, 2, 4])
def test_a_request_with_marks_has_the_same_prefixes(place: int) -> None:
    memory = PrefixMemory()
    plain = _request((2, 3), (3,))
    marked = plain.with_marks({place: Mark()})
    before = boundaries(plain, scope=(), invalidations=RULES, memory=memory)

    assert boundaries(marked, scope=(), invalidations=RULES, memory=memory) is before


@pytest.mark.parametrize("place", [0, 1, 2, 4])
def test_other_lengths_are_measured_and_not_hashed_anew(place: int) -> None:
    memory = PrefixMemory()
    before = _request((2, 3), (3,))
    longer = [
        replace(block, n_tokens=50) if at == place else block
        for at, block in enumerate(before.blocks)
    ]
    after = before.with_blocks(longer)
    first = boundaries(before, scope=(), invalidations=RULES, memory=memory)

    second = boundaries(after, scope=(), invalidations=RULES, memory=memory)

    assert all(was is now for was, now in zip(first.keys, second.keys, strict=True))
    assert [each.n_tokens for each in second] == [after.tokens(at) for at in range(1, 6)]


def test_a_block_of_another_kind_is_hashed_anew() -> None:
    memory = PrefixMemory()
    before = _request((2,), (3,))
    other = [*before.blocks[:-1], replace(before.blocks[-1], kind=BlockKind.TOOL_RESULT)]
    after = before.with_blocks(other)
    first = boundaries(before, scope=(), invalidations=RULES, memory=memory)

    second = boundaries(after, scope=(), invalidations=RULES, memory=memory)

    assert second.keys[:-1] == first.keys[:-1]
    assert second.keys[-1] != first.keys[-1]


def test_a_memory_forgets_what_was_used_longest_ago() -> None:
    memory = PrefixMemory(max_prefixes=8)
    first, second, third = (_request((name,), (3,)) for name in (5, 6, 7))
    prefixes = [
        boundaries(each, scope=(), invalidations=RULES, memory=memory)
        for each in (first, second, first, third, first)
    ]

    assert prefixes[2][0] is prefixes[0][0]
    assert prefixes[4][0] is prefixes[0][0]
    again = boundaries(second, scope=(), invalidations=RULES, memory=memory)
    assert again == prefixes[1]
    assert again[0] is not prefixes[1][0]
