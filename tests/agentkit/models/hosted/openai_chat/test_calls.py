"""Tool calls in chunks, also those of servers that number or name them badly."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit.blocks import ToolCall
from agentkit.errors import ModelError
from tests.agentkit.models.hosted.openai_chat.chunks import CALLED, call, read


@pytest.mark.parametrize(
    "deltas",
    [
        [
            call(0, id="a", name="f", arguments="1"),
            call(0, id="b", name="g", arguments="2"),
            call(0, arguments="3"),
        ],
        [call(None, id="a", name="f", arguments="1"), call(None, id="b", name="g", arguments="23")],
        [
            call(None, id="a", name="f", arguments="1"),
            call(None, id="b", name="g"),
            call(None, arguments="2"),
            call(None, arguments="3"),
        ],
        [call(0, id="a"), call(0, arguments="1"), call(0, name="f"), call(1, id="b", name="g"),
         call(1, arguments="23")],
        [call(0, id="a", name="f", arguments=1), call(1, id="b", name="g", arguments=23)],
    ],
    ids=["index 0 twice", "no index", "no index, many deltas", "name last", "no text"],
)  # fmt: skip
def test_calls_of_careless_servers_are_read_as_they_are_meant(
    deltas: list[dict[str, Any]],
) -> None:
    calls = read(*deltas, CALLED).message.calls

    assert calls == (
        ToolCall(id="a", name="f", arguments="1"),
        ToolCall(id="b", name="g", arguments="23"),
    )


def test_calls_without_ids_get_different_ones() -> None:
    deltas = [call(None, name="f", arguments="{}"), call(None, name="g", arguments="{}")]

    calls = read(*deltas, CALLED).message.calls

    assert [each.name for each in calls] == ["f", "g"]
    assert [each.id for each in calls] == ["c1-0", "c1-1"]


def test_one_id_for_two_calls_becomes_two() -> None:
    calls = read(
        call(0, id="a", name="f", arguments="{}"),
        call(1, id="a", name="f", arguments="{}"),
        CALLED,
    ).message.calls

    assert len({each.id for each in calls}) == 2


def test_an_id_that_is_repeated_with_every_delta_is_one_call() -> None:
    calls = read(
        call(0, id="a", name="f", arguments="{"), call(0, id="a", arguments="}"), CALLED
    ).message.calls

    assert calls == (ToolCall(id="a", name="f", arguments="{}"),)


def test_a_call_without_a_name_is_an_error_that_may_pass() -> None:
    with pytest.raises(ModelError, match="m:x sent a tool call without a name") as caught:
        read(call(0, id="a", arguments="{}"), CALLED)

    assert caught.value.retryable
