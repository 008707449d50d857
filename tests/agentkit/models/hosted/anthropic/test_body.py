"""The plan's marks in the final bytes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from agentkit.blocks import Text as TextBlock
from agentkit.blocks import Thinking, ToolCall, UserMessage, VendorItem
from agentkit.caching.policy import Ttl
from agentkit.errors import RequestRefused
from agentkit.models.base import Settings
from agentkit.models.hosted.anthropic import AnthropicAdapter
from tests.agentkit.models.hosted.anthropic.support import (
    LABEL,
    MODEL,
    ask,
    call_turn,
    front,
    last_stable,
    marks_on_wire,
    on_wire,
    plan,
    question,
    sent,
)

SEARCH = ToolCall(id="c1", name="search", arguments='{"query":"x"}')


def test_marks_lie_where_the_plan_has_them_and_nowhere_else() -> None:
    """C29: the same logical marks as at every provider: those of the plan, none lost, none more."""
    adapter = AnthropicAdapter(MODEL)
    request = ask(question().append(*call_turn(SEARCH)).with_volatile("Noon."))
    marks = {1: "1h", 2: "1h", 4: "5m", 7: None}
    data = sent(
        adapter,
        request,
        *((index, Ttl(ttl)) if ttl else index for index, ttl in marks.items()),
    )
    assert marks_on_wire(data) == marks
    assert on_wire(data) == on_wire(sent(adapter, request)), "marks change nothing else"


def test_a_setting_that_the_api_does_not_have_is_refused() -> None:
    request = replace(ask(question()), settings=Settings(seed=7))
    with pytest.raises(RequestRefused, match="has no seed, got 7; leave it out of settings"):
        AnthropicAdapter(MODEL).layout(request)


def test_marking_another_block_changes_no_other_byte() -> None:
    adapter = AnthropicAdapter(MODEL)
    request = ask(question().append(*call_turn(SEARCH)))
    plain = sent(adapter, request)
    for index in range(len(adapter.layout(request).blocks)):
        marked = sent(adapter, request, (index, Ttl.ONE_HOUR))
        assert marked.replace(b',"cache_control":{"type":"ephemeral","ttl":"1h"}', b"") == plain


def test_a_users_mark_is_on_the_wire() -> None:
    """C43: a mark that was set by hand arrives, on its block, with its lifetime."""
    adapter = AnthropicAdapter(MODEL)
    context = front().append(UserMessage((TextBlock("long", "1h"), TextBlock("short"))))
    request = ask(context)
    layout = adapter.layout(request)
    by_user = [
        (index, wire.block.mark.ttl)
        for index, wire in enumerate(layout.blocks)
        if wire.block.mark is not None
    ]
    assert by_user == [(5, Ttl.ONE_HOUR)]
    data = sent(adapter, request, (5, Ttl.ONE_HOUR))
    assert marks_on_wire(data) == {5: "1h"}
    assert b'{"type":"text","text":"long","cache_control":{"type":"ephemeral","ttl":"1h"}}' in data


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ((6,), "'thinking', which cannot be marked"),
        ((7,), "'redacted_thinking', which cannot be marked"),
        ((10,), "not among the 10 stable blocks"),
        ((-1,), "not among"),
        ((0, 1, 2, 3, 4), "at most 4"),
        (((1, Ttl.FIVE_MINUTES), (2, Ttl.ONE_HOUR)), "longer lifetime"),
        (((1, Ttl.THIRTY_MINUTES),), "asks for '30m'"),
        ((2, 1), "order of their blocks"),
        ((2, 2), "one for each"),
    ],
)
def test_marks_that_the_api_refuses_are_never_sent(
    marks: tuple[int | tuple[int, Ttl], ...], message: str
) -> None:
    """C31: a mark on thinking would come back as a 400; C32: so would one on a call of code."""
    before = (
        Thinking("hm", "sig", LABEL),
        VendorItem(source=LABEL, data='{"type":"redacted_thinking","data":"d"}'),
    )
    adapter = AnthropicAdapter(MODEL)
    request = ask(question().append(*call_turn(SEARCH, before=before)).with_volatile("Noon."))
    assert last_stable(adapter.layout(request)) == 9
    with pytest.raises(RequestRefused, match=re.escape(message)):
        sent(adapter, request, *marks)


def test_a_mark_on_a_call_of_code_is_never_sent() -> None:
    """C32: such calls, and their results, take no mark."""
    caller = VendorItem(source=LABEL, data='{"caller":{"type":"code_execution_20260120"}}')
    turn, results = call_turn(SEARCH)
    assert turn.kind == "assistant"
    context = question().append(type(turn)((*turn.blocks, caller)), results)  # type: ignore[union-attr]
    adapter = AnthropicAdapter(MODEL)
    for index in (6, 7):
        with pytest.raises(RequestRefused, match="programmatic"):
            sent(adapter, ask(context), index)


def test_settings_are_sent_behind_the_prompt() -> None:
    adapter = AnthropicAdapter(MODEL)
    settings = Settings(temperature=0.5, top_k=3, top_p=0.9, max_tokens=77, stop=("END",))
    steered = sent(adapter, ask(question(), settings=settings))
    plain = sent(adapter, ask(question()))
    assert on_wire(steered) == on_wire(plain)
    assert steered[: steered.index(b',"model"')] == plain[: plain.index(b',"model"')]
    body = json.loads(steered)
    del body["tools"], body["system"], body["messages"]
    assert body == {
        "model": MODEL,
        "max_tokens": 77,
        "stream": True,
        "temperature": 0.5,
        "top_k": 3,
        "top_p": 0.9,
        "stop_sequences": ["END"],
    }


def test_a_body_is_a_pure_function_of_its_arguments() -> None:
    request = ask(question().append(*call_turn(SEARCH)))
    one, two = AnthropicAdapter(MODEL), AnthropicAdapter(MODEL)
    assert one.body(one.layout(request), plan(2), request) == two.body(
        two.layout(request), plan(2), request
    )


def test_importing_the_adapter_loads_no_sdk() -> None:
    import subprocess
    import sys

    code = (
        "import sys, agentkit.models.hosted.anthropic as a; a.AnthropicAdapter('claude-opus-5'); "
        "print('anthropic' in sys.modules, 'httpx2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
