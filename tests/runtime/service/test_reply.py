"""The reply assembler: engine events in, chat events out."""

from __future__ import annotations

import pytest

from agentkit_runtime.chat import (
    ChatEvent,
    ChatFinished,
    ContentDelta,
    ToolCallArguments,
    ToolCallStart,
)
from agentkit_runtime.reply import ReplyAssembler
from agentkit_runtime.types import Delta, Finished, FinishReason, RequestStats, TokenLogprob

STATS = RequestStats(
    prompt_tokens=3, cached_tokens=0, completion_tokens=2, queue_s=0.0, ttft_s=0.1, total_s=0.2
)


class ScriptedParser:
    """Returns prepared events for each push, and others at the end."""

    def __init__(self, pushes: list[list[ChatEvent]], end: list[ChatEvent]) -> None:
        self._pushes = pushes
        self._end = end

    def push(self, text: str) -> list[ChatEvent]:
        return self._pushes.pop(0)

    def finish(self) -> list[ChatEvent]:
        return self._end


def call(arguments: str) -> list[ChatEvent]:
    return [
        ToolCallStart(index=0, id="call_1", name="f"),
        ToolCallArguments(index=0, text=arguments),
    ]


def finish(reason: FinishReason, error: str | None = None) -> Finished:
    return Finished(reason=reason, stats=STATS, error=error)


def end_of(assembler: ReplyAssembler, reason: FinishReason) -> str:
    last = assembler.feed(finish(reason))[-1]
    assert isinstance(last, ChatFinished)
    return last.reason


def test_without_callable_tools_everything_is_content() -> None:
    assembler = ReplyAssembler(None)

    assert assembler.feed(Delta("<tool_call>", (5,))) == [ContentDelta("<tool_call>")]
    assert assembler.feed(Delta("", (6,))) == []
    assert end_of(assembler, FinishReason.STOP) == "stop"
    assert (assembler.text, assembler.token_ids) == ("<tool_call>", [5, 6])


def test_what_the_parser_held_back_comes_before_the_end() -> None:
    assembler = ReplyAssembler(ScriptedParser([[]], [ContentDelta("<tool")]))
    assembler.feed(Delta("<tool", (5,)))

    events = assembler.feed(finish(FinishReason.STOP))

    end = ChatFinished(reason="stop", stats=STATS, token_ids=(5,))
    assert events == [ContentDelta("<tool"), end]


def test_a_whole_call_ends_with_tool_calls() -> None:
    assembler = ReplyAssembler(ScriptedParser([call('{"x": 1}')], []))
    assembler.feed(Delta("...", (5,)))

    assert end_of(assembler, FinishReason.STOP) == "tool_calls"


def test_a_call_that_the_length_limit_cut_ends_with_length() -> None:
    assembler = ReplyAssembler(ScriptedParser([call('{"x": ')], []))
    assembler.feed(Delta("...", (5,)))

    assert end_of(assembler, FinishReason.LENGTH) == "length"


def test_a_call_that_a_stop_string_cut_is_not_reported_as_a_call() -> None:
    assembler = ReplyAssembler(ScriptedParser([call('{"x": ')], []))
    assembler.feed(Delta("...", (5,)))

    assert end_of(assembler, FinishReason.STOP) == "stop"


@pytest.mark.parametrize("reason", [FinishReason.ABORT, FinishReason.ERROR])
def test_failures_keep_their_reason_and_message(reason: FinishReason) -> None:
    last = ReplyAssembler(None).feed(finish(reason, "why"))[-1]

    assert last == ChatFinished(reason=reason.value, stats=STATS, error="why")


def scored(text: str, token_id: int) -> Delta:
    found = TokenLogprob(token_id=token_id, logprob=-0.5, top=((token_id, -0.5), (9, -1.5)))
    return Delta(text, (token_id,), (found,))


def test_probabilities_come_with_the_text_that_their_tokens_complete() -> None:
    assembler = ReplyAssembler(None, lambda token_id: b"%d" % token_id)

    assert assembler.feed(scored("", 1)) == []
    (event,) = assembler.feed(scored("ab", 2))
    (later,) = assembler.feed(scored("c", 3))

    assert isinstance(event, ContentDelta)
    assert [item.token for item in event.logprobs] == [b"1", b"2"]
    assert event.logprobs[0].top == ((b"1", -0.5), (b"9", -1.5))
    assert isinstance(later, ContentDelta)
    assert [item.token for item in later.logprobs] == [b"3"]


def test_probabilities_of_a_tool_call_are_not_given_to_the_text_behind_it() -> None:
    parser = ScriptedParser([[], call("{}"), [ContentDelta("x")]], [])
    assembler = ReplyAssembler(parser, lambda token_id: b"%d" % token_id)
    for token_id in (1, 2):
        assembler.feed(scored("call", token_id))

    (event,) = assembler.feed(scored("x", 3))

    assert isinstance(event, ContentDelta)
    assert [item.token for item in event.logprobs] == [b"3"]
    assert (assembler.content, assembler.calls) == ("x", (("f", "{}"),))
