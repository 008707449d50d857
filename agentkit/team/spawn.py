"""Runs one subagent below a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import get_args

from agentkit.blocks import UserMessage
from agentkit.events import ModelEvent, RunEnd
from agentkit.hints import conversation_ended
from agentkit.journal import JournalError
from agentkit.loop import run_loop
from agentkit.result import Failed, Ok, Outcome, RunResult
from agentkit.saved import SavedEnd
from agentkit.state import ListenerFailed, RunState
from agentkit.toolset import Suspended

_MODEL_EVENTS = get_args(ModelEvent)


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
        run: the subagent's run, made by `parent.child`.
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
    return outcome


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
            parent.emit_from_below(event, run)
            if isinstance(event, RunEnd):
                result = event.result
    if result is None:
        raise Suspended
    return result
