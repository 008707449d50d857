"""The codec of agentkit and our server: nothing is lost, nothing unknown is passed over."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agentkit_runtime.chat import (
    ChatEvent,
    ChatFinished,
    ChatLogprob,
    ChatMessage,
    ChatRequest,
    ChatTool,
    ChatToolCall,
    ContentDelta,
    History,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStart,
    ToolName,
)
from agentkit_runtime.kv.missed import Missed
from agentkit_runtime.types import Priority, RequestStats, SamplingParams
from agentkit_runtime.wire_chat import (
    ChatBody,
    WarmBody,
    WireError,
    chat_json,
    event_document,
    event_from_json,
    warm_json,
)

texts = st.text(st.characters(codec="utf-8"), max_size=8)
labels = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
ids = st.lists(st.integers(0, 200_000), max_size=4).map(tuple)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(texts, inner, max_size=2)),
    max_leaves=4,
)
objects = st.dictionaries(texts, json_values, max_size=3)
calls = st.builds(ChatToolCall, id=texts, name=texts, arguments=texts)
messages = st.one_of(
    st.builds(ChatMessage, role=st.sampled_from(["system", "user"]), content=texts),
    st.builds(
        ChatMessage,
        role=st.just("assistant"),
        content=texts,
        reasoning=texts,
        tool_calls=st.lists(calls, max_size=2).map(tuple),
        token_ids=ids,
    ),
    st.builds(ChatMessage, role=st.just("tool"), content=texts, tool_call_id=texts),
)
sampling = st.builds(
    SamplingParams,
    temperature=st.floats(0, 100),
    top_k=st.integers(0, 9),
    top_p=st.floats(0.01, 1),
    seed=st.none() | st.integers(-(2**63), 2**64 - 1),
    max_tokens=st.none() | st.integers(0, 9),
    logprobs=st.none() | st.integers(0, 20),
    stop=st.lists(labels, max_size=2).map(tuple),
    min_p=st.floats(0, 1),
    frequency_penalty=st.floats(-2, 2),
    presence_penalty=st.floats(-2, 2),
    repetition_penalty=st.floats(0.01, 100),
    logit_bias=st.lists(st.tuples(st.integers(0, 9), st.floats(-100, 100)), max_size=2).map(tuple),
)
requests = st.builds(
    ChatRequest,
    messages=st.lists(messages, max_size=3).map(tuple),
    tools=st.lists(
        st.builds(ChatTool, name=texts, description=texts, parameters=objects), max_size=2
    ).map(tuple),
    tool_choice=st.sampled_from(["auto", "none", "required"]) | st.builds(ToolName, texts),
    allowed_tools=st.none() | st.frozensets(texts, max_size=2),
    response_schema=st.none() | objects,
    parallel_tool_calls=st.booleans(),
    loosens_tools=st.booleans(),
    sampling=sampling,
    request_id=st.none() | texts,
    session=st.none() | texts,
    tags=st.frozensets(texts, max_size=3),
    priority=st.sampled_from(Priority),
    deadline_s=st.none() | st.floats(0, 1e9),
    speculate=st.integers(0, 64),
    prompt_ids=st.none() | ids,
    separates_reasoning=st.booleans(),
    template_options=st.dictionaries(texts, st.booleans() | texts, max_size=2),
    ignores_end=st.booleans(),
    prefill=texts,
)
seconds = st.floats(0, 1e6)
counts = st.integers(0, 10**6)
stats = st.builds(
    RequestStats,
    prompt_tokens=counts,
    cached_tokens=counts,
    completion_tokens=counts,
    queue_s=seconds,
    ttft_s=st.none() | seconds,
    total_s=seconds,
    restored_tokens=counts,
    missed=st.none()
    | st.builds(Missed, cause=st.sampled_from(["never seen", "evicted"]), lost_tokens=counts),
)
logprobs = st.builds(
    ChatLogprob,
    token=st.binary(max_size=3),
    logprob=st.floats(-99, 0),
    top=st.lists(st.tuples(st.binary(max_size=3), st.floats(-99, 0)), max_size=2).map(tuple),
)
events = st.one_of(
    st.builds(ContentDelta, texts, st.lists(logprobs, max_size=2).map(tuple)),
    st.builds(ReasoningDelta, texts),
    st.builds(ToolCallStart, index=counts, id=texts, name=texts),
    st.builds(ToolCallArguments, index=counts, text=texts),
    st.builds(
        ChatFinished,
        reason=st.sampled_from(["stop", "length", "tool_calls", "abort", "error"]),
        stats=stats,
        error=st.none() | texts,
        reasoning_tokens=counts,
        stop=st.none() | texts,
        token_ids=ids,
    ),
)


@settings(max_examples=150, deadline=None)
@given(request=requests)
def test_a_request_comes_out_as_it_went_in_but_for_its_tenant(request: ChatRequest) -> None:
    theirs = dataclasses.replace(request, tenant="somebody")

    assert ChatBody.model_validate_json(chat_json(theirs)).request == request


@settings(max_examples=150, deadline=None)
@given(event=events)
def test_an_event_comes_out_as_it_went_in(event: ChatEvent) -> None:
    assert event_from_json(json.dumps(event_document(event))) == event


def test_every_field_of_a_request_is_carried() -> None:
    # A field that is new in `ChatRequest` must be drawn above, or be known not to be said.
    drawn = {"tenant", "history"} | {
        name for name in ChatRequest.__dataclass_fields__ if f"{name}=" in _source_of_requests()
    }

    assert drawn == set(ChatRequest.__dataclass_fields__)


def _source_of_requests() -> str:
    text = Path(__file__).read_text()
    return text[text.index("\nrequests = ") : text.index("\nseconds = ")]


def test_the_order_of_a_schemas_keys_is_kept() -> None:
    tool = ChatTool(name="t", description="", parameters=MappingProxyType({"z": 1, "a": {"y": 1}}))

    sent = chat_json(ChatRequest(messages=(), tools=(tool,)))
    (found,) = ChatBody.model_validate_json(sent).request.tools

    assert list(found.parameters) == ["z", "a"]


def test_a_warm_up_says_how_it_is_kept() -> None:
    request = ChatRequest(messages=(ChatMessage(role="system", content="x"),))

    body = WarmBody.model_validate_json(warm_json(request, pin=True, ttl_s=5, name="n"))

    assert (body.request, body.pin, body.ttl_s, body.name) == (request, True, 5.0, "n")
    with pytest.raises(ValidationError, match="do nothing without pin"):
        WarmBody.model_validate_json(warm_json(request, name="n"))


@pytest.mark.parametrize(
    "request_",
    [
        ChatRequest(messages=(), history=History(ids=(1,), n_messages=1)),
        ChatRequest(messages=(), response_schema={"x": float("nan")}),
        ChatRequest(messages=(), response_schema={"x": object()}),
    ],
)
def test_what_has_no_json_form_is_refused(request_: ChatRequest) -> None:
    with pytest.raises(WireError):
        chat_json(request_)


def test_events_of_later_servers_are_passed_over() -> None:
    assert event_from_json(b'{"mood": {"text": "x"}}') is None
    assert event_from_json(b'{"content": {"text": "x", "mood": 1}}') == ContentDelta("x")
    with pytest.raises(WireError):
        event_from_json(b"{")


def test_the_codec_needs_neither_torch_nor_a_web_framework() -> None:
    code = (
        "import sys, agentkit_runtime.wire_chat; "
        "print([name for name in ('torch', 'fastapi', 'starlette') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
