"""The loop: ask the model, do what its turn says, ask again. Read `run_loop` from top to bottom.

What a turn leads to is data (`Outcome`), decided by `decide`, a pure function. The context grows
only by whole turns: a turn is appended once, when it is complete, and in the same step its calls
get their results. So whatever interrupts a run, its context is one that a model accepts.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, fields
from typing import TypeAlias, assert_never

from agentkit.asking import ModelTurn
from agentkit.blocks import ToolCall, UserMessage
from agentkit.calls import CallBatch
from agentkit.compacting import compact
from agentkit.errors import OutputError, RunError, TurnLimitReached
from agentkit.events import Event, RunEnd, RunPaused, Turn
from agentkit.models.base import KeepsAlive, ModelRequest, ToolChoice
from agentkit.output import BadOutput
from agentkit.result import RunResult
from agentkit.state import RunState
from agentkit.telling import tell_changes


@dataclass(frozen=True, slots=True)
class CallTools:
    """Run these calls, tell the model the results, and ask it again."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """The run has its answer."""

    output: object


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Tell the model what is wrong with its answer, and ask it again."""

    message: UserMessage


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop here, where the run can be continued from its context."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The run ends without an answer."""

    error: RunError


Outcome: TypeAlias = CallTools | Finish | AskAgain | Pause | Stop


async def run_loop(run: RunState, prompt: UserMessage | None) -> AsyncGenerator[Event, None]:
    """Run an agent to its answer. The last event is `RunEnd` (or `RunPaused`).

    `run.context` is valid whenever this generator is suspended, closed or broken by an exception.

    Raises:
        RunError: there is no answer; `partial` has the context and what was done.
    """
    begun_anew = tell_changes(run, 0)
    if prompt is not None:
        run.context = run.context.append(prompt)
    try:
        if begun_anew is not None:
            yield begun_anew
        for index in itertools.count():
            ask = ModelTurn(run, index)
            # 1. The model speaks, unless a limit or a pause keeps it from it.
            async with aclosing(_ask(run, ask)) as asked:
                async for event in asked:
                    yield event
            # 2. What it said becomes part of the context, and is acted on.
            outcome = _outcome(run, ask)
            match outcome:
                case CallTools(calls):
                    async with aclosing(_call_tools(run, ask, calls)) as call_events:
                        async for event in call_events:
                            yield event
                case Finish(output):
                    run.context = run.context.append(ask.turn.message)
                    yield ask.end
                    yield RunEnd(_result(run, ask.turn, output))
                    return
                case AskAgain(message):
                    run.n_repairs += 1
                    run.context = run.context.append(ask.turn.message, message)
                    yield ask.end
                case Pause():
                    yield RunPaused(turns=index)
                    return
                case Stop(error):
                    run.context = ask.appended_to(run.context)
                    raise error
                case _:
                    assert_never(outcome)
    except RunError as error:
        error.partial = run.record()
        raise


async def _ask(run: RunState, ask: ModelTurn) -> AsyncGenerator[Event, None]:
    """Ask the model; before that, tell it what has changed, and summarise what got too long."""
    if before_turn(run, ask.index) is not None:
        return
    if (begun_anew := tell_changes(run, ask.index)) is not None:
        yield begun_anew
    async with aclosing(compact(run, ask.index)) as compactions:
        async for compaction in compactions:
            yield compaction
    # Again: a pause may have been asked for while the summary was written.
    if before_turn(run, ask.index) is None:
        async with aclosing(ask.events()) as model_events:
            async for event in model_events:
                yield event


def _outcome(run: RunState, ask: ModelTurn) -> Outcome:
    if ask.is_answered:
        return decide(run, ask.turn, ask.request.tool_choice)
    outcome = before_turn(run, ask.index)
    assert outcome is not None, "the model was not asked for no reason"
    return outcome


def before_turn(run: RunState, index: int) -> Outcome | None:
    """Return why the model is not asked again, if so."""
    limit = run.member.agent.max_turns
    if run.pause_requested:
        return Pause()
    if index >= limit:
        return Stop(
            TurnLimitReached(
                f"agent {run.member.name!r} has no answer after max_turns={limit!r} turns; "
                "continue from error.partial.context, or raise max_turns"
            )
        )
    return None


def decide(run: RunState, turn: Turn, choice: ToolChoice) -> Outcome:
    """Return what a complete turn leads to. Changes nothing."""
    if turn.message.calls:
        return CallTools(turn.message.calls)
    text = turn.message.text
    try:
        if choice not in ("auto", "none"):
            raise BadOutput("a tool must be called now, and no tool was called")
        return Finish(run.member.output.parse(text))
    except BadOutput as problem:
        if run.n_repairs >= run.member.agent.max_repairs:
            return Stop(
                OutputError(
                    f"the answer of agent {run.member.name!r} does not fit after "
                    f"{run.n_repairs} corrections: {problem}",
                    text=text,
                )
            )
        return AskAgain(UserMessage.of(_correction(turn, problem, choice)))


async def _call_tools(
    run: RunState, ask: ModelTurn, calls: tuple[ToolCall, ...]
) -> AsyncGenerator[Event, None]:
    """Append the turn and the results of its calls, in one step, however this ends."""
    opened = run.context.append(ask.turn.message)
    batch = CallBatch(run, calls, ask.request.callable_tools)
    try:
        yield ask.end
        async with _kept_alive(run, ask.request), aclosing(batch.events()) as events:
            async for event in events:
                yield event
    finally:
        try:
            await batch.close()
        finally:
            run.context = opened.append(batch.message())


def _kept_alive(run: RunState, request: ModelRequest) -> AbstractAsyncContextManager[None]:
    """Keep the prefix in the model's cache while tools run, where the model can."""
    model = run.member.model
    if isinstance(model, KeepsAlive):
        return model.kept_alive(request, run.count_request)
    return nullcontext()


def _result(run: RunState, turn: Turn, output: object) -> RunResult[object]:
    record = run.record()
    return RunResult(
        **{item.name: getattr(record, item.name) for item in fields(record)},
        output=output,
        text=turn.message.text,
        finish=turn.finish,
    )


def _correction(turn: Turn, problem: BadOutput, choice: ToolChoice) -> str:
    if choice not in ("auto", "none"):
        return f"Your answer cannot be used: {problem}. Call a tool."
    cut = " It was cut off at the token limit; be shorter." if turn.finish == "length" else ""
    return (
        f"Your answer does not fit the required form:\n{problem}\n{cut}"
        "Answer again, with nothing but the corrected JSON value."
    )
