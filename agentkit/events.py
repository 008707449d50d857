"""What a run says while it happens, and how a model's events become a turn.

A model's stream is `ModelEvent`s: deltas, usage, and one `ModelEnd`. A run's stream is those, and
what the loop adds. Streaming is the only path: `run()` folds the stream, it does not ask the model
differently.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

from agentkit.blocks import (
    AssistantBlock,
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    VendorItem,
    printable,
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


def fold(events: Iterable[ModelEvent]) -> Turn:
    """Return the turn that a complete stream adds up to. Pure; how deltas are cut is no matter.

    Raises:
        ModelError: the stream was cut off (retryable) or breaks the protocol.
    """
    builder = TurnBuilder()
    for event in events:
        builder.push(event)
    return builder.finish()


class TurnBuilder:
    """`fold`, one event at a time. Cost is linear in the length of the stream."""

    def __init__(self) -> None:
        self._blocks: list[_TextParts | _CallParts | _Item] = []
        self._calls: dict[int, _CallParts] = {}
        self._usage = Usage()
        self._timing = Timing()
        self._first: Usage | None = None
        self._verdict: Verdict | None = None
        self._model: str | None = None
        self._end: FinishReason | None = None

    def push(self, event: ModelEvent) -> None:
        """Add the next event.

        Raises:
            ModelError: it cannot come here.
        """
        if self._end is not None:
            raise ModelError(f"the model sent {event!r} after its end")
        match event:
            case TextDelta():
                self._text("text").add(event.text)
            case ThinkingDelta():
                parts = self._text("thinking")
                parts.add(event.text)
                parts.signature = event.signature or parts.signature
                parts.source = event.source or parts.source
            case VendorItemEvent():
                self._blocks.append(_Item(event))
            case ToolCallStarted():
                self._start_call(event)
            case ToolCallArguments():
                self._call(event).arguments.append(event.text)
            case UsageEvent():
                self._usage = self._usage.merge(event.usage)
                self._first = event.first or self._first
                self._model = event.model or self._model
                self._timing = self._timing.merge(event.timing)
            case CacheEvent():
                self._verdict = event.verdict
            case ModelEnd():
                self._end = event.finish
            case _:
                assert_never(event)

    @property
    def spent(self) -> tuple[Usage, Timing]:
        """What is known of the request's cost so far, also if it never ends well."""
        return self._usage, self._timing

    @property
    def verdict(self) -> Verdict | None:
        """What the cache did, if the model has said so."""
        return self._verdict

    @property
    def model(self) -> str | None:
        """Who answers, where it is not the model that was asked."""
        return self._model

    @property
    def n_bytes(self) -> int:
        """How much the model has written so far, thinking included."""
        return sum(parts.n_bytes for parts in self._blocks)

    def finish(self) -> Turn:
        """Return the turn.

        Raises:
            ModelError: the stream has no `ModelEnd` yet.
        """
        if self._end is None:
            error = ModelError("the model's stream was cut off before its end", retryable=True)
            error.response_began = True
            raise error
        blocks = [parts.block() for parts in self._blocks]
        return Turn(
            message=AssistantMessage(tuple(block for block in blocks if block is not None)),
            finish=self._end,
            usage=self._usage,
            timing=self._timing,
            verdict=self._verdict,
            first=self._first,
            model=self._model,
        )

    def _text(self, kind: Literal["text", "thinking"]) -> _TextParts:
        last = self._blocks[-1] if self._blocks else None
        # A signature closes its thinking block: what follows is a new one.
        if isinstance(last, _TextParts) and last.kind == kind and last.signature is None:
            return last
        parts = _TextParts(kind)
        self._blocks.append(parts)
        return parts

    def _start_call(self, event: ToolCallStarted) -> None:
        if event.index in self._calls:
            raise ModelError(f"the model started call {event.index!r} twice")
        if any(call.id == event.id for call in self._calls.values()):
            raise ModelError(f"the model gave two calls of one turn the same id {event.id!r}")
        self._calls[event.index] = parts = _CallParts(event.id, event.name)
        self._blocks.append(parts)

    def _call(self, event: ToolCallArguments) -> _CallParts:
        if event.index not in self._calls:
            raise ModelError(f"the model sent arguments of call {event.index!r} before its start")
        return self._calls[event.index]


class _TextParts:
    """A text or thinking block that still grows."""

    def __init__(self, kind: Literal["text", "thinking"]) -> None:
        self.kind = kind
        self.signature: str | None = None
        self.source: str | None = None
        self._parts: list[str] = []

    def add(self, text: str) -> None:
        self._parts.append(text)

    @property
    def n_bytes(self) -> int:
        return sum(len(text.encode(errors="replace")) for text in self._parts)

    def block(self) -> AssistantBlock | None:
        text = printable("".join(self._parts))
        if self.kind == "thinking":
            there = text or self.signature
            return Thinking(text, self.signature, self.source) if there else None
        return Text(text) if text else None


class _Item:
    """A vendor's item, which comes whole."""

    def __init__(self, event: VendorItemEvent) -> None:
        self._event = event

    @property
    def n_bytes(self) -> int:
        return len(self._event.data.encode(errors="replace"))

    def block(self) -> AssistantBlock:
        return VendorItem(source=self._event.source, data=printable(self._event.data))


class _CallParts:
    """A tool call that still grows."""

    def __init__(self, call_id: str, name: str) -> None:
        self.id = call_id
        self.name = name
        self.arguments: list[str] = []

    @property
    def n_bytes(self) -> int:
        return sum(len(text.encode(errors="replace")) for text in self.arguments)

    def block(self) -> AssistantBlock:
        return ToolCall(
            id=printable(self.id),
            name=printable(self.name),
            arguments=printable("".join(self.arguments)),
        )
