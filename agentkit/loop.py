"""The loop: ask the model, do what its turn says, ask again. Read `run_loop` from top to bottom.

What a turn leads to is data (`Outcome`), decided by `decide`, a pure function. The context grows
only by whole turns: a turn is appended once, when it is complete, and in the same step its calls
get their results. So whatever interrupts a run, its context is one that a model accepts.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, assert_never

from agentkit import hooking
from agentkit.asking import ModelTurn
from agentkit.blocks import UserMessage, printable
from agentkit.bounds import Bounds, is_bounded
from agentkit.calls import CallBatch
from agentkit.compacting import compact
from agentkit.counting import count_ping, count_unseen
from agentkit.errors import OutputError, RunError, TurnLimitReached
from agentkit.events import (
    AnswerRejected,
    ContextCompacted,
    Event,
    HandedOff,
    RunEnd,
    RunPaused,
    RunStarted,
    ServerFailed,
    ToolsChanged,
    Turn,
)
from agentkit.models.base import ModelRequest, ToolChoice, keeps_alive
from agentkit.open_turn import OpenTurn
from agentkit.output import BadOutput
from agentkit.saved import PausedRun, SavedEnd
from agentkit.state import RunState
from agentkit.team.handoff import hand_over
from agentkit.telling import tell_changes
from agentkit.tool_changes import tell_tools
from agentkit.toolset import Retry


@dataclass(frozen=True, slots=True)
class CallTools:
    """Run the turn's calls, tell the model the results, and ask it again."""


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
    """Run an agent to its answer. First comes `RunStarted`, last `RunEnd` or `RunPaused`.

    `run.context` can be continued at any time, also when this was cancelled, closed or broken by an
    exception. With a journal, each step is kept before the next begins.

    Raises:
        RunError: there is no answer; `partial` has the context and what was done.
        JournalError: a step could not be kept.
    """
    run.budget.begin()
    bounds = Bounds(run)
    events, telemetry = _run(run, prompt, bounds), run.services.telemetry
    if is_bounded(run):
        events = bounds.within(events)
    async with aclosing(events if telemetry is None else telemetry.run(run, events)) as observed:
        async for event in observed:
            yield event


async def _run(
    run: RunState, prompt: UserMessage | None, bounds: Bounds
) -> AsyncGenerator[Event, None]:
    try:
        yield RunStarted(run_id=run.run_id, agent=run.member.name)
        for begun in await _begin(run, prompt, bounds):
            yield begun
        for index in itertools.count(run.turn):
            run.turn = index
            ask = ModelTurn(run, index)
            # 1. The model speaks, unless a limit or a pause keeps it from it.
            async with aclosing(_ask(run, ask)) as asked:
                async for event in asked:
                    yield event
            # 2. What it said becomes part of the context, and is acted on.
            await bounds.passed()
            outcome = await _outcome(run, ask)
            match outcome:
                case CallTools():
                    async with aclosing(_call_tools(run, ask)) as call_events:
                        async for event in call_events:
                            yield event
                    if run.open is not None:  # a call waits for a person
                        yield await _paused(run)
                        return
                case Finish(output):
                    run.context = run.context.append(ask.turn.message)
                    end = SavedEnd(text=ask.turn.message.text, finish=ask.turn.finish)
                    await run.commit("done", end)
                    await hooking.after_turn(run)
                    yield ask.end
                    yield RunEnd(run.result(end, output))
                    return
                case AskAgain(message):
                    run.n_repairs += 1
                    run.context = run.context.append(ask.turn.message, message)
                    yield ask.end
                    yield AnswerRejected(index=index, reason=message.text)
                case Pause():
                    yield await _paused(run)
                    return
                case Stop(error):
                    run.context = ask.appended_to(run.context)
                    raise error
                case _:
                    assert_never(outcome)
            run.turn = index + 1
            await run.commit()
            await hooking.after_turn(run)
    except RunError as error:
        error.partial = run.record()
        raise


async def _begin(run: RunState, prompt: UserMessage | None, bounds: Bounds) -> list[Event]:
    """Append the prompt, behind what has changed; returns the events that say so."""
    if run.was_asking:
        run.was_asking = False
        count_unseen(run)
    events: list[HandedOff | ContextCompacted | None] = [run.began_anew]
    run.began_anew = None
    if run.open is None:
        events += [hand_over(run), tell_changes(run, run.turn)]
    if prompt is not None:
        await hooking.guard_input(run, prompt)
        run.prompt = prompt.text
        run.say(prompt)
    await run.commit()
    if (guard := hooking.watch_input(run)) is not None:
        bounds.watch(guard)
    return [event for event in events if event is not None]


async def _paused(run: RunState) -> RunPaused:
    await run.commit("paused")
    return RunPaused(turns=run.turn, paused=PausedRun(runs=run.saved_tree()))


async def _ask(run: RunState, ask: ModelTurn) -> AsyncGenerator[Event, None]:
    """Ask the model; before that, tell it what has changed, and summarise what got too long."""
    if run.open is not None or before_turn(run) is not None:
        return
    if (handed_off := hand_over(run)) is not None:
        yield handed_off
    if (begun_anew := tell_changes(run, ask.index)) is not None:
        yield begun_anew
    async with aclosing(compact(run, ask.index)) as compactions:
        async for compaction in compactions:
            await run.commit()
            yield compaction
    # Again: a pause may have been asked for while the summary was written.
    if before_turn(run) is None:
        await _prepare(run, ask.index)
        for news in await _tool_news(run, ask.index):
            yield news
        async with aclosing(ask.events()) as model_events:
            async for event in model_events:
                yield event
        await hooking.after_model(run, ask.turn)


async def _prepare(run: RunState, index: int) -> None:
    """Let the hooks say what they say before a turn: once, and kept before anything is sent."""
    if run.prepared_turn != index:
        has_more = await hooking.before_turn(run)
        run.prepared_turn = index
        if has_more:
            await run.commit()


async def _tool_news(run: RunState, index: int) -> list[ServerFailed | ToolsChanged]:
    """Take in what tool servers have changed; kept before anything is sent."""
    before = run.context
    events = await tell_tools(run, index)
    if run.context is not before:
        await run.commit()
    return events


async def _outcome(run: RunState, ask: ModelTurn) -> Outcome:
    if run.open is not None:
        return CallTools()
    if not ask.is_answered:
        outcome = before_turn(run)
        assert outcome is not None, "the model was not asked for no reason"
        return outcome
    outcome = decide(run, ask.turn, ask.request.tool_choice)
    if not isinstance(outcome, Finish):
        return outcome
    try:
        await run.member.agent.check_output(outcome.output)
        await hooking.guard_output(run, outcome.output)
    except Retry as problem:
        return _again(run, ask.turn, problem, ask.request.tool_choice)
    return outcome


def before_turn(run: RunState) -> Outcome | None:
    """Return why the model is not asked again, if so."""
    limit = run.member.agent.max_turns
    if run.pause_requested:
        return Pause()
    if run.own_turn >= limit:
        return Stop(TurnLimitReached(run.member.name, limit))
    return None


def decide(run: RunState, turn: Turn, choice: ToolChoice) -> Outcome:
    """Return what a complete turn leads to. Changes nothing."""
    if turn.message.calls:
        return CallTools()
    text = turn.message.text
    try:
        if choice not in ("auto", "none"):
            raise BadOutput("a tool must be called now, and no tool was called")
        return Finish(run.member.output.parse(text))
    except BadOutput as problem:
        return _again(run, turn, problem, choice)


def _again(run: RunState, turn: Turn, problem: BadOutput | Retry, choice: ToolChoice) -> Outcome:
    if run.n_repairs >= run.member.agent.max_repairs:
        return Stop(
            OutputError(
                f"the answer of agent {run.member.name!r} does not fit after "
                f"{run.n_repairs} corrections: {problem}",
                text=turn.message.text,
            )
        )
    return AskAgain(UserMessage.of(printable(_correction(turn, problem, choice))))


async def _call_tools(run: RunState, ask: ModelTurn) -> AsyncGenerator[Event, None]:
    """Answer the calls of the open turn, and append both in one step, however this ends.

    The turn stays open only where calls wait for a person.
    """
    if run.open is None:
        run.open = OpenTurn(ask.turn.message)
    else:
        ask.prepare()
    turn = run.open
    batch = CallBatch(run, turn, ask.request.callable_tools)
    is_done = False
    try:
        await run.commit()
        if ask.is_answered:
            yield ask.end
        async with _kept_alive(run, ask.request), aclosing(batch.events()) as events:
            async for event in events:
                yield event
        is_done = True
    finally:
        try:
            await batch.close()
        finally:
            if not (is_done and turn.waiting):
                run.close_turn()


def _kept_alive(run: RunState, request: ModelRequest) -> AbstractAsyncContextManager[None]:
    """Keep the prefix in the model's cache while tools run, where the model can."""
    model = run.member.model
    if keeps_alive(model):
        return model.kept_alive(request, partial(count_ping, run))
    return nullcontext()


def _correction(turn: Turn, problem: BadOutput | Retry, choice: ToolChoice) -> str:
    if isinstance(problem, Retry):
        return f"Your answer is not accepted: {problem}\nAnswer again."
    if choice not in ("auto", "none"):
        return f"Your answer cannot be used: {problem}. Call a tool."
    cut = " It was cut off at the token limit; be shorter." if turn.finish == "length" else ""
    return (
        f"Your answer does not fit the required form:\n{problem}\n{cut}"
        "Answer again, with nothing but the corrected JSON value."
    )
