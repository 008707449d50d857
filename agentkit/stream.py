"""A run while it happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from agentkit.blocks import UserMessage
from agentkit.context import Context, Segment, Tier
from agentkit.context.segment import tool_names
from agentkit.errors import AgentkitError, ContextMismatch
from agentkit.events import Event, RunEnd
from agentkit.loop import run_loop
from agentkit.result import RunRecord, RunResult
from agentkit.state import RunState
from agentkit.team.pinned import pinned

if TYPE_CHECKING:
    from agentkit.agent import Agent
    from agentkit.team.members import Member

Output = TypeVar("Output")


class RunStream(Generic[Output]):
    """The events of one run: an async iterator, and a context manager that ends the run when left.

    Leaving early cancels what runs. `record` and `context` can be read at any time, also
    afterwards, also when the run was cancelled: the context is always one that can be continued.
    """

    def __init__(
        self, agent: Agent[Any, Output], prompt: UserMessage | None, context: Context | None
    ) -> None:
        self._agent = agent
        self._prompt = prompt
        self._given = context
        self._run: RunState | None = None
        self._pause_requested = False
        self._result: RunResult[Output] | None = None
        self._events = self._drive()

    @property
    def result(self) -> RunResult[Output]:
        """The result, once the run has ended.

        Raises:
            AgentkitError: the run has no result (yet).
        """
        if self._result is None:
            raise AgentkitError(
                f"the run of {self._agent.name!r} has no result: it has not ended, was left early, "
                "or was paused; `record` has what it did"
            )
        return self._result

    @property
    def record(self) -> RunRecord | None:
        """What the run has done so far; None before it begins."""
        return None if self._run is None else self._run.record()

    @property
    def context(self) -> Context | None:
        """The conversation so far. Before the run begins, what was given to it."""
        return self._given if self._run is None else self._run.context

    def pause(self) -> None:
        """Ask the run to stop after its current turn, when its calls have their results.

        The last event is then `RunPaused`; go on with `agent.run(None, context=events.context)`.
        """
        self._pause_requested = True
        if self._run is not None:
            self._run.pause_requested = True

    async def aclose(self) -> None:
        """End the run. Idempotent; after its end it does nothing."""
        await self._events.aclose()

    def __aiter__(self) -> RunStream[Output]:
        return self

    async def __anext__(self) -> Event:
        return await self._events.__anext__()

    async def __aenter__(self) -> RunStream[Output]:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _drive(self) -> AsyncGenerator[Event, None]:
        async with self._agent.opened() as team:
            self._run = run = _begin(team.root, self._given)
            run.pause_requested = self._pause_requested
            if self._given is not None:
                run.recall(self._agent.memory_of(run.context))
            try:
                async with aclosing(run_loop(run, self._prompt)) as events:
                    async for event in events:
                        if isinstance(event, RunEnd):
                            self._result = cast("RunResult[Output]", event.result)
                        yield event
            finally:
                self._agent.remember(run.context, run.memory)


def _begin(member: Member, given: Context | None) -> RunState:
    """Return a run of a new conversation, or of a given one with the toolset it was begun with.

    Raises:
        ContextMismatch: the given one was begun differently.
    """
    if given is None:
        begun = member.begun()
        return RunState(
            member=begun.member,
            context=begun.member.front,
            version=begun.version,
            epoch=begun.epoch,
            path=(member.name,),
        )
    if (as_begun := pinned(member, given)) is not None:
        return RunState(member=as_begun, context=given.fork(), path=(member.name,))
    front = member.front
    n_equal = given.front.common_length(front)
    raise ContextMismatch(
        f"the context cannot be continued by agent {member.name!r}: "
        f"{_difference(given.front.segments[n_equal:], front.segments[n_equal:])}, "
        "so nothing after that could be read from a cache; "
        "continue it with the agent that began it, begin a new epoch with "
        "agentkit.team.begin_epoch(agent, context), or begin a new context"
    )


def _difference(old: tuple[Segment, ...], new: tuple[Segment, ...]) -> str:
    """Say how two fronts differ, which are equal up to here."""
    first, second = old[0] if old else None, new[0] if new else None
    if first and second and first.tier is second.tier is Tier.TOOLS:
        before, after = tool_names(first), tool_names(second)
        changes = [f"-{name}" for name in before if name not in after]
        changes += [f"+{name}" for name in after if name not in before]
        what = ", ".join(changes) or "descriptions or schemas"
        return f"its tools have changed ({what})"
    names = dict.fromkeys(str(item.part or item.tier) for item in (first, second) if item)
    what = " and ".join(names)
    verb = "differ" if what.endswith("s") or len(names) > 1 else "differs"
    return f"its {what} {verb} from what it was begun with"
