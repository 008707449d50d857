"""What a run says while it happens; `folding` makes a turn of a model's events.

A model's stream is `ModelEvent`s: deltas, usage, and one `ModelEnd`. A run's stream is those, and
what the loop adds. Streaming is the only path: `run()` folds the stream, it does not ask the model
differently.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, TypeAlias

from agentkit.blocks import (
    AssistantMessage,
    ToolResult,
)
from agentkit.errors import ModelError
from agentkit.usage import Timing, Usage

if TYPE_CHECKING:
    from agentkit.caching.iterations import ModelUsage
    from agentkit.caching.verdict import Verdict
    from agentkit.result import RunResult
    from agentkit.saved import PausedRun

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls"]
"""Why a model's turn ended: by itself, at the token limit, or to have tools called."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the visible answer."""

    text: str
    kind: Literal["text_delta"] = field(default="text_delta", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    """More of the model's reasoning."""

    text: str
    signature: str | None = None
    """Given with the last delta of a thinking block, by providers that sign."""
    source: str | None = None
    """Label of the model, where the block must be replayed to it."""
    kind: Literal["thinking_delta"] = field(default="thinking_delta", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorItemEvent:
    """A vendor's own item, complete; see `agentkit.blocks.VendorItem`."""

    source: str
    data: str
    kind: Literal["vendor_item"] = field(default="vendor_item", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """The model began to call a tool. Its name is final, its arguments follow."""

    index: int
    """Number of the call within its turn, from 0."""
    id: str
    name: str
    kind: Literal["tool_call_started"] = field(default="tool_call_started", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallArguments:
    """More argument text of call `index`."""

    index: int
    text: str
    kind: Literal["tool_call_arguments"] = field(default="tool_call_arguments", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageEvent:
    """What is known of the request so far. A later event refines an earlier one, field by field."""

    usage: Usage
    timing: Timing = field(default_factory=Timing)
    cache_note: str | None = None
    """What the vendor's own diagnostics say about a cache miss."""
    first: Usage | None = None
    """Where a provider made several requests of this one: the first, that was planned for.

    `usage` is then the sum over all that the model itself was asked; None: there was just one.
    """
    parts: tuple[ModelUsage, ...] = ()
    """All others beside `first`, also of other models (advisors, fallbacks), to be billed."""
    model: str | None = None
    """Label of who answers, where it is not the model that was asked, as with `FallbackModel`."""
    kind: Literal["usage"] = field(default="usage", init=False)


@dataclass(frozen=True, slots=True)
class CacheEvent:
    """What the cache did for the request, against what was planned; comes before `ModelEnd`."""

    verdict: Verdict
    kind: Literal["cache"] = field(default="cache", init=False)


@dataclass(frozen=True, slots=True)
class ModelEnd:
    """The last event of a model's stream. A stream that ends without one was cut off."""

    finish: FinishReason
    kind: Literal["model_end"] = field(default="model_end", init=False)


ModelEvent: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | VendorItemEvent
    | ToolCallStarted
    | ToolCallArguments
    | UsageEvent
    | CacheEvent
    | ModelEnd
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One complete turn of a model."""

    message: AssistantMessage
    finish: FinishReason
    usage: Usage
    timing: Timing
    verdict: Verdict | None = None
    """What the cache did, by adapters that plan for one."""
    first: Usage | None = None
    """Of the first request, where the provider made several of this turn; see `UsageEvent`."""
    model: str | None = None
    """Label of who answered, where it is not the model that was asked."""

    @property
    def length(self) -> Usage:
        """How long the conversation was: one prompt and the answer, and not all prompts' sum."""
        if self.first is None:
            return self.usage
        return replace(self.first, output_tokens=self.usage.output_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The run begins, or goes on. The first event."""

    run_id: str
    agent: str
    """Who is asked first."""
    kind: Literal["run_started"] = field(default="run_started", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """The model's turn is complete and part of the context."""

    index: int
    """Number of the turn within its run, from 0."""
    turn: Turn
    kind: Literal["turn_end"] = field(default="turn_end", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDropped:
    """The model failed mid-turn and is asked again: forget the deltas since the last `TurnEnd`."""

    index: int
    error: ModelError
    wait_s: float
    """Seconds until the next attempt."""
    kind: Literal["turn_dropped"] = field(default="turn_dropped", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRejected:
    """What the model said in the turn that has just ended is not the run's answer: forget its text.

    It does not fit the output type, or a check or a guard refused it. The model is asked again; the
    turn stays part of the context. Where that was the last try the run fails, without this event.
    """

    index: int
    """Number of the turn within its run, from 0."""
    reason: str
    """What the model is told."""
    kind: Literal["answer_rejected"] = field(default="answer_rejected", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted:
    """The conversation was begun anew: a new epoch.

    From a summary of itself and with the same front, or with the newest documents in front and the
    same history. It comes between two turns. The request for a summary is one of the run's
    requests; what the model said in it is told by no event.
    """

    turn: int
    """Number of the turn that is asked next, from 0."""
    tokens_before: int
    tokens_after: int
    """Estimated; what the next request reports is exact."""
    cause: Literal["length", "documents", "front"] = "length"
    """What made it worth it: the conversation was too long, or its documents have changed; or its
    agent has (`on_front_change`), so that it cannot go on otherwise."""
    reason: str
    advice: str | None = None
    """A way of the provider's own that would cost less; the adapter's options turn it on."""
    kind: Literal["context_compacted"] = field(default="context_compacted", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOff:
    """The conversation goes on under another agent, behind the same prefix. Between two turns."""

    turn: int
    """Number of the turn that is asked next, from 0: the other agent's first."""
    agent: str
    """Who has handed it over."""
    to: str
    """Who goes on."""
    note: str
    """What the one has told the other beside the conversation; often empty."""
    unread_tokens: int
    """What the other's model has to compute or write anew, by estimate, because it is another
    model; 0 with the same one. The run's report has what it did cost."""
    kind: Literal["handed_off"] = field(default="handed_off", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsChanged:
    """An MCP server offers other tools than the conversation was shown. Between two turns.

    What was sent stays as it is. Calls of removed tools are answered with an error that says so;
    changed ones keep the old description here, and are called as they are now.
    """

    turn: int
    """Number of the turn that is asked next, from 0."""
    server: str
    """Its alias."""
    added: tuple[str, ...] = ()
    """Final names, as in the two below."""
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Another description or other parameters."""
    is_shown: bool = False
    """Whether the model has what was added from this turn on, behind what was sent. Else a new
    epoch has it."""
    tokens: int
    """What a new epoch with the tools of now would write anew, by estimate."""
    usd: Decimal | None
    """What the next request would cost more by that; None: the price is not known."""
    details: str = ""
    """How descriptions and parameters differ, line by line. The server's words: untrusted."""
    kind: Literal["tools_changed"] = field(default="tools_changed", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFailed:
    """An MCP server that is not required cannot be used; the run goes on without it.

    Its tools are those of the last list that was kept, if there is one.
    """

    turn: int
    """Number of the turn that is asked next, from 0."""
    server: str
    """Its alias."""
    problem: str
    """What went wrong, with the end of what it wrote to stderr."""
    kind: Literal["server_failed"] = field(default="server_failed", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    """A call says how far it is. The model never reads it."""

    call_id: str
    name: str
    """Of the tool."""
    done: float
    """How much is done, in the tool's own unit."""
    total: float | None
    """How much there is in all; None: not known."""
    message: str
    """What happens now, in the tool's own words; often empty."""
    kind: Literal["tool_progress"] = field(default="tool_progress", init=False)


@dataclass(frozen=True, slots=True)
class ToolResultEvent:
    """A tool answered. Results come as they are ready; the context has them in call order."""

    result: ToolResult
    kind: Literal["tool_result_event"] = field(default="tool_result_event", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentEvent:
    """An event of an agent below. Never nested: one three levels down has a path of four names."""

    path: tuple[str, ...]
    """From the root agent's name to that of the agent whose event it is."""
    run_id: str
    """Tells runs apart that have the same path."""
    event: OwnEvent
    kind: Literal["subagent"] = field(default="subagent", init=False)


@dataclass(frozen=True, slots=True)
class RunPaused:
    """The run stopped, and can be resumed. The last event.

    Between two turns because `RunStream.pause` was called, or because calls wait for a person.
    """

    turns: int
    """Turns that were completed."""
    paused: PausedRun | None = field(default=None, compare=False)
    """What to resume; `paused.pending` are the calls that wait."""
    kind: Literal["run_paused"] = field(default="run_paused", init=False)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The run has its answer. The last event."""

    result: RunResult[object]
    kind: Literal["run_end"] = field(default="run_end", init=False)


OwnEvent: TypeAlias = (
    RunStarted
    | ModelEvent
    | TurnEnd
    | TurnDropped
    | AnswerRejected
    | ContextCompacted
    | HandedOff
    | ToolsChanged
    | ServerFailed
    | ToolProgress
    | ToolResultEvent
    | RunPaused
    | RunEnd
)
"""An event of one run itself."""
Event: TypeAlias = OwnEvent | SubagentEvent
"""An event of a run or of any run below it."""
