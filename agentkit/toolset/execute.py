"""Run the calls of one turn: in parallel, each with an answer, answers in call order."""

from __future__ import annotations

import asyncio
import difflib
import functools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from agentkit.toolset.errors import Suspended
from agentkit.toolset.failures import bad_result, exit_text, failure
from agentkit.toolset.policy import policy_of
from agentkit.toolset.tool import Tool, ToolContext, ToolOutput
from agentkit.toolset.toolset import Toolset

_MAX_NAMES = 20
"""Tool names that an error message lists at most."""

_CANCEL_GRACE_S = 5.0
"""How long a cancelled call may take to clean up before nobody waits for it any more."""

_CANCELLED = ToolOutput.error("The call was cancelled; whether it had an effect is unknown.")


class Call(Protocol):
    """A tool call as the model wrote it. `arguments` is the exact JSON text."""

    @property
    def id(self) -> str:
        """The id that the answer must carry."""
        ...

    @property
    def name(self) -> str:
        """The tool's name, perhaps one that does not exist."""
        ...

    @property
    def arguments(self) -> str:
        """The exact text of the arguments, perhaps no JSON."""
        ...


class Proceed(Protocol):
    """Runs a call, with other arguments than the model's if they are given as JSON text."""

    def __call__(self, arguments: str | None = None) -> Awaitable[ToolOutput]:
        """Run it."""
        ...


Around: TypeAlias = Callable[[int, ToolContext[object], Proceed], Awaitable[ToolOutput]]
"""Surrounds one call, in its task and its slot. What it raises ends all calls, and is raised."""


async def execute_calls(
    toolset: Toolset,
    calls: Sequence[Call],
    *,
    allowed: frozenset[str] | None,
    context_factory: Callable[[Call], ToolContext[object]],
    max_parallel: int = 8,
    on_output: Callable[[int, ToolOutput], None] | None = None,
    around: Around | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[ToolOutput]:
    """Run all calls and return their answers in the order of the calls.

    Never raises for what a model or a tool did: unknown and masked names, broken JSON and failing
    tools have `is_error` answers that say what to do instead.

    When the caller is cancelled, the running calls are cancelled and get a few seconds to clean
    up; then `CancelledError` goes on. A caller that must answer every call even then (a context
    is valid only if each call has its result) gives `on_output`: it is called exactly once for
    each call, with the call's index, as answers arrive; for calls that were cut off with an
    answer that says so.

    Args:
        toolset: the tools that exist.
        calls: what the model asked for.
        allowed: names that may be called now; None allows all.
        context_factory: makes the context of one call; called for every call before any starts.
        max_parallel: calls that run at the same time.
        on_output: hears of each answer. A call that is suspended has none.
        around: surrounds each call, with its retries.
        sleep: waits so many seconds before a retry.
    """
    if max_parallel < 1:
        raise ValueError(f"max_parallel must be at least 1, not {max_parallel!r}")
    outputs: list[ToolOutput | None] = [None] * len(calls)
    suspended: set[int] = set()
    slots = asyncio.Semaphore(max_parallel)

    def answer(index: int, output: ToolOutput) -> None:
        # A call that outlived its cancellation has its answer already.
        if outputs[index] is not None:
            return
        outputs[index] = output
        if on_output is not None:
            on_output(index, output)

    async def work(index: int, context: ToolContext[object]) -> None:
        proceed = functools.partial(_execute, toolset, calls[index], allowed, context, sleep)
        async with slots:
            try:
                output = await (proceed() if around is None else around(index, context, proceed))
            except Suspended:
                suspended.add(index)
            else:
                answer(index, output)

    contexts = [context_factory(call) for call in calls]
    tasks = [asyncio.create_task(work(index, context)) for index, context in enumerate(contexts)]
    for task in tasks:
        task.add_done_callback(_heard)
    try:
        await _finish(tasks)
    finally:
        try:
            await _stop(tasks)
        finally:
            for index, output in enumerate(outputs):
                if output is None and index not in suspended:
                    answer(index, _CANCELLED)
    return [output for output in outputs if output is not None]


async def _execute(
    toolset: Toolset,
    call: Call,
    allowed: frozenset[str] | None,
    context: ToolContext[object],
    sleep: Callable[[float], Awaitable[None]],
    arguments: str | None = None,
) -> ToolOutput:
    tool = toolset.get(call.name)
    if tool is None:
        return ToolOutput.error(_unknown(call.name, toolset, allowed))
    if allowed is not None and call.name not in allowed:
        return ToolOutput.error(_masked(call.name, toolset, allowed))
    try:
        parsed = parse_arguments(call.arguments if arguments is None else arguments)
    except ValueError as error:
        return ToolOutput.error(
            f"The arguments of {call.name!r} are not usable: {error}. "
            "Give one JSON object that fits the tool's parameters."
        )
    return await _call_until_it_works(tool, parsed, context, sleep)


async def _call_until_it_works(
    tool: Tool,
    arguments: Mapping[str, object],
    context: ToolContext[object],
    sleep: Callable[[float], Awaitable[None]],
) -> ToolOutput:
    """Call a tool as often as its policy says; the answer is the last one."""
    policy = policy_of(tool)
    output = await _call(tool, arguments, context)
    for attempt in range(policy.retries):
        if not output.may_pass or is_cancelled():
            break
        await sleep(policy.wait_s(attempt))
        output = await _call(tool, arguments, context)
    return output


async def _call(
    tool: Tool, arguments: Mapping[str, object], context: ToolContext[object]
) -> ToolOutput:
    """Tools answer with their failures; this is for those of other people that raise instead."""
    try:
        output: object = await tool.call(arguments, context)
    except SystemExit as error:
        return failure(tool.spec.name, context, error, exit_text(error))
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return failure(tool.spec.name, context, error, "something that it waits for was cancelled")
    except Exception as error:
        return failure(tool.spec.name, context, error)
    if isinstance(output, ToolOutput):
        return output
    wrong = TypeError(f"its call() must return a ToolOutput, and returned {output!r:.200}")
    return bad_result(tool.spec.name, context, wrong)


def is_cancelled(*, but: int = 0) -> bool:
    """Whether the current task was cancelled, also where it has gone on in spite of that.

    Args:
        but: so many times do not count.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > but


async def _finish(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all. Not by `gather`, which, when cancelled, waits for tasks that refuse to end."""
    if tasks:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel what still runs and wait a bounded time for it."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=_CANCEL_GRACE_S)


def _heard(task: asyncio.Task[None]) -> None:
    """Of several exceptions the first is raised; the others are no news for asyncio's log."""
    if not task.cancelled():
        task.exception()


def parse_arguments(text: str) -> dict[str, object]:
    """Parse arguments strictly. Blank text counts as no arguments, as many models write it.

    Raises:
        ValueError: with a message for the model.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 20) : error.pos + 20]
        raise ValueError(
            f"no valid JSON: {error.msg} at line {error.lineno}, column {error.colno}, "
            f"near {near!r}"
        ) from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("a string contains a lone surrogate (half of a \\u escape pair)") from None
    if not isinstance(value, dict):
        raise ValueError(f"they must be a JSON object, but are: {text[:80]!r}")
    return value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is given more than once")
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _unknown(name: str, toolset: Toolset, allowed: frozenset[str] | None) -> str:
    names = _callable_names(toolset, allowed)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(repr(match) for match in near)}? " if near else ""
    return f"There is no tool named {name!r}. {hint}{_listing(names)}"


def _masked(name: str, toolset: Toolset, allowed: frozenset[str]) -> str:
    return f"The tool {name!r} may not be called now. {_listing(_callable_names(toolset, allowed))}"


def _callable_names(toolset: Toolset, allowed: frozenset[str] | None) -> list[str]:
    return [name for name in toolset.names if allowed is None or name in allowed]


def _listing(names: list[str]) -> str:
    if not names:
        return "No tool may be called now; answer without one."
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"You may call: {', '.join(names[:_MAX_NAMES])}{more}."
