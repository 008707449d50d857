"""What an application calls to have an agent do something: a base of `Agent`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from typing_extensions import Unpack

from agentkit.beginning import RunKeywords, RunOptions, run_options
from agentkit.blocks import UserMessage
from agentkit.checks import message_of
from agentkit.context import Context
from agentkit.conversations import Conversations
from agentkit.errors import AgentkitError, ApprovalRequired
from agentkit.journal import Journal
from agentkit.limits import Limits
from agentkit.result import RunResult
from agentkit.resuming import abandoned
from agentkit.saved import Answers, PausedRun
from agentkit.stream import RunStream

if TYPE_CHECKING:
    from agentkit.agent import Agent

Output = TypeVar("Output")


class Running(Conversations, Generic[Output]):
    """Begins runs, goes on with them, and ends them."""

    name: str
    journal: Journal | None

    async def run(
        self, prompt: str | UserMessage | None, **options: Unpack[RunKeywords]
    ) -> RunResult[Output]:
        """Run the agent to its answer.

        Args:
            prompt: what the user says; None goes on with `context` as it is, after a pause or a
            failure.
            options: see `RunKeywords`.

        Raises:
            ApprovalRequired: calls wait for a person; go on with `resume(error.paused, answers)`.
            RunError: there is no answer; `error.partial` has what was done.
            ContextMismatch: the context was begun with other rules, tools or another role.
            ConfigurationError: the agent is put together wrongly.
        """
        return await _result_of(self.stream(prompt, **options))

    def run_sync(
        self, prompt: str | UserMessage | None, **options: Unpack[RunKeywords]
    ) -> RunResult[Output]:
        """`run` for programs without an event loop.

        Raises:
            AgentkitError: the calling thread runs an event loop already; use `await
            agent.run(...)`.
        """
        self._check_no_loop("run")
        return asyncio.run(self.run(prompt, **options))

    def stream(
        self, prompt: str | UserMessage | None, **options: Unpack[RunKeywords]
    ) -> RunStream[Output]:
        """Like `run`, and yields events as they happen. The run begins with the first one.

        async with agent.stream("...") as events:
            async for event in events: ...
        events.result
        """
        message = message_of(prompt, options.get("context"))
        return RunStream(self._agent, message, run_options(options))

    async def resume(
        self,
        paused: PausedRun | str,
        answers: Answers | None = None,
        *,
        journal: Journal | None = None,
        limits: Limits | None = None,
    ) -> RunResult[Output]:
        """Go on with a run that was paused, waits for answers, failed, or lost its process.

        Args:
            paused: the run, e.g. `error.paused`; or its id, if it is in the journal.
            answers: to its pending calls, by `PendingCall.id`. Those without one wait on.
            journal: where the run is; the agent's own by default.
            limits: new limits in place of the agent's; what was used counts.

        Raises:
            ApprovalRequired, RunError, ContextMismatch: as `run`.
            JournalError: the run is unknown.
        """
        stream = self.resume_stream(paused, answers, journal=journal, limits=limits)
        return await _result_of(stream)

    def resume_sync(
        self,
        paused: PausedRun | str,
        answers: Answers | None = None,
        *,
        journal: Journal | None = None,
        limits: Limits | None = None,
    ) -> RunResult[Output]:
        """`resume` for programs without an event loop."""
        self._check_no_loop("resume")
        return asyncio.run(self.resume(paused, answers, journal=journal, limits=limits))

    def resume_stream(
        self,
        paused: PausedRun | str,
        answers: Answers | None = None,
        *,
        journal: Journal | None = None,
        limits: Limits | None = None,
    ) -> RunStream[Output]:
        """Like `resume`, and yields events as they happen."""
        options = RunOptions(resume=paused, answers=answers or {}, journal=journal, limits=limits)
        return RunStream(self._agent, None, options)

    async def abandon(self, run: PausedRun | str, *, journal: Journal | None = None) -> Context:
        """End a run that waits, failed, or lost its process, so that its session is free.

        It is kept as failed. Calls without a result say that they were not run, or that nobody
        knows whether they had an effect. A process that is at the run fails at its next step.

        Args:
            run: the run, e.g. `error.paused`; or its id, if it is in the journal.
            journal: where the run is; the agent's own by default.

        Returns:
            The conversation, which can be gone on with.

        Raises:
            JournalError: the run is unknown, or has gone on since it was paused.
            ContextMismatch: another agent began it.
            ConfigurationError: it is done, or a part of another run.
        """
        with self.holding(run.run_id if isinstance(run, PausedRun) else run):
            runs = await abandoned(self.name, run, journal or self.journal)
        return runs[0].context

    def abandon_sync(self, run: PausedRun | str, *, journal: Journal | None = None) -> Context:
        """`abandon` for programs without an event loop."""
        self._check_no_loop("abandon")
        return asyncio.run(self.abandon(run, journal=journal))

    @property
    def _agent(self) -> Agent[Any, Output]:
        return cast("Agent[Any, Output]", self)

    def _check_no_loop(self, method: str) -> None:
        if _is_in_event_loop():
            raise AgentkitError(
                f"{self.name}.{method}_sync() was called inside a running event loop, which it "
                f"would block; use: await agent.{method}(...)"
            )


async def _result_of(stream: RunStream[Output]) -> RunResult[Output]:
    async with stream as events:
        async for _ in events:
            pass
    if events.paused is not None and events.paused.pending:
        waits = ApprovalRequired(events.paused)
        waits.partial = events.record
        raise waits
    return events.result


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
