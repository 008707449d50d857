"""Tools that a conversation gets behind its beginning, at every provider and through its cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.blocks import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolsMessage,
    UserMessage,
)
from agentkit.caching.plan.plan import CachePlan, Prediction
from agentkit.caching.policy import InputSplit, Platform, Provider, policy_for
from agentkit.caching.verdict import Cause
from agentkit.context import Context, SystemPart, SystemText, ToolList
from agentkit.context.compact import compacted
from agentkit.context.version import rebase
from agentkit.events import CacheEvent
from agentkit.fake import Ask, Call, Reply
from agentkit.fake.anthropic.parse import parse
from agentkit.fake.api import HttpCall
from agentkit.fake.provider import tenant_of_key
from agentkit.folding import fold
from agentkit.models.base import ModelRequest, Reuse, ToolName
from agentkit.models.fallback import FallbackModel
from agentkit.models.hosted.anthropic import AnthropicAdapter, AnthropicOptions
from agentkit.models.hosted.gemini import GeminiAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_chat import ChatAdapter
from agentkit.models.hosted.openai_chat.profiles import DEEPSEEK, OPENAI, VLLM
from agentkit.models.hosted.openai_responses import ResponsesAdapter, ResponsesOptions
from agentkit.models.local import encode, wire
from agentkit.models.scripted import ScriptedModel
from agentkit.toolset import Toolset, ToolSpec
from tests.agentkit.hosted_world import HostedWorld, hit
from tests.agentkit.models.hosted.anthropic.support import NamedTool

INLINE = {
    "anthropic": AnthropicAdapter("claude-sonnet-5-5"),
    "responses": ResponsesAdapter("gpt-6.2-sol"),
}
LISTED: dict[str, Any] = {
    "sonnet-5": AnthropicAdapter("claude-sonnet-5"),
    "switched off": AnthropicAdapter(
        "claude-sonnet-5-5", options=AnthropicOptions(later_tools=False)
    ),
    "gpt-5.5": ResponsesAdapter("gpt-5.5"),
    "gateway": ResponsesAdapter(
        "gpt-6.2-sol", options=ResponsesOptions(base_url="http://gateway/v1")
    ),
    "chat": ChatAdapter("gpt-6.2-sol", profile=OPENAI),
    "deepseek": ChatAdapter("deepseek-chat", profile=DEEPSEEK),
    "vllm": ChatAdapter("m", profile=VLLM, base_url="http://x"),
    "gemini": GeminiAdapter("gemini-3.8-flash"),
}
ADAPTERS = INLINE | LISTED
NO_PLAN = CachePlan(
    predicted=Prediction(split=InputSplit(read=0, uncached=0), hit=0, cost=None, uncached=None)
)


def spec(name: str, description: str = "") -> ToolSpec:
    parameters = {"type": "object", "properties": {"x": {"type": "string"}}}
    return ToolSpec(name=name, description=description or f"Does {name}.", parameters=parameters)


def came(*names: str) -> ToolsMessage:
    return ToolsMessage(tuple(spec(name).bytes.decode() for name in names))


TOOLSET = Toolset([NamedTool(spec("mow")), NamedTool(spec("dig"))])
LONG = "The garden has many beds. " * 800


def begun(toolset: Toolset = TOOLSET, text: str = LONG) -> Context:
    tools = (ToolList(toolset.bytes),) if toolset.names else ()
    return Context(SystemText(SystemPart.RULES, "Be exact."), *tools).append(UserMessage.of(text))


def turn(context: Context, *calls: str) -> Context:
    made = tuple(ToolCall(id=f"c{len(context)}_{n}", name=n, arguments="{}") for n in calls)
    context = context.append(AssistantMessage((Text("I see."), *made)))
    if not made:
        return context
    results = (ToolResult(call_id=call.id, name=call.name, content="ok") for call in made)
    return context.append(ToolMessage(tuple(results)))


def request(context: Context, toolset: Toolset = TOOLSET, **values: Any) -> ModelRequest:
    given = {"agent": "a", "run_id": "r", "request_id": "r-0"} | values
    return ModelRequest(context=context, toolset=toolset, **given)


def body(adapter: Any, asked: ModelRequest, plan: CachePlan = NO_PLAN) -> dict[str, Any]:
    made = adapter.body(adapter.layout(asked), plan, asked)
    value: dict[str, Any] = json.loads(made.data)
    return value


def listed_names(data: dict[str, Any]) -> list[str]:
    found = data.get("tools", [])
    if found and "functionDeclarations" in found[0]:
        found = found[0]["functionDeclarations"]
    return [tool.get("function", tool)["name"] for tool in found]


def story() -> list[Context]:
    """Requests of one conversation: tools come behind the second turn's results, and once more."""
    first = begun()
    second = turn(first, "dig")
    third = second.append(came("weed", "axe"))
    fourth = turn(third, "weed")
    fifth = turn(fourth).append(UserMessage.of("And now?"), came("rake"))
    return [first, second, third, fourth, fifth, turn(fifth, "rake")]


@pytest.mark.parametrize("name", INLINE)
def test_where_a_model_takes_tools_in_mid_conversation_nothing_before_them_changes(
    name: str,
) -> None:
    adapter = INLINE[name]
    before: tuple[bytes, ...] = ()
    for context in story():
        stable = adapter.layout(request(context)).stable
        assert stable[: len(before)] == before
        assert len(stable) > len(before)
        assert listed_names(body(adapter, request(context))) == ["dig", "mow"]
        before = stable
    assert b"".join(before).count(b"weed") >= 2


@pytest.mark.parametrize("name", LISTED)
def test_elsewhere_they_are_the_last_of_the_list_in_the_order_in_which_they_came(name: str) -> None:
    adapter = LISTED[name]
    names = [listed_names(body(adapter, request(context))) for context in story()]

    assert names == [
        ["dig", "mow"],
        ["dig", "mow"],
        ["dig", "mow", "weed", "axe"],
        ["dig", "mow", "weed", "axe"],
        ["dig", "mow", "weed", "axe", "rake"],
        ["dig", "mow", "weed", "axe", "rake"],
    ]


@pytest.mark.parametrize("name", LISTED)
def test_elsewhere_each_request_with_the_same_tools_extends_the_one_before(name: str) -> None:
    contexts = story()
    for short, long in ((0, 1), (2, 3), (4, 5)):
        before = LISTED[name].layout(request(contexts[short])).stable
        after = LISTED[name].layout(request(contexts[long])).stable
        assert after[: len(before)] == before


@pytest.mark.parametrize("name", LISTED)
def test_a_prefix_with_tools_of_one_conversation_is_expected_to_be_read_by_no_other(
    name: str,
) -> None:
    first, *_, last = story()

    shared = {each.by.value for each in LISTED[name].layout(request(first)).shared}
    assert {"organization", "run"} <= shared
    assert {each.by.value for each in LISTED[name].layout(request(last)).shared} == {"run"}


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_choice_and_a_mask_know_tools_that_came_later(name: str) -> None:
    adapter = ADAPTERS[name]
    context = story()[3]

    chosen = json.dumps(body(adapter, request(context, tool_choice=ToolName("weed"))))
    assert chosen.count('"weed"') > json.dumps(body(adapter, request(context))).count('"weed"')

    allowed = frozenset(("weed",))
    masked = body(
        adapter,
        request(context, allowed_tools=allowed, tool_choice="required"),
        replace(NO_PLAN, mask=allowed),
    )
    said = json.dumps(
        [masked.get(field) for field in ("tool_choice", "toolConfig") if field in masked]
    )
    if '"tools"' in said or "allowed" in said or "function" in said:
        assert '"weed"' in said
        assert '"dig"' not in said


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_agent_without_tools_can_get_its_first_ones_later(name: str) -> None:
    adapter = ADAPTERS[name]
    empty = Toolset()
    context = begun(empty).append(came("weed"))

    data = body(adapter, request(context, empty, tool_choice="required"))

    assert "weed" in json.dumps(data)
    assert any(field in data for field in ("tool_choice", "toolConfig"))


@pytest.mark.parametrize("name", ADAPTERS)
def test_what_is_laid_out_from_an_earlier_request_is_as_if_laid_out_anew(name: str) -> None:
    used = ADAPTERS[name]
    for context in (*story(), *reversed(story())):
        fresh = _anew(name)
        assert used.layout(request(context)) == fresh.layout(request(context))
        noon = context.with_volatile("noon")
        assert used.layout(request(noon)) == fresh.layout(request(noon))


def _anew(name: str) -> Any:
    made: dict[str, Any] = {
        "anthropic": lambda: AnthropicAdapter("claude-sonnet-5-5"),
        "responses": lambda: ResponsesAdapter("gpt-6.2-sol"),
        "sonnet-5": lambda: AnthropicAdapter("claude-sonnet-5"),
        "switched off": lambda: AnthropicAdapter(
            "claude-sonnet-5-5", options=AnthropicOptions(later_tools=False)
        ),
        "gpt-5.5": lambda: ResponsesAdapter("gpt-5.5"),
        "gateway": lambda: ResponsesAdapter(
            "gpt-6.2-sol", options=ResponsesOptions(base_url="http://gateway/v1")
        ),
        "chat": lambda: ChatAdapter("gpt-6.2-sol", profile=OPENAI),
        "deepseek": lambda: ChatAdapter("deepseek-chat", profile=DEEPSEEK),
        "vllm": lambda: ChatAdapter("m", profile=VLLM, base_url="http://x"),
        "gemini": lambda: GeminiAdapter("gemini-3.8-flash"),
    }
    return made[name]()


def test_the_local_runtime_lists_them_last_and_can_be_held_to_them() -> None:
    context = story()[-1]
    asked = request(context, allowed_tools=frozenset(("weed",)), tool_choice=ToolName("weed"))

    made = encode(asked)

    assert [tool.name for tool in made.tools] == ["dig", "mow", "weed", "axe", "rake"]
    assert made.allowed_tools == {"weed"}
    assert wire(request(turn(context, "axe"))).startswith(wire(request(context)))


def test_models_say_whether_they_take_tools_in_mid_conversation() -> None:
    takes = {name: HostedModel(adapter).takes_tools for name, adapter in ADAPTERS.items()}
    assert takes == {name: name in INLINE for name in ADAPTERS}

    inline, listed = HostedModel(INLINE["anthropic"]), HostedModel(LISTED["chat"])
    assert FallbackModel([inline, HostedModel(INLINE["responses"])]).takes_tools
    assert not FallbackModel([inline, listed]).takes_tools
    assert not FallbackModel([inline, ScriptedModel([])]).takes_tools


def test_which_models_take_tools_is_data_with_a_source() -> None:
    today = date(2026, 11, 29)

    def rules(provider: Provider, model: str, platform: Platform = Platform.DIRECT) -> Any:
        return policy_for(provider, model, today, platform=platform).later_tools

    for model in ("claude-opus-4-8", "claude-opus-5", "claude-sonnet-5-5", "claude-fable-5-1"):
        found = rules(Provider.ANTHROPIC, model)
        assert (found.form, found.beta) == ("system_message", "inline-tools-2026-09-15")
        assert found.source.on
        assert rules(Provider.ANTHROPIC, model, Platform.BEDROCK) is None
    assert rules(Provider.ANTHROPIC, "claude-haiku-4-5") is None
    assert rules(Provider.OPENAI, "gpt-5.6-sol").form == "developer_item"
    assert rules(Provider.OPENAI, "gpt-5.5") is None
    assert rules(Provider.GEMINI, "gemini-3.8-flash") is None


# Through the providers' caches, which the fake provider keeps by rules of its own.


class Talk:
    """One conversation with a model of the fake provider; each turn must be read to its end."""

    def __init__(self, provider: str, *, may_come: bool = True, toolset: Toolset = TOOLSET) -> None:
        self.world = HostedWorld(self._respond, provider)
        self.toolset = toolset
        self.context = begun(toolset)
        self.verdicts: list[Any] = []
        self.calls: list[str] = []
        self._may_come = may_come
        self._asked = 0

    def _respond(self, asked: Ask) -> Reply:
        name = self.calls[-1] if self.calls else ""
        assert not name or name in asked.tools, f"{name} is not offered: {sorted(asked.tools)}"
        return Reply(text="Yes.", calls=(Call(name),) if name else ())

    async def turn(self, call: str = "", *, volatile: str | None = None) -> None:
        self.calls.append(call)
        self._asked += 1
        asked = request(
            self.context.with_volatile(volatile),
            self.toolset,
            request_id=f"r-{self._asked}",
            tools_may_come=self._may_come,
            reuse=Reuse(turns_left=5),
        )
        events = [event async for event in self.world.model.stream(asked)]
        self.verdicts += [each.verdict for each in events if isinstance(each, CacheEvent)]
        answer = fold(events).message
        self.context = self.context.append(answer)
        if answer.calls:
            results = (
                ToolResult(call_id=each.id, name=each.name, content="done") for each in answer.calls
            )
            self.context = self.context.append(ToolMessage(tuple(results)))
        else:
            self.context = self.context.append(UserMessage.of("Go on, please."))


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_tools_that_come_in_mid_conversation_lose_nothing_of_what_is_cached(provider: str) -> None:
    talk = Talk(provider)

    async def work() -> None:
        await talk.turn("dig")
        await talk.turn("dig")
        talk.context = talk.context.append(came("weed"))
        await talk.turn("weed")
        await talk.turn("weed")
        await talk.turn()
        talk.context = talk.context.append(came("rake", "axe"))
        await talk.turn("axe")
        await talk.turn("rake")

    talk.world.run(work)
    served = talk.world.served
    assert served[0].read == 0
    assert all(hit(each) > 0.9 for each in served[1:])
    # What was planned to be read was read.
    assert [verdict.shortfall for verdict in talk.verdicts[1:]] == [None] * 6
    for verdict, each in zip(talk.verdicts[1:], served[1:], strict=True):
        assert abs(verdict.predicted.split.read - each.read) <= 3, (
            "but for how tokens are estimated"
        )


@pytest.mark.parametrize("provider", ["deepseek", "gemini"])
def test_elsewhere_tools_that_come_cost_one_miss_and_are_cached_from_then_on(provider: str) -> None:
    talk = Talk(provider)

    async def work() -> None:
        await talk.turn("dig")
        await talk.world.time.sleep(30)
        await talk.turn("dig")
        talk.context = talk.context.append(came("weed"))
        await talk.world.time.sleep(30)
        await talk.turn("weed")
        await talk.world.time.sleep(30)
        await talk.turn("weed")
        await talk.world.time.sleep(30)
        await talk.turn("weed")

    talk.world.run(work)
    reads = [each.read for each in talk.world.served]
    assert reads[2] < reads[1] or reads[2] == 0
    assert reads[-1] > 0


def test_volatile_text_does_not_keep_tools_from_their_place() -> None:
    talk = Talk("anthropic")

    async def work() -> None:
        await talk.turn("dig", volatile="It is noon.")
        talk.context = talk.context.append(came("weed"))
        await talk.turn("weed", volatile="It is one.")
        await talk.turn("weed", volatile="It is two.")
        await talk.turn("weed")

    talk.world.run(work)
    assert all(hit(each) > 0.9 for each in talk.world.served[1:])
    roles = [
        [message["role"] for message in json.loads(data)["messages"]]
        for data in talk.world.fake.requests
    ]
    assert roles[1][-2:] == ["user", "system"]
    assert roles[2][:4] == ["user", "assistant", "user", "system"]


def test_the_beta_header_is_sent_from_the_first_request_of_a_conversation_that_may_get_tools() -> (
    None
):
    def betas(asked: ModelRequest) -> str:
        adapter = AnthropicAdapter("claude-sonnet-5-5")
        return adapter.body(adapter.layout(asked), NO_PLAN, asked).headers.get("anthropic-beta", "")

    plain, later = story()[0], story()[2]
    assert betas(request(plain)) == ""
    assert betas(request(plain, tools_may_come=True)) == "inline-tools-2026-09-15"
    assert betas(request(later)) == "inline-tools-2026-09-15"


def test_tools_that_nobody_foresaw_lose_the_cached_messages_once_and_the_verdict_says_why() -> None:
    talk = Talk("anthropic", may_come=False)

    async def work() -> None:
        await talk.turn("dig")
        await talk.turn("dig")
        talk.context = talk.context.append(came("weed"))
        await talk.turn("weed")
        await talk.turn("weed")

    talk.world.run(work)
    hits = [hit(each) for each in talk.world.served]
    assert hits[1] > 0.9
    assert hits[2] < 0.1
    assert hits[3] > 0.9
    assert talk.verdicts[2].shortfall.cause is Cause.IDENTITY_CHANGED
    assert "betas" in talk.verdicts[2].shortfall.detail


def test_the_first_tools_of_an_agent_without_any_lose_all_once_and_the_verdict_says_why() -> None:
    talk = Talk("anthropic", toolset=Toolset())

    async def work() -> None:
        await talk.turn()
        await talk.turn()
        talk.context = talk.context.append(came("weed"))
        await talk.turn("weed")
        await talk.turn("weed")

    talk.world.run(work)
    hits = [hit(each) for each in talk.world.served]
    assert hits[1] > 0.9
    assert hits[2] == 0
    assert hits[3] > 0.9
    assert talk.verdicts[2].shortfall.cause is Cause.IDENTITY_CHANGED
    assert "first_tools_later" in talk.verdicts[2].shortfall.detail


STEPS = st.lists(
    st.sampled_from(["user", "tools", "turn", "calls", "volatile"]), min_size=1, max_size=12
)


@given(STEPS)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_whatever_the_order_of_events_the_claude_api_takes_the_request(steps: list[str]) -> None:
    adapter = AnthropicAdapter("claude-sonnet-5-5")
    before: tuple[bytes, ...] = ()
    for context, may_shift in _walk(steps):
        asked = request(context)
        made = adapter.body(adapter.layout(asked), NO_PLAN, asked)
        call = HttpCall(
            path="/v1/messages",
            headers=dict(made.headers),
            body=json.loads(made.data),
            tenant=tenant_of_key("k"),
        )
        prompt = parse(call)  # refuses what the API refuses
        names = {*TOOLSET.names, *(spec.name for spec in asked.later_tools)}
        assert set(prompt.ask.tools) == names
        stable = adapter.layout(asked).stable
        if not may_shift:
            assert stable[: len(before)] == before
        before = stable


def _walk(steps: list[str]) -> Iterator[tuple[Context, bool]]:
    """Contexts that a model may be asked with, and whether tools had to give way to a user.

    A user who speaks again behind tools that no turn has followed is shown before them: the API
    takes no other order.
    """
    context, shown, number = begun(text="Begin."), False, 0
    for step in steps:
        may_shift = False
        volatile = None
        match step:
            case "user":
                may_shift, shown = shown, shown
                context = context.append(UserMessage.of("More."))
            case "tools":
                number += 1
                context, shown = context.append(came(f"tool_{number}")), True
            case "turn":
                context, shown = turn(context).append(UserMessage.of("And?")), False
            case "calls":
                context, shown = turn(context, "dig"), False
            case _:
                volatile, may_shift = "It is noon.", shown
        yield context.with_volatile(volatile), may_shift
        if volatile is not None:
            yield context, True


# New epochs.


def test_a_summary_stands_for_no_tools_and_they_are_carried_over() -> None:
    context = story()[-1]

    anew = compacted(context, "We dug.", keep_turns=1)

    assert [spec.name for spec in request(anew).later_tools] == ["weed", "axe", "rake"]
    for adapter in ADAPTERS.values():
        assert "rake" in json.dumps(body(adapter, request(anew)))


def test_behind_a_front_that_shows_them_tools_are_not_added_again() -> None:
    grown = Toolset([*TOOLSET, NamedTool(spec("weed")), NamedTool(spec("rake"))])
    front = Context(SystemText(SystemPart.RULES, "Be exact."), ToolList(grown.bytes))

    for anew in (
        rebase(story()[-1], front),
        compacted(story()[-1], "We dug.", keep_turns=2, front=front),
    ):
        assert [spec.name for spec in request(anew, grown).later_tools] == ["axe"]
