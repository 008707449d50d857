"""Lengths that were counted once stay: only what is new since the last count is estimated."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.request import Block, CacheRequest, Identity, Message, Role
from agentkit.caching.track.scale import Counted, Sized, TokenScale


def _conversation(*messages: tuple[int, ...]) -> CacheRequest:
    return CacheRequest(
        identity=Identity(model="m"),
        tools=(Block(digest=b"t", n_tokens=100),),
        messages=tuple(
            Message(
                Role.USER,
                tuple(
                    Block(digest=bytes([number, place]), n_tokens=n)
                    for place, n in enumerate(blocks)
                ),
            )
            for number, blocks in enumerate(messages)
        ),
    )


def _counted(sized: Sized, actual: int) -> Counted:
    return Counted(
        n_blocks=sized.given.n_blocks,
        estimated=sized.given.tokens(),
        actual=actual,
        sized=sized,
    )


def _lengths(sized: Sized) -> list[int]:
    return [block.n_tokens for block in sized.request.blocks]


def test_what_was_counted_keeps_its_length_and_its_objects() -> None:
    scale = TokenScale()
    messages = ((100,), (50, 50), (30,), (40,))
    first = scale.sized(_conversation(*messages[:1]), None)
    second = scale.sized(_conversation(*messages[:2]), _counted(first, 240))
    third = scale.sized(_conversation(*messages[:3]), _counted(second, 320))
    fourth = scale.sized(_conversation(*messages), _counted(third, 359))

    assert _lengths(second) == [120, 120, 50, 50]
    assert _lengths(third) == [120, 120, 40, 40, 30]
    assert _lengths(fourth) == [120, 120, 40, 40, 39, 40]
    assert fourth.request.messages[0] is third.request.messages[0]
    assert fourth.request.messages[1] is third.request.messages[1]


def test_a_prompt_that_was_counted_shorter_than_its_beginning_is_measured_anew() -> None:
    scale = TokenScale()
    first = scale.sized(_conversation((100,)), None)
    second = scale.sized(_conversation((100,), (100,)), _counted(first, 400))

    third = scale.sized(_conversation((100,), (100,), (100,)), _counted(second, 300))

    assert _lengths(third) == [100, 100, 100, 100]


def test_another_conversation_is_measured_by_its_own_count() -> None:
    scale = TokenScale()
    first = scale.sized(_conversation((100,)), None)
    second = scale.sized(_conversation((100,), (100,)), _counted(first, 400))

    other = scale.sized(_conversation((100,), (70,)), _counted(second, 540))

    assert sum(_lengths(other)) == 540


@given(
    st.lists(st.lists(st.integers(0, 500), min_size=1, max_size=3), min_size=2, max_size=6),
    st.data(),
)
def test_a_counted_beginning_has_exactly_the_counted_tokens(
    sizes: list[list[int]], data: st.DataObject
) -> None:
    scale = TokenScale()
    messages = [tuple(each) for each in sizes]
    sized = scale.sized(_conversation(*messages[:1]), None)
    for end in range(2, len(messages) + 1):
        n_before = sized.given.n_blocks
        actual = data.draw(st.integers(1, 5_000))
        counted = _counted(sized, actual)
        scale.learn(counted)

        sized = scale.sized(_conversation(*messages[:end]), counted)

        assert sized.request.tokens(n_before) == actual
        assert min(_lengths(sized)) >= 0
