"""What agents do in the benchmark: lengths and gaps are medians of recorded coding-agent sessions.

474 public sessions have, in the median: 12,207 tokens of tools, 2,798 of system text, 655 new
tokens a turn, 17 s between two requests, 41 requests. All agents have agentkit's default settings.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from agentkit import Agent, CompactionRule
from agentkit.blocks import Image, UserMessage
from agentkit.caching.policy import LookbackUnit, Switches
from agentkit.caching.times import VirtualTime
from agentkit.context.compaction_rule import SUMMARY_INSTRUCTION
from agentkit.fake import Ask, Call, Reply
from agentkit.models import Model
from agentkit.toolset import Tool, ToolContext, ToolOutput
from agentkit.toolset.tool import ToolSpec

BYTES_PER_TOKEN = 4
TOOL_TOKENS, SYSTEM_TOKENS, TURN_TOKENS, GAP_S = 12_200, 2_800, 655, 17.0
N_TOOLS = 12
MODEL_S = 10.0
"""How long an answer takes, of which 1 s is the time to its first token."""
SAID_TOKENS, RESULT_TOKENS = 100, 520
"""With the JSON around them, a turn has about 655 tokens."""


def text(tokens: int, seed: str) -> str:
    """Return words of this length in tokens, always the same for a seed."""
    source = random.Random(seed)
    words: list[str] = []
    size = 0
    while size < tokens * BYTES_PER_TOKEN:
        word = "".join(source.choices("abcdefghijklmnoprstuvw", k=source.randint(3, 9)))
        words.append(word)
        size += len(word) + 1
    return " ".join(words)[: tokens * BYTES_PER_TOKEN]


@dataclass(slots=True, kw_only=True)
class Work:
    """What the scripted model says and how long its tools take."""

    time: VirtualTime
    turns: int = 8
    """Model turns of one run, its answer included."""
    wide_turns: frozenset[int] = frozenset()
    """Turns in which 15 tools are called at once."""
    tool_s: Callable[[int], float] = lambda turn: GAP_S - MODEL_S
    """How long the tools of a turn take, in seconds."""
    thinking: bool = False
    n_children: int = 0
    """How many children the parent asks at once in its second turn."""
    summary_tokens: int = 0
    """How long summaries are, in a run that has some."""
    n_said: int = 0

    async def respond(self, ask: Ask) -> Reply:
        """Call a tool in each turn, then answer; or write a summary."""
        if SUMMARY_INSTRUCTION in ask.user_text:
            said = text(self.summary_tokens, f"summary {self.n_said}")
            return Reply(text=said, first_byte_s=1.0, seconds=MODEL_S - 1.0)
        # Behind a summary the request does not show how many turns there were.
        turn = self.n_said if self.summary_tokens else ask.n_turns
        self.n_said += 1
        if turn + 1 >= self.turns:
            calls: tuple[Call, ...] = ()
        elif self.n_children and turn == 1 and "ROLE parent" in json.dumps(ask.body):
            calls = tuple(
                Call("delegate_to_child", json.dumps({"task": text(60, f"task {n}")}))
                for n in range(self.n_children)
            )
        else:
            n_calls = 15 if turn in self.wide_turns else 1
            calls = tuple(_call(turn, n) for n in range(n_calls))
        return Reply(
            text=text(SAID_TOKENS, f"said {turn}"),
            calls=calls,
            thinking=text(150, f"thought {turn}") if self.thinking else "",
            first_byte_s=1.0,
            seconds=MODEL_S - 1.0,
        )

    async def run_tool(self, query: str) -> str:
        """Take the time, and answer with as much text as a usual result."""
        await self.time.sleep(self.tool_s(int(query.split()[1])))
        return text(RESULT_TOKENS, query)


class BenchTool(Tool):
    """A tool as a server might list it; with `shuffle`, its schema's keys come in any order."""

    def __init__(self, number: int, work: Work, shuffle: random.Random | None = None) -> None:
        schema: Mapping[str, object] = {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": text(200, f"query {number}")},
                "limit": {"type": "integer", "description": "most results"},
            },
            "required": ["query"],
        }
        self._spec = ToolSpec(
            name=f"tool_{number:02d}",
            description=text(TOOL_TOKENS // N_TOOLS - 270, f"tool {number}"),
            parameters=schema if shuffle is None else _shuffled(schema, shuffle),
        )
        self._work = work

    @property
    def spec(self) -> ToolSpec:
        """What the model sees."""
        return self._spec

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        """Work, and answer."""
        return ToolOutput(content=await self._work.run_tool(str(arguments["query"])))


def agent(
    model: Model,
    work: Work,
    *,
    name: str = "worker",
    shuffle: random.Random | None = None,
    **more: Any,
) -> Agent[None, str]:
    """Return an agent with the median front."""
    tools = [BenchTool(number, work, shuffle) for number in range(N_TOOLS)]
    if shuffle is not None:
        shuffle.shuffle(tools)
    return Agent(
        model=model,
        name=name,
        rules=text(SYSTEM_TOKENS // 2, "rules"),
        instructions=f"ROLE {name}. " + text(SYSTEM_TOKENS // 2, f"role {name}"),
        tools=tools,
        max_turns=60,
        **more,
    )


Scenario: TypeAlias = Callable[[Model, VirtualTime, Work], Coroutine[Any, Any, None]]


async def one_agent(model: Model, time: VirtualTime, work: Work) -> None:
    """One run of 35 turns."""
    work.turns = 35
    await agent(model, work).run(text(200, "question"))


async def fan_out(model: Model, time: VirtualTime, work: Work) -> None:
    """A parent that asks five children of one type at once; each works for 12 turns."""
    work.turns, work.n_children = 12, 5
    child = Agent(
        name="child",
        instructions="ROLE child. " + text(SYSTEM_TOKENS // 2, "role child"),
        tools=[BenchTool(number, work) for number in range(N_TOOLS)],
        max_turns=60,
    )
    await agent(model, work, name="parent", subagents=[child]).run(text(200, "question"))


async def sequential(model: Model, time: VirtualTime, work: Work, *, gap_s: float = 60.0) -> None:
    """Five sessions of the same agent, 12 turns each, each with a new object."""
    work.turns = 12
    for number in range(5):
        await agent(model, work).run(text(200, f"question {number}"))
        await time.sleep(gap_s)


async def shuffled(model: Model, time: VirtualTime, work: Work) -> None:
    """The same, and each listing has another order of tools and of the keys of their schemas."""
    work.turns = 12
    for number in range(5):
        again = agent(model, work, shuffle=random.Random(number))
        await again.run(text(200, f"question {number}"))
        await time.sleep(60)


async def wide_turn(model: Model, time: VirtualTime, work: Work) -> None:
    """16 turns; in three of them 15 calls at once, each block its own lookback position."""
    work.turns, work.wide_turns = 16, frozenset((3, 8, 12))
    await agent(model, work).run(text(200, "question"))


async def long_tools(model: Model, time: VirtualTime, work: Work, *, life_s: float) -> None:
    """20 turns; the tools of every fourth take a third longer than the shortest lifetime."""
    work.turns = 20
    work.tool_s = lambda turn: life_s * 4 / 3 if turn % 4 == 1 else GAP_S - MODEL_S
    await agent(model, work).run(text(200, "question"))


async def thinking_and_images(model: Model, time: VirtualTime, work: Work) -> None:
    """20 turns with thinking; the question holds two images."""
    work.turns, work.thinking = 20, True
    images = [Image.of_bytes(bytes([n]) * 3000, "image/png") for n in range(2)]
    await agent(model, work).run(UserMessage.of(text(200, "question"), *images))


async def compaction(model: Model, time: VirtualTime, work: Work) -> None:
    """One run of 60 turns, which goes on from a summary twice."""
    work.turns, work.summary_tokens = 60, 500
    rule = CompactionRule(
        trigger_tokens=34_000,
        limit_tokens=34_000,
        target_ratio=Decimal("0.6"),
        summary_tokens=work.summary_tokens,
    )
    result = await agent(model, work, compaction=rule).run(text(200, "question"))
    n_epochs = len({request.epoch for request in result.requests})
    assert n_epochs == 3, f"the run had {n_epochs} epochs, and must have 3"


EACH_BLOCK_A_POSITION = Switches(anthropic_lookback=LookbackUnit.BLOCKS)


def _call(turn: int, number: int) -> Call:
    name = f"tool_{(turn + number) % N_TOOLS:02d}"
    return Call(name, json.dumps({"query": f"step {turn} {number}"}))


def _shuffled(value: Any, shuffle: random.Random) -> Any:
    if not isinstance(value, Mapping):
        return value
    items = [(key, _shuffled(each, shuffle)) for key, each in value.items()]
    shuffle.shuffle(items)
    return dict(items)
