"""A context is laid out from where an earlier one ended, and comes out as if laid out anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentkit.blocks import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolsMessage,
    UserMessage,
)
from agentkit.context import Context, Document
from agentkit.errors import RequestRefused
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.begun import Begun
from agentkit.models.hosted.gemini import GeminiAdapter
from agentkit.models.hosted.openai_chat import OPENROUTER, VLLM, ChatAdapter, ChatOptions
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.models.hosted.wire import Adapter, Layout
from agentkit.toolset import Toolset, tool
from tests.agentkit.models.hosted.anthropic.support import ask, front


@tool
def dig(place: str) -> str:
    """Dig."""
    return place


ADAPTERS: dict[str, Callable[[], Adapter[Any]]] = {
    "anthropic": lambda: AnthropicAdapter("claude-sonnet-5-5"),
    "responses": lambda: ResponsesAdapter("gpt-6.1-sol"),
    "chat": lambda: ChatAdapter("m", profile=OPENROUTER),
    "one system message": lambda: ChatAdapter(
        "m", profile=VLLM, base_url="http://here/v1", options=ChatOptions(one_system_message=True)
    ),
    "gemini": lambda: GeminiAdapter("gemini-3.8-flash"),
}


@pytest.fixture(params=ADAPTERS)
def adapter(request: pytest.FixtureRequest) -> Callable[[], Adapter[Any]]:
    return ADAPTERS[request.param]


def _turn(context: Context, number: int) -> Context:
    """A turn whose call has the id of every other turn's, so ids depend on all turns before."""
    call = ToolCall(id="call", name="search", arguments="{}")
    result = ToolResult(call_id="call", name="search", content=f"found {number}")
    return context.append(AssistantMessage((Text(f"Turn {number}"), call)), ToolMessage((result,)))


def _contexts() -> list[Context]:
    """Requests of one run, a fork of it, and a request with text for itself alone."""
    context = front().append(UserMessage.of("Begin."))
    found = [context]
    for number in range(5):
        found.append(_turn(found[-1], number))
    fork = _turn(_turn(found[2], 77), 78)
    return [*found[:4], found[3].with_volatile("It is noon."), fork, *found[4:], found[1]]


def test_a_ask_a_run_is_laid_out_as_the_first_of_an_adapter_would_be(
    adapter: Callable[[], Adapter[Any]],
) -> None:
    used = adapter()

    for context in _contexts():
        assert used.layout(ask(context)) == adapter().layout(ask(context))


def test_a_longer_front_and_tools_that_came_or_went_are_laid_out_as_if_alone(
    adapter: Callable[[], Adapter[Any]],
) -> None:
    """What is known of a shorter front, or of one with other tools, is no beginning."""
    used, told = adapter(), UserMessage.of("Begin.")
    more = Document(uri="z:last", text="It is noon.")
    came = ToolsMessage((dig.spec.bytes.decode(),))
    whole = front().append(more, told)
    contexts = [
        Context(front().segments[0].content),
        front(),
        whole,
        front().append(told),
        Context(told),
        front().append(more, told, came, UserMessage.of("Go on.")),
        _turn(whole, 1),
        _turn(whole.append(came), 1),
    ]
    asked = [ask(context) for context in contexts]
    asked += [ask(context, toolset=Toolset()) for context in contexts]

    for each in (*asked, *reversed(asked)):
        assert laid_out(used, each) == laid_out(adapter(), each)


def laid_out(adapter: Adapter[Any], asked: ModelRequest) -> Layout | None:
    """None: there is no message yet, which some APIs demand."""
    try:
        return adapter.layout(asked)
    except RequestRefused:
        return None


def test_pieces_of_earlier_requests_are_the_same_objects(
    adapter: Callable[[], Adapter[Any]],
) -> None:
    used = adapter()
    short, long = [used.layout(ask(context)) for context in _contexts()[1:3]]

    assert all(was is now for was, now in zip(short.blocks, long.blocks, strict=False))
    assert len(long.blocks) > len(short.blocks)


def test_the_states_of_contexts_that_were_used_longest_ago_are_dropped() -> None:
    begun = Begun[int](n_kept=2)
    contexts = [Context(UserMessage.of(text)) for text in "abc"]
    begun.keep(contexts[0], 0)
    begun.keep(contexts[1], 1)
    begun.longest(contexts[0])

    begun.keep(contexts[2], 2)

    assert [begun.longest(context)[0] for context in contexts] == [0, None, 2]


def test_the_longest_beginning_that_is_known_is_found() -> None:
    begun = Begun[str]()
    contexts = _contexts()[:4]
    begun.keep(contexts[0], "short")
    begun.keep(contexts[2], "long")

    state, behind = begun.longest(contexts[3])

    assert state == "long"
    assert behind == contexts[3].segments[len(contexts[2]) :]
    assert begun.longest(front()) == (None, front().segments)


def test_of_one_conversation_the_last_two_states_are_kept() -> None:
    begun = Begun[int]()
    contexts = _contexts()[:4]
    for number, context in enumerate(contexts):
        begun.keep(context, number)

    assert [begun.longest(context)[0] for context in contexts] == [None, None, 2, 3]
