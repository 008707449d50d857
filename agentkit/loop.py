"""The loop: ask the model, do what its turn says, ask again. Read `run_loop` from top to bottom.

What a turn leads to is data (`Outcome`), decided by `decide`, a pure function. The context grows
only by whole turns: a turn is appended once, when it is complete, and in the same step its calls
get their results. So whatever interrupts a run, its context is one that a model accepts.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, fields
from typing import TypeAlias, assert_never

from agentkit.blocks import ToolCall, UserMessage
from agentkit.calls import CallBatch
from agentkit.context import Context
from agentkit.errors import ModelError, OutputError, RunError, TurnLimitReached
from agentkit.events import (
    Event,
    ModelEvent,
    RunEnd,
    RunPaused,
    Turn,
    TurnBuilder,
    TurnDropped,
    TurnEnd,
)
from agentkit.models.base import KeepsAlive, ModelRequest, ToolChoice
from agentkit.output import BadOutput
from agentkit.result import RunResult
from agentkit.state import RunState

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0


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
    if prompt is not None:
        run.context = run.context.append(prompt)
    try:
        for index in itertools.count():
            ask = _ModelTurn(run, index)
            # 1. The model speaks, unless a limit or a pause keeps it from it.
            if (outcome := before_turn(run, index)) is None:
                async with aclosing(ask.events()) as model_events:
                    async for model_event in model_events:
                        yield model_event
                outcome = decide(run, ask.turn, ask.request.tool_choice)
            # 2. What it said becomes part of the context, and is acted on.
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
    run: RunState, ask: _ModelTurn, calls: tuple[ToolCall, ...]
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


class _ModelTurn:
    """One turn of the model, asked as often as its failures allow."""

    def __init__(self, run: RunState, index: int) -> None:
        self._run = run
        self._index = index
        self._request: ModelRequest | None = None
        self._turn: Turn | None = None

    @property
    def request(self) -> ModelRequest:
        """What the model was asked."""
        assert self._request is not None, "events() has not run"
        return self._request

    @property
    def turn(self) -> Turn:
        """What the model answered."""
        assert self._turn is not None, "events() has not run to its end"
        return self._turn

    def appended_to(self, context: Context) -> Context:
        """The context with the turn; as it is, if the model was not asked."""
        return context if self._turn is None else context.append(self._turn.message)

    @property
    def end(self) -> TurnEnd:
        """The event that says so."""
        return TurnEnd(index=self._index, turn=self.turn)

    async def events(self) -> AsyncGenerator[ModelEvent | TurnDropped, None]:
        """Ask, and yield what the model says."""
        for attempt in itertools.count():
            self._request = self._run.member.request(self._run, self._index, attempt)
            builder = TurnBuilder()
            try:
                stream = self._run.member.model.stream(self._request)
                async with aclosing(stream) as model_events:
                    async for event in model_events:
                        builder.push(event)
                        yield event
                self._turn = builder.finish()
            except ModelError as error:
                self._run.count_request(*builder.spent, builder.verdict)
                if not error.retryable or attempt >= self._run.member.agent.max_retries:
                    raise
                wait_s = _wait_s(error, attempt)
                yield TurnDropped(index=self._index, error=error, wait_s=wait_s)
                await asyncio.sleep(wait_s)
            else:
                turn = self._turn
                self._run.count_request(turn.usage, turn.timing, turn.verdict)
                return


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


def _wait_s(error: ModelError, attempt: int) -> float:
    if error.retry_after_s is not None:
        return error.retry_after_s
    return min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0**attempt)
