"""What a team is doing, as its events tell it. State and text; `watch.py` shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from agentkit.caching.ledger.amounts import AtLeast
from agentkit.events import (
    AnswerRejected,
    CacheEvent,
    ContextCompacted,
    Event,
    HandedOff,
    ModelEnd,
    OwnEvent,
    RunEnd,
    RunPaused,
    RunStarted,
    ServerFailed,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallArguments,
    ToolCallStarted,
    ToolProgress,
    ToolResultEvent,
    ToolsChanged,
    Turn,
    TurnDropped,
    TurnEnd,
    UsageEvent,
    VendorItemEvent,
)
from agentkit.observe.amounts import dollars, one_line, tokens_text
from agentkit.usage import Usage

_ROOT = ""
"""Key of the root run: its events carry no run id."""
_ENDED = frozenset(("done", "ended", "paused", "failed", "cancelled"))


@dataclass(slots=True)
class AgentView:
    """One run of one agent."""

    path: tuple[str, ...]
    doing: str = "asks the model"
    turns: int = 0
    usage: Usage = field(default_factory=lambda: Usage.total(()))
    """Of its own complete turns."""
    cost: AtLeast | None = None
    """In USD; None: nothing that costs money was asked."""
    calls: dict[str, str] = field(default_factory=dict)
    """Names of the tools that run now, by call id."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come from it."""
        return self.doing in _ENDED

    def push(self, event: OwnEvent) -> str | None:
        """Take in an event; return a line that says what happened, if it is worth one."""
        match event:
            case ThinkingDelta() | VendorItemEvent():
                self.doing = "thinks"
            case TextDelta():
                self.doing = "writes"
            case ToolCallStarted():
                self.doing = f"calls {event.name}"
            case RunStarted() | ToolCallArguments() | UsageEvent() | CacheEvent() | ModelEnd():
                pass
            case TurnEnd():
                return self._turn_ended(event)
            case TurnDropped() | AnswerRejected():
                return self._asks_again(event)
            case ContextCompacted() | HandedOff() | ToolsChanged() | ServerFailed():
                return _news_text(event)
            case ToolProgress():
                self.doing = _progress_text(event)
            case ToolResultEvent():
                return self._answered(event)
            case RunPaused():
                self.doing = "paused"
                return _pending(event)
            case RunEnd():
                self.doing = "done"
                return "done"
            case _:
                assert_never(event)
        return None

    def _turn_ended(self, event: TurnEnd) -> str:
        turn = event.turn
        self.turns += 1
        self.usage = self.usage + turn.usage
        if turn.verdict is not None:
            paid = None if turn.verdict.cost is None else turn.verdict.cost.total
            self.cost = (self.cost or AtLeast()).plus(AtLeast.of([paid]))
        self.calls = {call.id: call.name for call in turn.message.calls}
        self.doing = self._waits_for()
        called = f"; calls {', '.join(self.calls.values())}" if self.calls else ""
        return f"turn {event.index + 1}: {_turn_text(turn)}{called}"

    def _asks_again(self, event: TurnDropped | AnswerRejected) -> str:
        if isinstance(event, AnswerRejected):
            self.doing = "asks again"
            return f"the answer is rejected: {one_line(event.reason, 200)}"
        self.doing = f"asks again in {event.wait_s:g} s"
        return f"{self.doing}: {event.error}"

    def _answered(self, event: ToolResultEvent) -> str | None:
        self.calls.pop(event.result.call_id, None)
        self.doing = self._waits_for()
        return f"{event.result.name} failed" if event.result.is_error else None

    def _waits_for(self) -> str:
        names = dict.fromkeys(self.calls.values())
        return f"waits for {', '.join(names)}" if names else "asks the model"


class TeamView:
    """All runs of a tree, in the order in which they were first heard of."""

    def __init__(self, name: str) -> None:
        self._agents = {_ROOT: AgentView(path=(name,))}

    @property
    def agents(self) -> tuple[AgentView, ...]:
        """The runs; each behind the one above it."""
        below: dict[tuple[str, ...], list[AgentView]] = {}
        for agent in list(self._agents.values()):
            below.setdefault(agent.path[:-1], []).append(agent)
        return tuple(_in_order((), below))

    @property
    def usage(self) -> Usage:
        """Tokens of all complete turns."""
        return Usage.total(agent.usage for agent in self._agents.values())

    @property
    def cost(self) -> AtLeast | None:
        """What they cost, in USD; None: nothing that costs money was asked."""
        costs = [agent.cost for agent in self._agents.values() if agent.cost is not None]
        total = AtLeast()
        for cost in costs:
            total = total.plus(cost)
        return total if costs else None

    def push(self, event: Event) -> tuple[bool, str | None]:
        """Take in an event. Return whether what somebody does has changed, and a line about it."""
        if isinstance(event, SubagentEvent):
            key, own = event.run_id, event.event
            agent = self._agents.setdefault(key, AgentView(path=event.path))
        else:
            key, own = _ROOT, event
            agent = self._agents[_ROOT]
        before = agent.doing
        line = agent.push(own)
        if not agent.calls:
            self._below_ended(agent)
        said = None if line is None else f"{'/'.join(agent.path)}: {line}"
        return agent.doing != before or line is not None, said

    def broke_off(self, error: BaseException) -> None:
        """Take in what ended the run, which has no last event then."""
        root = self._agents[_ROOT]
        root.doing = "failed" if isinstance(error, Exception) else "cancelled"
        root.calls.clear()
        self._below_ended(root)

    def _below_ended(self, above: AgentView) -> None:
        """No call runs, so neither does what calls began; one that failed has no last event."""
        for agent in self._agents.values():
            is_below = agent.path[: len(above.path)] == above.path and agent is not above
            if is_below and not agent.has_ended:
                agent.doing = "ended"


def _in_order(
    above: tuple[str, ...], below: dict[tuple[str, ...], list[AgentView]]
) -> Iterator[AgentView]:
    # Taken out: several runs of one agent share a path, and what lies below the path comes once.
    for agent in below.pop(above, ()):
        yield agent
        yield from _in_order(agent.path, below)


def _turn_text(turn: Turn) -> str:
    text = tokens_text(turn.usage)
    verdict = turn.verdict
    if verdict is None:
        return text
    paid = "cost unknown" if verdict.cost is None else dollars(verdict.cost.total)
    text = f"{text}, {paid}"
    shortfall = verdict.shortfall
    if shortfall is None or not shortfall.lost_tokens:
        return text
    cause = shortfall.cause.value.replace("_", " ")
    return f"{text} ({cause}: {shortfall.lost_tokens:,} tokens lost)"


def _pending(event: RunPaused) -> str:
    pending = () if event.paused is None else event.paused.pending
    names = ", ".join(each.call.name for each in pending)
    return f"waits for a person: {names}" if names else "paused"


def _progress_text(event: ToolProgress) -> str:
    share = f"{event.done:g}" if event.total is None else f"{event.done:g} of {event.total:g}"
    said = f", {one_line(event.message, 100)}" if event.message else ""
    return f"waits for {event.name}: {share}{said}"


def _news_text(event: ContextCompacted | HandedOff | ToolsChanged | ServerFailed) -> str:
    match event:
        case ContextCompacted():
            sizes = f"{event.tokens_before:,} -> {event.tokens_after:,} tokens"
            return f"begins anew ({event.cause}): {sizes}"
        case HandedOff():
            return f"hands over to {event.to}"
        case ToolsChanged():
            return _changes_text(event)
        case ServerFailed():
            return f"goes on without MCP server {event.server}: {one_line(event.problem, 200)}"
        case _:
            assert_never(event)


def _changes_text(event: ToolsChanged) -> str:
    kinds = {"added": event.added, "removed": event.removed, "changed": event.changed}
    what = "; ".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names)
    return f"MCP server {event.server} has other tools: {one_line(what, 200)}"
