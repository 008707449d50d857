"""What a run leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

from agentkit.blocks import Message, printable
from agentkit.caching.ledger.amounts import AtLeast
from agentkit.caching.report import CacheReport, RequestRecord
from agentkit.context import Context
from agentkit.errors import RestoredFailure
from agentkit.events import FinishReason
from agentkit.limits import LimitUse
from agentkit.usage import Timing, Usage

Output = TypeVar("Output")
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
    """The runs directly below that have ended, in the order in which they were begun."""
    total_s: float
    """How long the run took."""
    limits: tuple[LimitUse, ...] = ()
    """The run's limits, and what it has used of them so far; `left` is what remains."""

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

    def to_json(self) -> str:
        """Return it as JSON text. Bytes of contexts, verdicts and amounts are kept exactly.

        An output needs a JSON form, as pydantic makes it; an error is kept as its type and text.
        """
        from agentkit.saved_json import to_text

        return to_text(self)

    @staticmethod
    def from_json(text: str | bytes) -> RunRecord:
        """Rebuild a record.

        Raises:
            FormatError: the text is damaged, something else, or of another version's format.
        """
        from agentkit.saved_json import from_text

        return from_text(RunRecord, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(RunRecord, Generic[Output_co]):
    """A run that has its answer."""

    output: Output_co
    """The answer, as the agent's output type."""
    text: str
    """The answer, as the model wrote it."""
    finish: FinishReason
    """`length` means that the answer was cut off at the token limit."""

    @overload
    @staticmethod
    def from_json(text: str | bytes) -> RunResult[Any]: ...

    @overload
    @staticmethod
    def from_json(text: str | bytes, output_type: type[Output]) -> RunResult[Output]: ...

    @staticmethod
    def from_json(text: str | bytes, output_type: Any = None) -> RunResult[Any]:
        """Rebuild a result.

        Args:
            text: what `to_json` returned.
            output_type: makes the output again; without it, and in runs below, an output is plain
                JSON: lists, dicts, text.

        Raises:
            FormatError: the text is damaged, something else, or of another version's format; or
                the output does not fit the type.
        """
        from agentkit.saved_json import from_text, output_from_json

        result: RunResult[Any] = from_text(RunResult, text)
        if output_type is None:
            return result
        return replace(result, output=output_from_json(output_type, result.text, result.output))


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
    if isinstance(error, RestoredFailure):
        return str(error)
    try:
        text = str(error)
    except Exception:  # its own fault: that must not hide what it was raised for
        text = "(its text cannot be shown)"
    return printable(f"{type(error).__name__}: {text}")


Outcome: TypeAlias = Ok | Failed
