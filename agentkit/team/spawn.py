"""Runs one subagent below a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import get_args

from agentkit.blocks import UserMessage
from agentkit.events import Event, ModelEvent, RunEnd, SubagentEvent
from agentkit.hints import conversation_ended
from agentkit.journal import JournalError
from agentkit.kept import keep_named
from agentkit.loop import run_loop
from agentkit.result import Failed, Ok, Outcome, RunResult
from agentkit.saved import SavedEnd
from agentkit.state import RunState
from agentkit.toolset import Suspended

_MODEL_EVENTS = get_args(ModelEvent)


class ListenerFailed(Exception):
    """Who hears the events failed: no failure of the run whose event it was."""

    def __init__(self, error: Exception) -> None:
        super().__init__(repr(error))
        self.error = error


async def run_below(
    parent: RunState,
    run: RunState,
    prompt: UserMessage,
    *,
    on_begin: Callable[[], None] | None = None,
) -> Outcome:
    """Run a subagent; its events, requests and outcome are part of the parent's run.

    Whatever fails in the subagent is its outcome, not an exception.

    Args:
        parent: the run that waits for it.
        run: the subagent's run, made by `begin_below`.
        prompt: the task.
        on_begin: called once, when the model's first answer begins or the run has ended.

    Raises:
        Suspended: calls in it wait for a person.
        AssertionError: a test double in the subagent found a mistake.
        JournalError: a step could not be kept.
        ListenerFailed: what hears the events of the parent's run failed.
    """
    if (known := run.outcome) is not None:
        if on_begin is not None:
            on_begin()
        _keep_named(parent, run, known)
        return known
    run.begin()
    task = prompt.text
    outcome: Outcome
    try:
        result = await _drive(run, prompt, parent, on_begin)
        outcome = Ok(path=run.path, task=task, result=result)
    except asyncio.CancelledError as error:
        run.outcome = Failed(path=run.path, task=task, error=error, record=run.record())
        await run.cut_off()
        raise
    except (AssertionError, JournalError, ListenerFailed) as error:
        # No failure of the subagent, and no result for the tool that has begun it.
        parent.broken = error
        await run.cut_off()
        raise
    except Exception as error:
        outcome = Failed(path=run.path, task=task, error=error, record=run.record())
        await run.commit("failed", SavedEnd(error=outcome.reason))
    finally:
        conversation_ended(run)
        if on_begin is not None:
            on_begin()
    run.outcome = outcome
    _keep_named(parent, run, outcome)
    return outcome


def _keep_named(parent: RunState, run: RunState, outcome: Outcome) -> None:
    if isinstance(outcome, Ok):
        keep_named(parent, run, outcome.result.text)


async def _drive(
    run: RunState, prompt: UserMessage, parent: RunState, on_begin: Callable[[], None] | None
) -> RunResult[object]:
    result: RunResult[object] | None = None
    # One that was begun before has its task in its context already.
    task = prompt if not run.is_begun else None
    async with aclosing(run_loop(run, task)) as events:
        async for event in events:
            if on_begin is not None and isinstance(event, _MODEL_EVENTS):
                on_begin()
            _pass_on(event, run, parent)
            if isinstance(event, RunEnd):
                result = event.result
    if result is None:
        raise Suspended
    return result


def _pass_on(event: Event, run: RunState, parent: RunState) -> None:
    """Pass on an event of a run below, flat: with the path of the run that it is of."""
    if parent.sink is None:
        return
    if not isinstance(event, SubagentEvent):
        event = SubagentEvent(path=run.path, run_id=run.run_id, event=event)
    try:
        parent.sink(event)
    except Exception as error:
        raise ListenerFailed(error) from error
