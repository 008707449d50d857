"""Hundreds of calls to a server that does everything wrong, by agents at three kinds of model.

What is decided by chance is decided by a seed. On the wire the tools stay as they are, each call
has its result, nothing hangs, and no process is left.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from agentkit import Agent, Context
from agentkit.blocks import ToolsMessage
from agentkit.fake import Ask, Reply
from agentkit.fake import Call as FakeCall
from agentkit.models.base import ModelRequest
from agentkit.testing import Call, ScriptedModel, Step, assert_prefix_stable
from agentkit.toolset import FunctionTool, tool
from tests.agentkit.hosted_world import HostedWorld
from tests.agentkit.mcp.chaos import (
    WEIGHTS,
    Calls,
    OnChange,
    Wire,
    chaos,
    check_processes,
    check_results,
    listings_of,
)

N_SESSIONS = 3

_CONVERSATION = re.compile(rb"Conversation (\w+)\.")


async def test_hundreds_of_calls_keep_the_prefix_and_leave_nothing(
    tmp_path: Path, is_gone: Callable[[int], bool]
) -> None:
    calls = Calls(1, 500)

    def respond(request: ModelRequest) -> Step:
        later = [each for each in request.context.messages if isinstance(each, ToolsMessage)]
        added = [name for each in later for name in each.names]
        return [Call(name, given) for name, given in calls.turn(added)] or "Enough."

    model = ScriptedModel(respond, takes_tools=True)
    agent = Agent(
        model=model,
        name="tester",
        instructions="You test.",
        tools=[chaos(1, tmp_path, "append")],
        max_turns=calls.n_calls + 1,
        compaction=None,
    )
    async with asyncio.timeout(120):
        result = await agent.run("Go.")

    check_results([result.context], calls.n_calls)
    assert_prefix_stable(model.calls)
    assert len({call.request.toolset.bytes for call in model.calls}) == 1
    assert any(isinstance(each, ToolsMessage) for each in result.context.messages)
    assert check_processes(tmp_path, is_gone) > 10
    assert set(calls.made) == set(WEIGHTS), "everything that can go wrong has"


@tool
def alone(text: str) -> str:
    """Say it again."""
    return text


@tool
def zeal(text: str) -> str:
    """Say it loudly."""
    return text.upper()


LOCAL: list[FunctionTool] = [alone, zeal]


class Talks:
    """Conversations of agents that are made anew again and again, in one provider's world.

    Each agent has the same tools, given in another order.
    """

    def __init__(self, folder: Path, provider: str, on_change: OnChange, seed: int) -> None:
        self.calls = Calls(seed)
        self.saved: dict[str, bytes] = {}
        self.folders = {"chaos": folder / "chaos", "mess": folder / "mess"}
        self._on_change = on_change
        self._chance = random.Random(seed)
        self._turns: dict[tuple[str, int], Reply] = {}
        self.world = HostedWorld(self._respond, provider)

    def agent(self, *, is_steady: bool = False, ttl_s: float | None = None) -> Agent[None, str]:
        """Another process's agent."""
        servers = [
            chaos(3, folder, self._on_change, alias=alias, is_steady=is_steady, listing_ttl_s=ttl_s)
            for alias, folder in self.folders.items()
        ]
        tools = [*LOCAL, *servers]
        self._chance.shuffle(tools)
        return Agent(
            model=self.world.model,
            name="tester",
            instructions="You test.",
            tools=tools,
            max_turns=1_000,
            compaction=None,
        )

    async def talk(self, agent: Agent[None, str], conversation: str, n_calls: int) -> None:
        """Begin a conversation, or go on with it as it was saved."""
        self.calls.n_calls += n_calls
        saved = self.saved.get(conversation)
        context = None if saved is None else Context.load(saved)
        result = await agent.run(f"Conversation {conversation}.", context=context)
        self.saved[conversation] = result.context.dump()

    def _respond(self, ask: Ask) -> Reply:
        place = conversation_of(json.dumps(ask.body).encode()), ask.n_turns
        if place not in self._turns:  # else it keeps the cache alive while tools take their time
            later = [name for name in ask.tools if "__extra" in name]
            made = tuple(FakeCall(n, json.dumps(given)) for n, given in self.calls.turn(later))
            self._turns[place] = Reply(calls=made) if made else Reply(text="Enough.")
        return self._turns[place]

    def check(self) -> None:
        """Each request of a conversation begins with the one before, tools and all."""
        wire, sent = Wire(), defaultdict[str, list[tuple[bytes, ...]]](list)
        for body in self.world.fake.requests:
            wire.add(conversation_of(body), body)
        for pieces in self.world.sent:
            sent[conversation_of(b"".join(pieces))].append(pieces)
        assert sent.keys() == wire.tools.keys() == self.saved.keys()
        for requests in sent.values():
            for earlier, later in pairwise(requests):
                assert later[: len(earlier)] == earlier
        listings = [listings_of(folder, alias) for alias, folder in self.folders.items()]
        wire.check([each for of_server in listings for each in of_server])
        self.wire = wire

    @property
    def contexts(self) -> list[Context]:
        return [Context.load(saved) for saved in self.saved.values()]


def conversation_of(body: bytes) -> str:
    found = _CONVERSATION.search(body)
    assert found is not None
    return found[1].decode()


@pytest.mark.parametrize(
    ("provider", "on_change", "n_calls"),
    [("anthropic", "append", 14), ("openai", "append", 6), ("anthropic", "pin", 8)],
)
def test_on_the_wire_tools_stay_the_same_bytes_over_runs_sessions_and_restarts(
    tmp_path: Path,
    is_gone: Callable[[int], bool],
    provider: str,
    on_change: OnChange,
    n_calls: int,
) -> None:
    talks = Talks(tmp_path, provider, on_change, seed=4)

    async def everything() -> None:
        for session in range(N_SESSIONS):
            agent = talks.agent()
            async with agent:
                await talks.talk(agent, f"early{session}", n_calls)
                await talks.talk(agent, "long", n_calls)
                if session:
                    await talks.talk(agent, f"late{session - 1}", n_calls)
                await talks.talk(agent, f"late{session}", n_calls)
            for folder in talks.folders.values():
                check_processes(folder, is_gone)

    talks.world.run(everything)
    talks.check()
    check_results(talks.contexts, talks.calls.n_calls)
    n_added = sum(isinstance(m, ToolsMessage) for each in talks.contexts for m in each.messages)
    assert (n_added > 0) == (on_change == "append")
    if on_change == "pin":
        for session in range(N_SESSIONS):
            (early, *_), (late, *_) = (talks.wire.tools[f"{n}{session}"] for n in ("early", "late"))
            assert early == late, "all have what was listed first"


@pytest.mark.parametrize("on_change", ["append", "pin"])
def test_a_list_in_another_order_at_each_restart_is_the_same_bytes_on_the_wire(
    tmp_path: Path, is_gone: Callable[[int], bool], on_change: OnChange
) -> None:
    """Also where it lies on disk between two restarts."""
    talks = Talks(tmp_path, "anthropic", on_change, seed=5)
    for folder in talks.folders.values():
        folder.mkdir()
        extra = ["extra.1", "extra-1", "extra 1", "extra_1"]
        (folder / "state.json").write_text(json.dumps({"extra": extra, "versions": {"echo": 3}}))

    async def everything() -> None:
        for restart in range(10):
            ttl_s = 3_600.0 if restart % 4 else None
            await talks.talk(talks.agent(is_steady=True, ttl_s=ttl_s), f"n{restart}", 0)

    talks.world.run(everything)
    talks.check()
    assert len({tools for requests in talks.wire.tools.values() for tools in requests}) == 1
    for folder in talks.folders.values():
        assert len({json.dumps(each) for each in listings_of(folder, "a")}) == 1, "always the same"
        assert check_processes(folder, is_gone) >= 4
