"""Random runs of a team, and processes that are lost while they are kept.

A program says what each agent does in each turn. The model's answers follow from the conversation
alone, as do the tools' results, so any two runs of a program say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hypothesis import strategies as st

from agentkit import (
    Agent,
    ApprovalRequired,
    Approve,
    JournalError,
    MemoryJournal,
    ModelRequest,
    PausedRun,
    RunRecord,
    RunResult,
    Task,
    ToolContext,
    fan_out,
    tool,
)
from agentkit.blocks import AssistantMessage, ToolMessage, UserMessage
from agentkit.journal import Check
from agentkit.result import Ok
from agentkit.saved import SavedRun
from agentkit.testing import Call, Step
from tests.agentkit.clerks import SameIds

RUN_ID = "the-run"
INTERRUPTED = "the process that ran it ended before there was a result"
CREW = ("lead", "middle", "leaf")

Action: TypeAlias = "str | Node | tuple[Node, ...]"
"""A tool's name, a delegated task, or tasks that are fanned out."""


@dataclass(frozen=True)
class Node:
    """What an agent does with a task: calls by turn; then it answers."""

    turns: tuple[tuple[Action, ...], ...]


def nodes(depth: int = 0) -> st.SearchStrategy[Node]:
    """Programs for the agent so many levels below the lead."""
    actions: st.SearchStrategy[Any] = st.sampled_from(["again", "once", "pay"])
    if depth < len(CREW) - 1:
        below = nodes(depth + 1)
        actions |= below | st.lists(below, min_size=1, max_size=3).map(tuple)
    turns = st.lists(actions, min_size=1, max_size=3).map(tuple)
    return st.builds(Node, st.lists(turns, max_size=3 - depth).map(tuple))


def busy(third: str) -> Node:
    """A program in which much happens; a third of its calls are of this tool."""
    return Node(
        (
            ("again", Node(((third, "again"), ("once",))), third),
            (
                (Node(((third,), ("again",))), Node(((Node(((third,),)), "again"),)), Node(())),
                "once",
            ),
            ("again", Node(((third,),))),
        )
    )


@dataclass
class World:
    """What outlives a process: the journal, what tools did, and what was asked."""

    program: Node
    kept: MemoryJournal = field(default_factory=MemoryJournal)
    ran: Counter[str] = field(default_factory=Counter)
    asked: dict[tuple[str, int], set[bytes]] = field(default_factory=dict)
    """The wire of each turn of each run; of a turn that was asked twice, both."""
    agents: dict[str, Agent[World, str]] = field(default_factory=dict)

    def team(self, journal: LosingJournal) -> Agent[World, str]:
        """The team, as a new process makes it."""
        model, below = SameIds(self._answer), list[Agent[World, str]]()
        for name in reversed(CREW):
            agent = Agent(
                name=name,
                instructions=f"You are the {name}.",
                deps=self,
                model=model,
                tools=[again, once, pay, fan],
                subagents=below,
                journal=journal,
            )
            self.agents[name], below = agent, [agent]
        return self.agents[CREW[0]]

    def act(self, kind: str, key: str) -> str:
        """Do what a tool does."""
        self.ran[key] += 1
        return f"{kind} {key}"

    def _answer(self, request: ModelRequest) -> Step:
        messages = request.context.messages
        n_turn = sum(isinstance(message, AssistantMessage) for message in messages)
        self.asked.setdefault((request.run_id, n_turn), set()).add(request.wire)
        first = messages[0]
        assert isinstance(first, UserMessage)
        node = found(self.program, first.text)
        if n_turn == len(node.turns):
            return f"{first.text} is done"
        return [
            _call(action, f"{first.text}.{n_turn}.{index}", request.agent)
            for index, action in enumerate(node.turns[n_turn])
        ]


@tool(idempotent=True)
def again(key: str, context: ToolContext[World]) -> str:
    """Do something that may be done again."""
    return context.deps.act("again", key)


@tool
def once(key: str, context: ToolContext[World]) -> str:
    """Do something that must not be done again."""
    return context.deps.act("once", key)


@tool(requires_approval=True)
def pay(key: str, context: ToolContext[World]) -> str:
    """Do something that a person must agree to."""
    return context.deps.act("pay", key)


@tool(idempotent=True)
async def fan(tasks: list[str], context: ToolContext[World]) -> str:
    """Give tasks to the agent below."""
    agent = context.deps.agents[context.agent]
    work = [Task(agent=CREW[CREW.index(context.agent) + 1], prompt=task) for task in tasks]
    done = await fan_out(agent, work, within=context)
    return " ".join(each.result.text for each in done.ok)


class LosingJournal:
    """Keeps what the process saves until it is lost: then nothing can be kept any more."""

    def __init__(self, kept: MemoryJournal, lost_at: int | None, *, after: bool) -> None:
        self._kept = kept
        self._lost_at = lost_at
        self._after = after
        self.n_saves = 0

    async def save(self, run: SavedRun) -> None:
        """Keep the run, unless the process is lost."""
        self.n_saves += 1
        is_lost = self._lost_at is not None and self.n_saves >= self._lost_at
        if not is_lost or (self._after and self.n_saves == self._lost_at):
            await self._kept.save(run)
        if is_lost:
            raise JournalError("the process is lost")

    async def load(self, run_id: str) -> tuple[SavedRun, ...]:
        """Return the run and those below it."""
        return await self._kept.load(run_id)

    async def claim(self, run_id: str, check: Check | None = None) -> tuple[SavedRun, ...]:
        """Return the run and those below it."""
        return await self._kept.claim(run_id, check)

    async def latest(self, session: str, agent: str) -> SavedRun | None:
        """Return the last run of the session."""
        return await self._kept.latest(session, agent)


async def carried_out(
    world: World, losses: list[tuple[int, bool]], *, one_at_a_time: bool
) -> tuple[RunResult[str], int]:
    """Run the program to its end, through all losses and pauses; returns the saves of all.

    Args:
        world: what outlives the processes.
        losses: after how many saves the next process is lost, and whether that save is kept.
        one_at_a_time: whether of the calls that wait only the first has an answer.
    """
    left, n_saves, since = list(losses), 0, 0
    answers: dict[str, Approve] = {}
    while True:
        lost_at, after = left[0] if left else (None, False)
        if lost_at is not None:
            lost_at -= since  # saves of processes that have ended with a pause count too
        journal = LosingJournal(world.kept, lost_at, after=after)
        agent = world.team(journal)
        try:
            if await world.kept.load(RUN_ID):
                result = await agent.resume(RUN_ID, answers)
            else:
                result = await agent.run("0", run_id=RUN_ID)
        except ApprovalRequired as waits:
            pending = waits.paused.pending
            answers = {each.id: Approve() for each in pending[: 1 if one_at_a_time else None]}
            since += journal.n_saves
        except JournalError:
            left, since = left[1:], 0
            answers = await _still_pending(world, answers)
        else:
            return result, n_saves + journal.n_saves
        n_saves += journal.n_saves


async def _still_pending(world: World, answers: Mapping[str, Approve]) -> dict[str, Approve]:
    """Who has answered tries again, if the run still waits for it."""
    runs = await world.kept.load(RUN_ID)
    waits = {each.id for each in PausedRun(runs=runs).pending} if runs else set()
    return {key: answer for key, answer in answers.items() if key in waits}


def story(record: RunRecord) -> Any:
    """What a run was, without its times, and without requests that a process was lost at.

    Runs below it come by their ids: of calls that run at the same time, one whose runs had not been
    kept begins them again, after those of the others.
    """
    below = [each.result if isinstance(each, Ok) else each.record for each in record.children]
    return (
        record.run_id,
        record.path,
        record.context.dump(),
        record.messages,
        sum(request.guess is None for request in record.requests),
        [story(each) for each in sorted(below, key=lambda each: each.run_id)],
    )


def answered_calls(runs: tuple[SavedRun, ...]) -> set[str]:
    """The results that are kept: what has them must not run again."""
    messages = [message for run in runs for message in run.context.messages]
    results = [each for m in messages if isinstance(m, ToolMessage) for each in m.results]
    results += [each for run in runs if run.open_turn for each in run.open_turn.results.values()]
    return {each.content.split(" ")[1] for each in results if each.name in ("again", "once", "pay")}


def _call(action: Action, key: str, agent: str) -> Call:
    if isinstance(action, str):
        return Call(action, {"key": key})
    if isinstance(action, Node):
        below = CREW[CREW.index(agent) + 1]
        return Call(f"delegate_to_{below}", {"task": key})
    return Call("fan", {"tasks": [f"{key}.{index}" for index in range(len(action))]})


def found(program: Node, task: str) -> Node:
    """The node of a task: `0`, and then turn, action and perhaps number, for each level."""
    node, path = program, [int(part) for part in task.split(".")[1:]]
    while path:
        action = node.turns[path.pop(0)][path.pop(0)]
        below = action[path.pop(0)] if isinstance(action, tuple) else action
        assert isinstance(below, Node)
        node = below
    return node
