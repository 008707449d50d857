"""Hundreds of calls to a server that does everything wrong, by an agent at two kinds of model.

What is decided by chance is decided by a seed. On the wire the tools stay as they are, each call
has its result, nothing hangs, and no process is left.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

from agentkit import Agent, McpServer
from agentkit.blocks import AssistantMessage, ToolMessage, ToolsMessage
from agentkit.fake import Ask, Reply
from agentkit.fake import Call as FakeCall
from agentkit.models.base import ModelRequest
from agentkit.result import RunResult
from agentkit.testing import Call, ScriptedModel, Step, assert_prefix_stable
from tests.agentkit.hosted_world import HostedWorld

SERVER = Path(__file__).parent / "servers" / "chaos.py"
WEIGHTS = {
    "echo": 40,
    "flood": 8,
    "latin": 5,
    "surrogate": 5,
    "twice": 8,
    "broken": 10,
    "other_tools": 10,
    "crash": 6,
    "child": 2,
    "hang": 1,
    "close": 1,
    "big": 3,
}
BIG = ("300000", "300000", "300000", "12000000", "20000000")
"""Characters of big results: the last is more than the client reads."""


class Calls:
    """What the model calls, turn by turn."""

    def __init__(self, seed: int, n_calls: int) -> None:
        self._chance = random.Random(seed)
        self.n_calls = n_calls
        self.made: Counter[str] = Counter()

    def turn(self, added: Sequence[str] = ()) -> list[tuple[str, dict[str, str]]]:
        """Return the calls of the next turn; none: it is enough."""
        left = self.n_calls - self.made.total()
        size = min(left, self._chance.choice((1, 1, 2, 4, 8)))
        return [self._call(added) for _ in range(size)]

    def _call(self, added: Sequence[str]) -> tuple[str, dict[str, str]]:
        (name,) = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
        self.made[name] += 1
        if name == "echo" and added and self._chance.random() < 0.5:
            return self._chance.choice(added), {"text": "what came later"}
        given = self._chance.choice(BIG) if name == "big" else f"call {self.made.total()}"
        return f"chaos__{name}", {"text": given}


def chaos(seed: int, folder: Path, on_change: Literal["append", "pin"]) -> McpServer:
    return McpServer(
        alias="chaos",
        command=[sys.executable, "-S", str(SERVER), str(seed), str(folder)],
        call_timeout_s=1.0,
        connect_timeout_s=20,
        max_result_chars=2_000,
        on_change=on_change,
    )


def check_results(result: RunResult[Any], n_made: int) -> None:
    """Every call has one result, in the order of the calls, and a text that a model can read."""
    n_calls = n_good = 0
    messages = [each for each in result.context.messages if not isinstance(each, ToolsMessage)]
    for said, answered in pairwise(messages):
        if not isinstance(said, AssistantMessage) or not said.calls:
            continue
        assert isinstance(answered, ToolMessage)
        assert [each.call_id for each in answered.results] == [each.id for each in said.calls]
        for each in answered.results:
            assert each.content
            assert len(each.content) <= 2_500
            each.content.encode()
            n_good += not each.is_error
        n_calls += len(said.calls)
    assert n_calls == n_made
    assert n_good > n_made // 3, "it is no use if nothing works any more"


def tools_of(body: bytes) -> str:
    """The tools of a request, character by character."""
    text = body.decode()
    start = text.index('"tools":') + len('"tools":')
    _, end = json.JSONDecoder().raw_decode(text, start)
    return text[start:end]


def check_processes(folder: Path, is_gone: Callable[[int], bool]) -> int:
    """No process is left; returns how many there were."""
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    assert all(map(is_gone, pids))
    return len(pids)


@pytest.mark.parametrize(("seed", "n_calls", "on_change"), [(1, 500, "append"), (2, 200, "pin")])
async def test_hundreds_of_calls_keep_the_prefix_and_leave_nothing(
    tmp_path: Path,
    is_gone: Callable[[int], bool],
    seed: int,
    n_calls: int,
    on_change: Literal["append", "pin"],
) -> None:
    calls = Calls(seed, n_calls)

    def respond(request: ModelRequest) -> Step:
        later = [each for each in request.context.messages if isinstance(each, ToolsMessage)]
        added = [name for each in later for name in each.names]
        return [Call(name, given) for name, given in calls.turn(added)] or "Enough."

    model = ScriptedModel(respond, takes_tools=True)
    agent = Agent(
        model=model,
        name="tester",
        instructions="You test.",
        tools=[chaos(seed, tmp_path, on_change)],
        max_turns=n_calls + 1,
        compaction=None,
    )
    async with asyncio.timeout(120):
        result = await agent.run("Go.")

    check_results(result, n_calls)
    assert_prefix_stable(model.calls)
    assert len({call.request.toolset.bytes for call in model.calls}) == 1
    n_declared = sum(isinstance(each, ToolsMessage) for each in result.context.messages)
    assert (n_declared > 0) == (on_change == "append")
    assert check_processes(tmp_path, is_gone) > 10
    assert set(calls.made) == set(WEIGHTS), "everything that can go wrong has"


def test_on_the_wire_of_a_provider_the_tools_are_the_same_bytes_in_every_request(
    tmp_path: Path, is_gone: Callable[[int], bool]
) -> None:
    calls = Calls(3, 200)
    turns: list[Reply] = []

    def respond(ask: Ask) -> Reply:
        if ask.n_turns == len(turns):  # else it keeps the cache alive while tools take their time
            made = tuple(FakeCall(name, json.dumps(given)) for name, given in calls.turn())
            turns.append(Reply(calls=made) if made else Reply(text="Enough."))
        return turns[ask.n_turns]

    world = HostedWorld(respond)
    agent = Agent(
        model=world.model,
        name="tester",
        instructions="You test.",
        tools=[chaos(3, tmp_path, "pin")],
        max_turns=calls.n_calls + 1,
        compaction=None,
    )
    result = world.run(lambda: agent.run("Go."))
    check_results(result, calls.n_calls)
    assert len({tools_of(body) for body in world.fake.requests}) == 1
    for earlier, later in pairwise(world.wires):
        assert later[: len(earlier)] == earlier
    check_processes(tmp_path, is_gone)
