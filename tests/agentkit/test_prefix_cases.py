"""Faults that other frameworks' users met: each would break the prefix on some provider's wire.

Requests are compared as bytes, in the cache order of each provider.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agentkit import Agent, Context, tool
from agentkit.blocks import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentkit.caching.plan.draft import SharedBy
from agentkit.caching.request import Block, CacheRequest, Mark
from agentkit.caching.simulate import ManualClock, Refused, SimulatedAnthropic
from agentkit.context import SystemPart, SystemText, ToolList
from agentkit.context.compact import CompactionRule, Summarise, next_step
from agentkit.context.prices import Prices
from agentkit.errors import ContextMismatch, RequestRefused
from agentkit.models import ModelRequest, local
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.gemini import GeminiAdapter
from agentkit.models.hosted.openai_chat import ChatAdapter
from agentkit.models.hosted.openai_chat.profiles import DEEPSEEK, VLLM
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.models.hosted.wire import Adapter, Layout
from agentkit.team import begin_epoch
from agentkit.testing import Call, ModelCall, Say, ScriptedModel, assert_prefix_stable
from agentkit.toolset import ToolContext, ToolOutput, Toolset, ToolSpec
from agentkit.warn import PinnedToolsWarning

SONNET = "anthropic:claude-sonnet-5-5"
ADAPTERS: tuple[Adapter[Layout], ...] = (
    AnthropicAdapter("claude-sonnet-5-5"),  # type: ignore[assignment]
    ResponsesAdapter("gpt-6.1-sol"),  # type: ignore[assignment]
    ChatAdapter("deepseek-flash", profile=DEEPSEEK),  # type: ignore[assignment]
    ChatAdapter("qwen", profile=VLLM, base_url="http://unused.test/v1"),  # type: ignore[assignment]
    GeminiAdapter("gemini-4-argon"),  # type: ignore[assignment]
)
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def stable(request: ModelRequest) -> dict[str, tuple[bytes, ...]]:
    """What of a request must be the beginning of the next one's, on each wire that can take it."""
    pieces = {"neutral": (request.wire,)}
    for adapter in ADAPTERS:
        with contextlib.suppress(RequestRefused):
            pieces[adapter.label] = adapter.layout(request).stable
    with contextlib.suppress(RequestRefused):
        quiet = replace(request, context=request.context.with_volatile(None))
        pieces["local"] = (local.wire(quiet),)
    return pieces


def assert_extend(requests: Iterable[ModelRequest], n_wires: int = len(ADAPTERS) + 2) -> None:
    """Each request begins with the whole stable part of the one before, on every wire."""
    for earlier, later in itertools.pairwise(map(stable, requests)):
        assert len(later) == n_wires
        for label, pieces in earlier.items():
            assert b"\n".join(later[label]).startswith(b"\n".join(pieces)), label


def front_bytes(request: ModelRequest) -> dict[str, tuple[bytes, ...]]:
    """The pieces of tools and system on each wire."""
    found = {}
    for adapter in ADAPTERS:
        layout = adapter.layout(request)
        sections = layout.cache_request
        n_front = len(sections.tools) + len(sections.system)
        found[adapter.label] = layout.stable[:n_front]
    return found


class Listed:
    """A tool as a server lists it: its schema comes with its keys in any order."""

    def __init__(self, name: str, seed: int = 0) -> None:
        properties = [(key, {"type": "string", "description": key}) for key in ("a", "b", "c", "d")]
        random.Random(f"{name}{seed}").shuffle(properties)
        parts = [("type", "object"), ("properties", dict(properties)), ("required", ["a", "b"])]
        random.Random(f"{seed}{name}").shuffle(parts)
        self.spec = ToolSpec(name=name, description=f"Does {name}. " * 40, parameters=dict(parts))

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        return ToolOutput(content="ok")


@tool
def look(path: str) -> str:
    """Look."""
    return path


def later_tool(x: int) -> int:
    """Later."""
    return x


def run_requests(agent: Agent, model: ScriptedModel, *prompts: str) -> list[ModelRequest]:
    context = None
    for prompt in prompts:
        context = agent.run_sync(prompt, context=context).context
    return [call.request for call in model.calls]


def test_six_percent_of_listings_permuted_change_no_request() -> None:
    """C5: about 6 % of a server's list calls came in another order."""
    names = [f"tool_{number}" for number in range(12)]
    random_listing = random.Random(5)
    seen = set()
    for number in range(100):
        listed = [Listed(name, seed=number) for name in names]
        if number % 16 == 0:
            random_listing.shuffle(listed)
        model = ScriptedModel(["ok"])
        (request,) = run_requests(Agent(model=model, name="a", tools=listed), model, "x")
        seen.add((request.wire, *(stable(request)[SONNET])))
    assert len(seen) == 1


def marked(request: CacheRequest) -> CacheRequest:
    """The request with a mark at the end of its tools and of its messages."""

    def mark(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
        return (*blocks[:-1], replace(blocks[-1], mark=Mark()))

    last = request.messages[-1]
    messages = (*request.messages[:-1], replace(last, blocks=mark(last.blocks)))
    return replace(request, tools=mark(request.tools), messages=messages)


def test_tools_are_read_from_the_cache_in_each_of_eighty_turns() -> None:
    """C7: schema maps in random order rewrote the tools at each call; only the system part hit."""
    cache = SimulatedAnthropic(clock=ManualClock(NOON))
    adapter = AnthropicAdapter("claude-sonnet-5-5")
    toolset = Toolset(Listed(f"tool_{number}") for number in range(8))
    context = Context(ToolList(toolset.bytes), UserMessage.of("go"))
    reads = []
    for turn in range(80):
        again = Toolset(Listed(f"tool_{number}", seed=turn) for number in range(8))
        assert again.bytes == toolset.bytes
        request = ModelRequest(
            context=context, toolset=again, agent="a", run_id="r", request_id=f"r{turn}"
        )
        served = cache.request(marked(adapter.layout(request).cache_request))
        assert not isinstance(served, Refused)
        reads.append(served.read)
        call = ToolCall(id=f"c{turn}", name="tool_1", arguments='{"a":"x","b":"y"}')
        result = ToolResult(call_id=call.id, name=call.name, content="ok " * 20)
        context = context.append(AssistantMessage((call,)), ToolMessage((result,)))
    assert reads[0] == 0
    n_tools = len(toolset.bytes) // 4
    assert all(read > n_tools * 0.9 for read in reads[1:])
    assert reads[1:] == sorted(reads[1:])


ODD = '{ "path" :"\\u00e9",\n  "a":1.0 }'


def test_arguments_are_replayed_as_they_were_written() -> None:
    """C8: arguments were parsed and printed again with other spacing and order of keys."""

    @tool
    def odd(path: str, a: float) -> str:
        """Odd."""
        return path

    model = ScriptedModel([Call("odd", ODD), Say("done"), Say("more")])
    requests = run_requests(Agent(model=model, name="a", tools=[odd]), model, "x", "y")

    assert_extend(requests)
    call = requests[-1].context.messages[1]
    assert isinstance(call, AssistantMessage)
    assert call.calls[0].arguments == ODD
    # Where arguments travel as JSON, they are the model's own bytes, down to the spacing.
    assert ODD.encode() in b"".join(stable(requests[-1])[SONNET])


def test_what_may_be_called_changes_no_byte_in_front() -> None:
    """C10: a listing of what is loaded, in the system prompt, was rewritten by each tool search."""

    class Growing(Agent):
        """You search for tools."""

        def allowed_tools(self, turn: int) -> frozenset[str]:
            return frozenset(list("abc")[: turn + 1])

    listed = [Listed(name) for name in "abc"]
    model = ScriptedModel([Call("a"), Call("b"), Call("c"), Say("done")])
    requests = run_requests(Growing(model=model, tools=listed), model, "x")

    assert [len(request.allowed_tools or "abc") for request in requests] == [1, 2, 3, 3]
    assert_extend(requests)
    fronts_seen = [front_bytes(request) for request in requests]
    assert all(front == fronts_seen[0] for front in fronts_seen)


def test_a_conversation_resumed_a_minute_later_only_adds() -> None:
    """C16: a minute's clock in the prompt made a local server compute 120,000 tokens again."""
    minutes = iter(range(100))

    class Timed(Agent):
        """You are on time."""

        def volatile(self, turn: int) -> str:
            return f"It is 12:{next(minutes):02}."

    model = ScriptedModel(["one", "two"])
    first = Timed(model=model).run_sync("x").context
    resumed = Context.load(first.dump())
    Timed(model=model).run_sync("y", context=resumed)
    before, after = (call.request for call in model.calls)

    assert before.context.volatile != after.context.volatile
    assert_extend([before, after])


def test_signed_addresses_are_replayed_as_they_were_stored() -> None:
    """C20: images were read again at every turn, since each load signed their URLs anew."""
    nonces = itertools.count()

    def sign(path: str) -> str:
        return f"https://files.test/{path}?X-Amz-Signature={next(nonces):08x}"

    context = Context(
        UserMessage.of(Image(media_type="image/png", url=sign("a.png")), "What is it?"),
        AssistantMessage((Text("A cat."),)),
    )
    sessions = [Context.load(context.dump()) for _ in range(2)]
    sign("a.png")

    assert sessions[0].dump() == sessions[1].dump() == context.dump()
    requests = [
        ModelRequest(
            context=session.append(UserMessage.of("Sure?")),
            toolset=Toolset(),
            agent="a",
            run_id="r",
            request_id="r1",
        )
        for session in sessions
    ]
    first = replace(requests[0], context=context)
    for request in requests:
        assert_extend([first, request], n_wires=5)  # two of the models read text only


def test_stable_and_changing_text_are_split_by_who_declares_them() -> None:
    """C22: one system string mixed stable and per-turn text, and long runs paid in full."""

    class Mixed(Agent):
        """You keep the role."""

        rules = "Be honest."
        examples = "Q: 1? A: 1."

        def volatile(self, turn: int) -> str:
            return f"Turn {turn}."

    model = ScriptedModel([Call("look", {"path": "x"}), Say("done")])
    requests = run_requests(Mixed(model=model, tools=[look]), model, "x")

    assert_extend(requests)
    for adapter in ADAPTERS:
        layout = adapter.layout(requests[0])
        assert layout.n_volatile >= 1
        n_stable = len(layout.blocks) - layout.n_volatile
        assert b"Turn 0." not in b"".join(layout.stable)
        assert all(prefix.end <= n_stable for prefix in layout.shared)
        shared = {prefix.by for prefix in layout.shared}
        assert SharedBy.RUN in shared, "a tail of a run can be cached"
        assert len(shared) > 1, "and so can the front, for others"


def test_an_injection_before_the_last_message_fails_the_prefix_test() -> None:
    """C23: a reminder put before the last message of each request nearly shipped unnoticed."""
    said: list[UserMessage | AssistantMessage] = []
    calls = []
    for turn in range(3):
        said.append(UserMessage.of(f"question {turn}"))
        injected = [*said[:-1], UserMessage.of(f"reminder {turn}"), said[-1]]
        request = ModelRequest(
            context=Context(*injected), toolset=Toolset(), agent="a", run_id="r", request_id="r"
        )
        calls.append(ModelCall(request=request))
        said.append(AssistantMessage((Text(f"answer {turn}"),)))

    with pytest.raises(AssertionError, match="the prefix changed at byte"):
        assert_prefix_stable(calls)


def test_a_loaded_conversation_shows_the_tools_that_it_was_begun_with() -> None:
    """C55: the tools of a resumed session were rebuilt from the live registry."""
    given = [Listed(name) for name in "abc"]
    model = ScriptedModel(lambda _: "ok")
    begun = Agent(model=model, name="a", instructions="I", tools=given).run_sync("x").context
    loaded = Context.load(begun.dump())

    reordered = Agent(model=model, name="a", instructions="I", tools=given[::-1])
    reordered.run_sync("y", context=loaded)
    more = Agent(model=model, name="a", instructions="I", tools=[*given, later_tool, look])
    with pytest.warns(PinnedToolsWarning, match=r"without \['later_tool', 'look'\]"):
        more.run_sync("y", context=loaded)

    first, *later = (call.request for call in model.calls)
    for request in later:
        assert request.toolset.names == ("a", "b", "c")
        assert_extend([first, request])
    # The declared change: a new epoch, with the history as it is.
    anew = asyncio.run(begin_epoch(more, loaded))
    result = more.run_sync("y", context=anew)
    assert model.calls[-1].request.toolset.names == ("a", "b", "c", "later_tool", "look")
    assert result.context.messages[: len(begun.messages)] == begun.messages


def test_a_conversation_whose_tools_are_gone_is_refused_and_not_rewritten() -> None:
    """C55: without one of its tools, or with another of its name, a session cannot go on."""
    model = ScriptedModel(lambda _: "ok")
    begun = Agent(model=model, name="a", tools=[Listed("a"), look]).run_sync("x").context

    with pytest.raises(ContextMismatch, match=r"its tools have changed \(-look\)"):
        Agent(model=model, name="a", tools=[Listed("a")]).run_sync("y", context=begun)


def test_calls_of_tools_that_are_not_shown_are_refused_to_the_model() -> None:
    """C55: the newer tool is no tool of the pinned conversation, also when the model guesses it."""
    model = ScriptedModel(["ok"])
    begun = Agent(model=model, name="a", tools=[look]).run_sync("x").context
    guess = ScriptedModel([Call("later_tool", {"x": 1}), "sorry"])
    with pytest.warns(PinnedToolsWarning):
        result = Agent(model=guess, name="a", tools=[look, later_tool]).run_sync("y", context=begun)
    (answer,) = [each for each in result.messages if isinstance(each, ToolMessage)]

    assert answer.results[0].is_error
    assert "look" in answer.results[0].content


def test_a_resumed_conversation_replays_thinking_and_calls_byte_for_byte() -> None:
    """C56: a resumed child lost its thinking and made its injected context anew."""
    toolset = Toolset([look])
    context = Context(
        SystemText(SystemPart.RULES, "Be honest."),
        ToolList(toolset.bytes),
        UserMessage.of("Context: the day's orders.", "Look."),
    )
    requests = []
    for turn in range(4):
        if turn == 3:
            context = Context.load(context.dump())
        requests.append(
            ModelRequest(
                context=context, toolset=toolset, agent="a", run_id="r", request_id=f"r{turn}"
            )
        )
        call = ToolCall(id=f"c{turn}", name="look", arguments='{"path" : "x"}')
        thought = Thinking(f"I look {turn}", signature=f"sig{turn}", source=SONNET)
        result = ToolResult(call_id=call.id, name="look", content=f"seen {turn}")
        context = context.append(AssistantMessage((thought, call)), ToolMessage((result,)))

    assert_extend(requests)
    assert b"sig2" in b"".join(stable(requests[3])[SONNET])


def test_agents_of_a_team_differ_by_masks_and_not_by_tools() -> None:
    """C58: after a handoff an agent called the other agent's tools, which only the other listed."""

    class Child(Agent):
        """You help."""

        @tool
        def child_only(self, text: str) -> str:
            """Help."""
            return text

    class Parent(Agent):
        """You lead."""

        subagents = (Child,)

        @tool
        def parent_only(self, text: str) -> str:
            """Lead."""
            return text

    model = ScriptedModel(
        {
            "parent": [
                Call("delegate_to_child", {"task": "t"}),
                Call("child_only", {"text": "x"}),
                Say("done"),
            ],
            "child": [Call("parent_only", {"text": "x"}), Say("ok")],
        }
    )
    result = Parent(model=model).run_sync("x")
    requests = [call.request for call in model.calls]

    assert len({request.toolset.bytes for request in requests}) == 1
    masks = {request.agent: request.allowed_tools for request in requests}
    assert masks["child"] == {"child_only"}
    assert masks["parent"] == {"parent_only", "delegate_to_child"}
    refused = [each for each in result.messages if isinstance(each, ToolMessage)][1].results[0]
    assert refused.is_error
    assert "child_only" in refused.content
    for agent in ("parent", "child"):
        assert_extend([request for request in requests if request.agent == agent])


def test_a_summary_extends_what_was_sent_and_the_new_epoch_keeps_the_front_on_every_wire() -> None:
    """C59: the summary request had no system, no tools, and a flattened history."""
    toolset = Toolset([look])
    context = Context(
        SystemText(SystemPart.RULES, "Be honest. " * 200),
        ToolList(toolset.bytes),
        SystemText(SystemPart.ROLE, "You look. " * 200),
        UserMessage.of("Look at all of them."),
    )
    for turn in range(30):
        call = ToolCall(id=f"c{turn}", name="look", arguments='{"path" : "x"}')
        result = ToolResult(call_id=call.id, name="look", content="seen " * 900)
        thought = Thinking(f"I look {turn}", signature=f"sig{turn}", source=SONNET)
        context = context.append(AssistantMessage((thought, call)), ToolMessage((result,)))
    rule = CompactionRule(trigger_tokens=20_000, limit_tokens=30_000, summary_tokens=500)
    step = next_step(context, None, rule, Prices(row=None, at=NOON))
    assert isinstance(step, Summarise)

    def ask(of: Context) -> ModelRequest:
        return ModelRequest(context=of, toolset=toolset, agent="a", run_id="r", request_id="r")

    assert_extend([ask(context), ask(step.request_context)])
    epoch = ask(step.after("All are alike."))
    assert front_bytes(epoch) == front_bytes(ask(context))
    assert b"signature" not in b"".join(stable(epoch)[SONNET])
