"""A run while it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from agentkit.beginning import RunOptions, begin_run
from agentkit.blocks import UserMessage
from agentkit.context import Context
from agentkit.errors import AgentkitError, RunError
from agentkit.events import Event, RunEnd, RunPaused, RunStarted
from agentkit.keeping import held
from agentkit.loop import run_loop
from agentkit.result import RunRecord, RunResult
from agentkit.saved import PausedRun
from agentkit.state import RunState
from agentkit.toolset.execute import is_cancelled

if TYPE_CHECKING:
    from agentkit.agent import Agent

Output = TypeVar("Output")


class RunStream(Generic[Output]):
    """The events of one run: an async iterator, and a context manager that ends the run when left.

    Leaving early cancels what runs. `record` and `context` can be read at any time, also
    afterwards, also when the run was cancelled: the context is always one that can be continued.
    """

    def __init__(
        self, agent: Agent[Any, Output], prompt: UserMessage | None, options: RunOptions
    ) -> None:
        self._agent = agent
        self._prompt = prompt
        self._options = options
        self._run: RunState | None = None
        self._pause_requested = False
        self._result: RunResult[Output] | None = None
        self._paused: PausedRun | None = None
        self._events = self._drive()
        self._reader: asyncio.Task[Any] | None = None
        """Who waits for the next event."""
        self._is_read: asyncio.Event | None = None
        """Set when it has it, or its waiting has ended."""
        self._is_closing = False

    @property
    def result(self) -> RunResult[Output]:
        """The result, once the run has ended.

        Raises:
            AgentkitError: the run has no result (yet).
        """
        if self._result is None and self._paused is not None:
            raise AgentkitError(
                f"the run of {self._agent.name!r} has no result, because it is paused: `.paused` "
                "is what to go on with: await agent.resume(events.paused, answers)"
            )
        if self._result is None:
            raise AgentkitError(
                f"the run of {self._agent.name!r} has no result: it has not ended, or was left "
                "early; `record` has what it did"
            )
        return self._result

    @property
    def record(self) -> RunRecord | None:
        """What the run has done so far; None before it begins."""
        return None if self._run is None else self._run.record()

    @property
    def context(self) -> Context | None:
        """The conversation so far. Before the run begins, what was given to it."""
        return self._options.context if self._run is None else self._run.closed_context

    @property
    def paused(self) -> PausedRun | None:
        """What to resume, if the run was paused or waits for answers."""
        return self._paused

    def pause(self) -> None:
        """Ask the run to stop after its current turn, when its calls have their results.

        The last event is then `RunPaused`; go on with `agent.resume(events.paused)`.
        """
        self._pause_requested = True
        if self._run is not None:
            self._run.pause_requested = True

    async def aclose(self) -> None:
        """End the run. Idempotent; after its end it does nothing.

        Any task may do that: one that waits for the next event then gets none, as at the end.

        Raises:
            AgentkitError: called by what the run itself waits for, such as a hook.
        """
        reader = self._reader
        if reader is not None:
            if reader is asyncio.current_task():
                raise AgentkitError(
                    f"the run of {self._agent.name!r} cannot be closed from within, e.g. by a hook "
                    "that it waits for: raise an error there instead, or use pause()"
                )
            if not self._is_closing:
                self._is_closing = True
                reader.cancel()
            if self._is_read is None:
                self._is_read = asyncio.Event()
            await self._is_read.wait()
        await self._events.aclose()

    def __aiter__(self) -> RunStream[Output]:
        return self

    async def __anext__(self) -> Event:
        if self._reader is not None:
            raise AgentkitError(
                f"the events of the run of {self._agent.name!r} are read by another task already"
            )
        self._reader = asyncio.current_task()
        try:
            return await self._events.__anext__()
        except asyncio.CancelledError:
            if self._is_closing and not is_cancelled(but=1):
                raise StopAsyncIteration from None
            raise
        finally:
            if self._is_closing and self._reader is not None:
                self._reader.uncancel()
            self._is_closing = False
            if self._is_read is not None:
                self._is_read.set()
                self._is_read = None
            self._reader = None

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
            with ExitStack() as stack:
                if self._options.id is not None:
                    stack.enter_context(self._agent.holding(self._options.id))
                self._run = run = await begin_run(self._agent, team.root, self._options)
                if self._options.id is None:
                    stack.enter_context(self._agent.holding(run.run_id))
                stack.enter_context(held(run.services.journal, run.run_id, run.claim))
                run.pause_requested = self._pause_requested
                try:
                    if run.status == "done":
                        assert run.end is not None, "a run that is done has its end"
                        yield RunStarted(run_id=run.run_id, agent=run.member.name)
                        end = RunEnd(run.result(run.end))
                        self._ended(end)
                        yield end
                        return
                    async with aclosing(run_loop(run, self._prompt)) as events:
                        async for event in events:
                            if isinstance(event, _LAST):
                                self._ended(event)
                            yield event
                except asyncio.CancelledError as error:
                    if is_cancelled():
                        await run.failed(error)
                        raise
                    ended = RunError(
                        "a hook, a check or the model waited for something that was cancelled, and "
                        "nobody has cancelled the run: let it catch CancelledError"
                    )
                    ended.partial = run.record()
                    await run.failed(ended)
                    raise ended from error
                except BaseException as error:
                    await run.failed(error)
                    raise
                finally:
                    self._agent.remember(run.closed_context, run.memory)

    def _ended(self, event: RunEnd | RunPaused) -> None:
        if isinstance(event, RunEnd):
            self._result = cast("RunResult[Output]", event.result)
        else:
            self._paused = event.paused


_LAST = (RunEnd, RunPaused)
