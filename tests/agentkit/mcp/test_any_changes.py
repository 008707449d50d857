"""A server that changes as it likes, against an agent that talks, is saved, and goes on elsewhere.

Whatever happens: tools on the wire change only with a declared epoch, what is added comes once,
each request begins with the one before, and each context is one that a model accepts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from mcp.server import MCPServer
from mcp.server.mcpserver import Context as McpContext

from agentkit import Agent, CompactionRule, Context, McpServer, ModelError
from agentkit.blocks import ToolMessage, ToolsMessage, UserMessage
from agentkit.events import ContextCompacted, Event, ToolsChanged
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.testing import Call, ScriptedModel
from agentkit.toolset.mcp.lists import relisting

T = TypeVar("T")

NAMES = ("a", "b.b", "b_b", "c", "d")
LISTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2))
ADAPTERS = (AnthropicAdapter("claude-sonnet-5-5"), ResponsesAdapter("gpt-6.2-sol"))
FILLER = "word " * 800


def make_tool(server: MCPServer[Any], name: str, version: int) -> None:
    """A tool that says which one it is; its versions have other parameters."""

    def first(text: str) -> str:
        return f"{name} {version}: {text}"

    def second(text: str, more: int = 1) -> str:
        return f"{name} {version}: {text} {more}"

    server.add_tool(second if version == 2 else first, name=name, description=f"v{min(version, 1)}")


class Server:
    """A server of the SDK whose tools are set from outside."""

    def __init__(self) -> None:
        self.server = MCPServer[Any]("changing")
        self.tools: dict[str, int] = {}

        async def announce(context: McpContext[Any, Any]) -> str:
            """Say that the list has changed, in the words of both protocols."""
            await context.notify_tools_changed()
            await context.request_context.session.send_tool_list_changed()
            return "announced"

        self.server.add_tool(announce)

    def set(self, tools: dict[str, int]) -> None:
        for name in self.tools:
            self.server.remove_tool(name)
        for name, version in tools.items():
            make_tool(self.server, name, version)
        self.tools = dict(tools)


class Changing(RuleBasedStateMachine):
    @initialize(
        tools=LISTS,
        protocol=st.sampled_from(["auto", "legacy"]),
        takes_tools=st.booleans(),
        on_change=st.sampled_from(["append", "append", "append", "pin"]),
    )
    def begin(
        self, tools: dict[str, int], protocol: Any, takes_tools: bool, on_change: Any
    ) -> None:
        self.runner = asyncio.Runner()
        self.server = Server()
        self.server.set(tools)
        self.model = ScriptedModel(self.respond, takes_tools=takes_tools)
        self.configured = McpServer(
            alias="s", server=self.server.server, protocol=protocol, on_change=on_change
        )
        self.agent = self.opened()
        self.context: Context | None = None
        self.n_seen = 0

    def opened(self) -> Agent[None, str]:
        rule = CompactionRule(trigger_tokens=1_500, limit_tokens=1_500, keep_turns=1)
        agent: Agent[None, str] = Agent(model=self.model, tools=[self.configured], compaction=rule)
        self.await_(agent.__aenter__())
        return agent

    def await_(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def respond(self, request: ModelRequest) -> Any:
        """The model does the calls that it was given to do, and then it answers."""
        last = request.context.messages[-1]
        if isinstance(last, UserMessage) and "ummary" in last.text:
            return "a summary"
        step = self.todo.pop(0) if self.todo else "done"
        return step(request) if callable(step) else step

    @rule(tools=LISTS)
    def change(self, tools: dict[str, int]) -> None:
        self.server.set(tools)

    @rule(tools=st.none() | LISTS, names=st.lists(st.sampled_from(NAMES), max_size=3))
    def talk(self, tools: dict[str, int] | None, names: list[str]) -> None:
        """A run that calls tools; before them, the server may get others and say so."""
        self.talk_of("go on", tools, names)

    @rule(tools=st.none() | LISTS)
    def talk_at_length(self, tools: dict[str, int] | None) -> None:
        """A run whose conversation has to be summarised."""
        self.talk_of(FILLER, tools, ["a"])

    @rule(tools=LISTS, more=LISTS)
    def fail_and_go_on(self, tools: dict[str, int], more: dict[str, int]) -> None:
        """The model fails just when it was shown what has changed, which changes again then."""
        self.todo = [lambda _: self.set_and_announce(tools), ModelError("busy")]
        with pytest.raises(ModelError) as failed:
            self.await_(self.run("go on"))
        assert failed.value.partial is not None
        self.context = failed.value.partial.context
        self.server.set(more)
        self.todo = [Call("s__announce")]
        self.n_seen = len(self.model.calls)
        self.context, events = self.await_(self.run(None))
        self.check(events)

    def talk_of(self, prompt: str, tools: dict[str, int] | None, names: list[str]) -> None:
        shown = self.final_names()
        self.todo: list[Any] = [Call(shown[n], {"text": "x"}) for n in names if n in shown]
        if tools is not None:
            self.todo.insert(0, lambda _: self.set_and_announce(tools))
        self.context, events = self.await_(self.run(prompt))
        self.check(events)

    def set_and_announce(self, tools: dict[str, int]) -> Call:
        self.server.set(tools)
        return Call("s__announce")

    @rule()
    def end_the_connection(self) -> None:
        """The server is gone in the middle of it all, and is started again when it is needed."""
        session = self.agent._session
        assert session is not None
        served = session.team.root.served
        assert served is not None
        for connection in served.of({"s"}):
            if connection._link is not None:
                connection._link.transport.end("was ended")  # type: ignore[attr-defined]

    @rule()
    def go_on_elsewhere(self) -> None:
        """Another process: a new agent, and the conversation as it was saved."""
        self.await_(self.agent.__aexit__(None, None, None))
        self.agent = self.opened()
        if self.context is not None:
            self.context = Context.load(self.context.dump())

    def final_names(self) -> dict[str, str]:
        found = {}
        for name in NAMES:
            wanted = f"s__{name.replace('.', '_')}"
            shown = () if self.context is None else all_names(self.context)
            hits = [each for each in shown if each == wanted or each.startswith(f"{wanted}_")]
            if hits:
                found[name] = hits[0]
        return found

    async def run(self, prompt: str | None) -> tuple[Context, list[Event]]:
        async with self.agent.stream(prompt, context=self.context) as stream:
            events = [event async for event in stream]
        return stream.result.context, events

    def check(self, events: list[Event]) -> None:
        """Each request begins with the one before, but at a declared new epoch."""
        calls = self.model.calls[max(0, self.n_seen - 1) :]
        declared = sum(isinstance(event, ContextCompacted) for event in events)
        broken = 0
        for before, after in pairwise(calls):
            old, new = before.request, after.request
            if not new.context.starts_with(old.context):
                broken += 1
                continue
            assert new.toolset.bytes == old.toolset.bytes
            for adapter in ADAPTERS if self.model.takes_tools else ():
                first, second = adapter.layout(old).stable, adapter.layout(new).stable
                assert second[: len(first)] == first
        # A summary asks with what was there, so an epoch breaks once, behind it.
        assert broken <= 2 * declared
        self.n_seen = len(self.model.calls)
        for event in events:
            if isinstance(event, ToolsChanged):
                assert event.added or event.removed or event.changed

    @invariant()
    def what_was_added_is_there_once_and_the_context_is_valid(self) -> None:
        context = getattr(self, "context", None)
        if context is None:
            return
        assert Context.load(context.dump()) == context
        names = all_names(context)
        assert len(set(names)) == len(names)
        for before, after in pairwise(context.messages):
            if isinstance(after, ToolsMessage):
                assert isinstance(before, UserMessage | ToolMessage)

    def teardown(self) -> None:
        if hasattr(self, "agent"):
            self.await_(self.agent.__aexit__(None, None, None))
            self.runner.close()


def all_names(context: Context) -> list[str]:
    tools = [json.loads(s.data)["tools"] for s in context.front if s.tier == "tools"]
    front = [tool["name"] for each in tools for tool in each]
    return front + [json.loads(text)["name"] for text in context.later_tools]


Changing.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True, scope="module")
def no_waiting() -> Any:
    """The server says what it has to say at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relisting, "_QUIET_S", 0.0)
        patch.setattr(relisting, "_GRACE_S", 0.02)
        yield


TestAnyChanges = Changing.TestCase
