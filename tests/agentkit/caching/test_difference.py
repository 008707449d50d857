"""Where two requests part: the block, the byte, the setting, and who supplied it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.difference import changed_identity, compare
from agentkit.caching.policy import BlockKind, Change
from agentkit.caching.request import Identity, Message, Role
from tests.agentkit.caching.judging import TALK, TOOLS, sent

TEXTS = st.lists(st.text("ab", max_size=4), min_size=1, max_size=6)


def test_a_request_that_grew_at_its_end_does_not_differ() -> None:
    assert compare(sent(talk=TALK[:3]), sent(talk=TALK)) is None


def test_the_same_request_does_not_differ() -> None:
    request = sent()

    assert compare(request, request) is None
    assert compare(request, sent()) is None


def test_what_is_volatile_may_change_and_be_replaced_by_more_history() -> None:
    before = sent(talk=TALK[:3], volatile="it is 12:00")

    assert compare(before, sent(talk=TALK[:3], volatile="it is 12:01")) is None
    assert compare(before, sent(talk=TALK, volatile="it is 12:01")) is None


def test_the_first_byte_of_a_changed_segment_is_named_with_its_source() -> None:
    now = sent(role="You are a careless clerk.", sources={1: "app.py:12"})

    difference = compare(sent(), now)

    assert difference is not None
    assert (difference.section, difference.block, difference.segment) == (
        "system",
        2,
        "system/role",
    )
    assert now.wire[2].data[difference.byte :].startswith(b"less clerk")
    assert sent().wire[2].data[difference.byte :].startswith(b"ful clerk")
    assert "careful" in difference.before
    assert "careless" in difference.after
    assert difference.source == "app.py:12"


def test_a_message_is_named_by_its_number_in_the_history() -> None:
    changed = (*TALK[:1], "hi, who are you?", TALK[2])

    difference = compare(sent(), sent(talk=changed))

    assert difference is not None
    assert (difference.section, difference.segment) == ("messages", "history[1]")


def test_a_tool_that_is_added_is_shown_as_inserted_and_not_as_a_changed_role() -> None:
    difference = compare(sent(), sent(tools=(*TOOLS, "gamma")))

    assert difference is not None
    assert (difference.section, difference.block, difference.segment) == ("tools", 2, "tools")
    assert (difference.before, difference.byte) == ("", 0)
    assert "gamma" in difference.after


def test_a_tool_that_is_gone_is_shown_as_removed() -> None:
    difference = compare(sent(), sent(tools=TOOLS[:1]))

    assert difference is not None
    assert (difference.section, difference.block, difference.after) == ("tools", 1, "")
    assert "beta" in difference.before


def test_a_history_that_was_cut_differs_where_it_ends() -> None:
    difference = compare(sent(), sent(talk=TALK[:2]))

    assert difference is not None
    assert (difference.block, difference.segment, difference.after) == (5, "history[2]", "")
    assert TALK[2] in difference.before


def test_the_same_bytes_from_another_role_differ() -> None:
    before, now = sent(talk=("hello",)), sent(talk=("hello",))
    (message,) = now.request.messages
    other = replace(now.request, messages=(Message(Role.ASSISTANT, message.blocks),))

    difference = compare(before, replace(now, request=other))

    assert difference is not None
    assert difference.block == 3


def test_the_same_bytes_as_another_kind_of_block_differ() -> None:
    before, now = sent(), sent()
    as_tool_use = replace(now.wire[4].block, kind=BlockKind.TOOL_USE)
    wire = (*now.wire[:4], replace(now.wire[4], block=as_tool_use), *now.wire[5:])

    difference = compare(before, replace(now, wire=wire))

    assert difference is not None
    assert difference.block == 4


def test_messages_that_are_cut_otherwise_differ_although_their_bytes_do_not() -> None:
    before, now = sent(talk=("hello", "there")), sent(talk=("hello", "there"))
    first, second = now.request.messages
    joined = replace(now.request, messages=(Message(Role.USER, (*first.blocks, *second.blocks)),))

    assert compare(before, replace(now, request=joined)) is not None


def test_only_what_the_cache_keeps_has_to_be_extended() -> None:
    before = replace(sent(), n_cached=3)

    assert compare(before, sent(talk=("another run",))) is None


def test_the_changed_settings_are_named() -> None:
    now = sent(identity=Identity(model="claude-sonnet-5-5", effort="low", tool_choice="any"))

    assert changed_identity(sent(), sent()) == ()
    assert set(changed_identity(sent(), now)) == {Change.EFFORT, Change.TOOL_CHOICE}


def test_bytes_are_shared_with_the_layout() -> None:
    request = sent()
    longer = replace(request, n_cached=2)

    assert all(a is b for a, b in zip(request.wire, longer.wire, strict=True))


def test_a_place_far_inside_a_long_block_is_found() -> None:
    text = "x" * 20_000
    before, now = sent(role=text + "a" + text), sent(role=text + "b" + text)

    difference = compare(before, now)

    assert difference is not None
    assert now.wire[2].data[difference.byte : difference.byte + 1] == b"b"


def test_text_around_the_place_is_readable_also_in_the_middle_of_a_character() -> None:
    difference = compare(sent(role="\u00e9" * 60 + "a"), sent(role="\u00e9" * 60 + "b"))

    assert difference is not None
    assert difference.after.rstrip('"}').endswith("b")


@given(TEXTS, TEXTS)
def test_requests_differ_exactly_where_their_bytes_stop_being_a_prefix(
    first: list[str], second: list[str]
) -> None:
    before, now = sent(talk=first), sent(talk=second)
    was, have = [w.data for w in before.wire], [w.data for w in now.wire]

    difference = compare(before, now)

    assert (difference is None) == (have[: len(was)] == was)
    if difference is not None:
        at = difference.block
        assert was[:at] == have[:at]
        if at < len(have):
            assert was[at][: difference.byte] == have[at][: difference.byte]
            assert was[at] != have[at]


def test_blocks_are_named_by_the_segments_that_they_come_from() -> None:
    request = sent(volatile="it is 12:00")

    names = [request.segment(index)[0] for index in range(len(request.wire))]

    assert names == [
        "tools",
        "tools",
        "system/role",
        "history[0]",
        "history[1]",
        "history[2]",
        "volatile",
    ]
