"""What a run leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from agentkit.blocks import Message
from agentkit.caching.ledger.amounts import AtLeast
from agentkit.caching.report import CacheReport, RequestRecord
from agentkit.context import Context
from agentkit.events import FinishReason
from agentkit.usage import Timing, Usage

Output_co = TypeVar("Output_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What a run did, with or without an answer. Includes all runs below it."""

    run_id: str
    path: tuple[str, ...]
    """From the root agent's name to this agent's."""
    context: Context
    """Everything the model was told and said; every tool call has its result.

    Continue the conversation with `agent.run("...", context=result.context)`.
    """
    messages: tuple[Message, ...]
    """What this run added to the history, as it was said.

    Also what a summary stands for in `context` now. The request for a summary and the answer to it
    are no part of it.
    """
    requests: tuple[RequestRecord, ...]
    """All model requests: its own, then those of each run below, in the order of their start.

    For `fan_out` that is the order of the tasks.
    """
    children: tuple[Outcome, ...]
    """The runs directly below, in the order in which they ended."""
    total_s: float
    """How long the run took."""

    @property
    def usage(self) -> Usage:
        """Tokens of all requests together."""
        return Usage.total(request.usage for request in self.requests)

    @property
    def timing(self) -> Timing:
        """Time to the first token of the run's own first request, and the length of the run."""
        own = [request.timing.ttft_s for request in self.requests if request.path == self.path]
        return Timing(ttft_s=own[0] if own else None, total_s=self.total_s)

    @property
    def cost(self) -> AtLeast | None:
        """What all requests cost, in USD; None without any that costs money. See `cache` for more.

        Requests of unknown price make it a lower bound: `AtLeast` says how many there are.
        """
        money = self.cache.total.money
        return None if money is None else money.cost

    @property
    def cache(self) -> CacheReport:
        """What the cache did, for each agent. Printing it shows a table."""
        return CacheReport.of(self.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(RunRecord, Generic[Output_co]):
    """A run that has its answer."""

    output: Output_co
    """The answer, as the agent's output type."""
    text: str
    """The answer, as the model wrote it."""
    finish: FinishReason
    """`length` means that the answer was cut off at the token limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ok:
    """A subagent's run that has its answer."""

    path: tuple[str, ...]
    task: str
    result: RunResult[object]
    kind: Literal["ok"] = "ok"

    @property
    def output(self) -> object:
        """The answer, as the subagent's output type."""
        return self.result.output


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A subagent's run that ended without an answer; its siblings went on."""

    path: tuple[str, ...]
    task: str
    error: BaseException
    """`CancelledError` if the run was cancelled from above."""
    record: RunRecord
    """What the run had done until then."""
    kind: Literal["failed"] = "failed"

    @property
    def reason(self) -> str:
        """Type and text of the error; the same after a restart."""
        return failure_text(self.error)


def failure_text(error: BaseException) -> str:
    """Return type and text of an error; of one that was kept by a journal, as it was then."""
    from agentkit.state import RestoredFailure

    return str(error) if isinstance(error, RestoredFailure) else f"{type(error).__name__}: {error}"


Outcome: TypeAlias = Ok | Failed
