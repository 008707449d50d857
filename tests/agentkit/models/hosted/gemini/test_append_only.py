"""Whatever is appended, no byte that was sent changes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentkit.blocks import (
    AssistantMessage,
    File,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    VendorItem,
)
from agentkit.context import Context
from agentkit.models.hosted.gemini import GeminiAdapter
from agentkit.models.hosted.wire import Body
from agentkit.testing import assert_extends
from tests.agentkit.models.hosted.gemini.talk import FRONT, LABEL, MODEL, json_of, plan, request

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
SOURCE = st.sampled_from([LABEL, "gemini:gemini-4-argon", "anthropic:claude-sonnet-5-5"])
IMAGE = st.builds(Image, media_type=st.just("image/png"), data=st.just("aGk="))
FILE = st.builds(File, name=TEXT, media_type=st.just("application/pdf"), url=st.just("gs://a"))
ITEM = st.sampled_from(
    ['{"thoughtSignature":"cw=="}', "{}", '{"text":"","thoughtSignature":"ZQ=="}']
)
ARGUMENTS = st.one_of(
    st.dictionaries(TEXT, st.integers() | st.floats(allow_nan=False)).map(json.dumps), TEXT
)
USER = st.lists(st.builds(Text, TEXT) | IMAGE | FILE, max_size=3).map(
    lambda blocks: UserMessage(tuple(blocks))
)


@st.composite
def turns(draw: st.DrawFn) -> tuple[AssistantMessage | ToolMessage, ...]:
    """A turn of some vendor's model, with the results of its calls."""
    said = st.one_of(
        st.builds(Text, TEXT),
        st.builds(Thinking, TEXT, st.none() | st.just("c2ln"), SOURCE),
        st.builds(VendorItem, source=SOURCE, data=ITEM),
        st.builds(ToolCall, id=st.just(""), name=st.just("add"), arguments=ARGUMENTS),
    )
    blocks: list[Any] = []
    for index, block in enumerate(draw(st.lists(said, max_size=5))):
        if isinstance(block, ToolCall):
            block = ToolCall(id=f"c{index}", name="add", arguments=block.arguments)
        blocks.append(block)
    turn = AssistantMessage(tuple(blocks))
    results = tuple(
        ToolResult(
            call_id=call.id,
            name=call.name,
            content=draw(TEXT),
            is_error=draw(st.booleans()),
            attachments=tuple(draw(st.lists(IMAGE, max_size=1))),
        )
        for call in turn.calls
    )
    return (turn, ToolMessage(results)) if results else (turn,)


@given(st.lists(USER.map(lambda message: (message,)) | turns(), max_size=6), TEXT)
def test_append_never_changes_an_earlier_byte(steps: list[Any], volatile: str) -> None:
    adapter = GeminiAdapter(MODEL)
    context = Context(*FRONT, UserMessage.of("Begin."))
    before = sent(adapter, context)
    for step in steps:
        context = context.append(*step)
        shown = sent(adapter, context.with_volatile(volatile))
        after = sent(adapter, context)
        # The last "]" ends the contents; what is volatile stands before it.
        assert_extends(before.data[:-2], after.data)
        assert_extends(after.data[:-2], shown.data)
        before = after
    assert after_load(context).data == before.data


@given(st.lists(turns(), min_size=1, max_size=4))
def test_every_turn_of_calls_is_followed_by_exactly_its_answers(steps: list[Any]) -> None:
    context = Context(UserMessage.of("Begin.")).append(*(each for step in steps for each in step))

    contents = json_of(sent(GeminiAdapter(MODEL), context).data)["contents"]

    for index, content in enumerate(contents):
        assert content["parts"]
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        if calls:
            answers = [part["functionResponse"] for part in contents[index + 1]["parts"]]
            assert [each["id"] for each in calls] == [each["id"] for each in answers]
            assert isinstance(calls[0]["args"], dict)


def sent(adapter: GeminiAdapter, context: Context) -> Body:
    wanted = request(context)
    layout = adapter.layout(wanted)
    return adapter.body(layout, plan(layout), wanted)


def after_load(context: Context) -> Body:
    """In another process: from the saved context, with nothing encoded before."""
    return sent(GeminiAdapter(MODEL), Context.load(context.dump()))
