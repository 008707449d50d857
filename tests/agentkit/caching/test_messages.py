"""Lists of messages: what is passed on from one to the next is what a walk would find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.messages import Block, Mark, Message, Messages, Role
from agentkit.caching.policy import BlockKind

BLOCKS = st.builds(
    Block,
    kind=st.sampled_from([BlockKind.TEXT, BlockKind.IMAGE, BlockKind.TOOL_USE]),
    digest=st.binary(min_size=1, max_size=2),
    n_tokens=st.integers(0, 50),
    mark=st.sampled_from([None, None, Mark()]),
)
MESSAGE = st.builds(Message, st.sampled_from(Role), st.lists(BLOCKS, max_size=3).map(tuple))
MESSAGES = st.lists(MESSAGE, max_size=6)


def assert_walked(messages: Messages) -> None:
    """What is known of a list is what a list of the same messages finds by walking."""
    fresh = Messages(messages)
    for name in ("blocks", "starts", "lengths", "roles", "marked", "shows_image"):
        assert getattr(messages, name) == getattr(fresh, name), name
    assert fresh.kinds <= messages.kinds


@given(first=MESSAGES, new=MESSAGES, newer=MESSAGES, data=st.data())
def test_a_list_that_goes_on_knows_what_a_walk_would_find(
    first: list[Message], new: list[Message], newer: list[Message], data: st.DataObject
) -> None:
    messages = Messages(first)
    for more in (new, newer):
        n_kept = data.draw(st.integers(0, len(messages)))
        expected = (*messages[:n_kept], *more)
        messages = messages.continued(n_kept, more)
        assert messages == expected
        assert_walked(messages)


@given(given=MESSAGES, data=st.data())
def test_other_marks_change_the_marks_and_nothing_else(
    given: list[Message], data: st.DataObject
) -> None:
    messages = Messages(given)
    places = st.sets(st.sampled_from(range(len(given)))) if given else st.just(set[int]())
    changed = {
        number: Message(
            given[number].role,
            tuple(
                Block(
                    kind=block.kind,
                    digest=block.digest,
                    n_tokens=block.n_tokens,
                    mark=data.draw(st.sampled_from([None, Mark()])),
                )
                for block in given[number].blocks
            ),
        )
        for number in data.draw(places)
    }
    made = messages.with_marks_of(changed)
    assert list(made) == [changed.get(number, each) for number, each in enumerate(given)]
    assert_walked(made)
