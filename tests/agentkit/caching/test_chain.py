"""Prefix hashes with a memory are those without one, whatever was asked before."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.chain import PrefixMemory, boundaries
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

        assert remembered == boundaries(request, scope=("s",), invalidations=rules)


def test_what_was_returned_can_be_changed_without_harm() -> None:
    memory = PrefixMemory()
    request = _request((2,), (3,))
    expected = boundaries(request, scope=(), invalidations=RULES)

    boundaries(request, scope=(), invalidations=RULES, memory=memory).clear()

    assert boundaries(request, scope=(), invalidations=RULES, memory=memory) == expected


def test_only_new_messages_are_hashed() -> None:
    memory = PrefixMemory()
    short = _request((2,), (3,))
    long = replace(short, messages=(*short.messages, *_request((5,)).messages))
    before = boundaries(short, scope=(), invalidations=RULES, memory=memory)

    after = boundaries(long, scope=(), invalidations=RULES, memory=memory)

    assert all(was is now for was, now in zip(before, after, strict=False))
    assert len(after) == len(before) + 1


def test_a_request_with_marks_has_the_same_keys_and_shows_its_marks() -> None:
    memory = PrefixMemory()
    plain = _request((2, 3), (3,))
    marked = plain.with_marks({2: Mark()})
    before = boundaries(plain, scope=(), invalidations=RULES, memory=memory)

    after = boundaries(marked, scope=(), invalidations=RULES, memory=memory)

    assert [prefix.key for prefix in after] == [prefix.key for prefix in before]
    assert [prefix.block.mark is not None for prefix in after] == [False, False, True, False, False]


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
