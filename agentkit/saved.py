"""A run as data: what another process needs to go on with it.

A `SavedRun` is a value. The loop makes one after every step; a journal (`agentkit.journal`) keeps
what is new in it, and a pause hands out those of the whole tree as `PausedRun`. Their JSON form is
in `agentkit.saved_json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from agentkit.blocks import AssistantMessage, Message, ToolCall, ToolResult, printable
from agentkit.caching.report import RequestRecord
from agentkit.context import Context
from agentkit.context.segment import tool_names
from agentkit.errors import ConfigurationError, FormatError
from agentkit.events import FinishReason
from agentkit.toolset.caller import Accept, Question
from agentkit.usage import Usage

Status: TypeAlias = Literal["running", "paused", "done", "failed", "cancelled"]
"""`cancelled`: it was ended from outside, in good order. What is `running` and has no process was
not: what it was doing when that ended, nobody has written down."""

NOT_IN_JSON = "agentkit not in JSON"
"""Key in the metadata of fields that are of no use in another process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is known of a conversation at the end of a run, and its context does not say."""

    length: Usage | None
    """Tokens of the last request; None: not known, as at the beginning of an epoch."""
    epoch: int
    version: int | None
    seen: frozenset[str]
    active: str | None = None
    """Who goes on after a handoff; None: who began."""
    prepared_turn: int | None = None
    """The turn for which the context has everything that comes before it, such as what hooks say;
    None: there is none yet."""
    user: str = ""
    """Whose conversation it is; empty: nobody's in particular."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Tool results that the context shows in part, whole, by handle. Handles are digests: a journal
    can keep each text once."""
    told_tools: Mapping[str, str] = field(default_factory=dict)
    """By server: digest of the list that the conversation was last told of (`ToolsChanged`)."""


@dataclass(frozen=True, slots=True, init=False)
class Approve:
    """A person agrees to a call."""

    arguments: str | None
    """JSON text to run it with in place of the model's; the model is told so."""
    kind: Literal["approve"] = field(default="approve", init=False)

    def __init__(self, arguments: str | Mapping[str, object] | None = None) -> None:
        """Agree, with the model's arguments or with others: a dict, or the JSON text of one."""
        text = _object_text(arguments)
        if text is not None and not _is_object(text):
            raise ConfigurationError(
                "Approve(arguments=...) must be a dict or the JSON text of an object, or None for "
                f"the model's own; got {arguments!r:.200}"
            )
        object.__setattr__(self, "arguments", text)
        object.__setattr__(self, "kind", "approve")


@dataclass(frozen=True, slots=True)
class Deny:
    """A person does not agree: the model is told why, and the call is not run."""

    reason: str = ""
    kind: Literal["deny"] = field(default="deny", init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise ConfigurationError(
                f"Deny(reason) takes a text for the model, got {self.reason!r:.200}"
            )
        object.__setattr__(self, "reason", printable(self.reason))


@dataclass(frozen=True, slots=True)
class Answered:
    """Somebody else has run the call: this is its result."""

    content: str
    is_error: bool = False
    kind: Literal["answered"] = field(default="answered", init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.content, str):
            raise ConfigurationError(
                "Answered(content) takes the result as text, as the model is to read it; got "
                f"{self.content!r:.200}"
            )
        if not isinstance(self.is_error, bool):
            raise ConfigurationError(
                f"Answered(is_error=...) must be True or False, got {self.is_error!r:.200}"
            )
        object.__setattr__(self, "content", printable(self.content))


Answer: TypeAlias = Approve | Deny | Answered | Accept
"""What a person says to a call that waits: for approval, or for the answer to a question."""


def _object_text(arguments: object) -> Any:
    """Return the JSON text of a dict; what is none, as it is."""
    try:
        return json.dumps(arguments) if isinstance(arguments, Mapping) else arguments
    except (TypeError, ValueError, RecursionError):
        return arguments


def _is_object(text: str) -> bool:
    try:
        text.encode()  # a lone surrogate has no bytes to be kept as
        return isinstance(json.loads(text), dict)
    except (AttributeError, TypeError, ValueError, RecursionError):
        return False


def checked_answer(answer: object) -> Answer | None:
    """Return the answer to a call; None if there is none yet.

    Raises:
        ConfigurationError: it is something else.
    """
    if answer is None or isinstance(answer, Approve | Deny | Answered):
        return answer
    raise ConfigurationError(
        f"the answer to a call must be Approve(), Deny(reason) or Answered(content), got {answer!r}"
    )


def checked_values(question: Question, answer: object) -> Accept | Deny | Answered | None:
    """Return the answer to a question of a server; None if there is none yet.

    Raises:
        ConfigurationError: it is something else, or its values do not fit the question.
    """
    if answer is None or isinstance(answer, Deny | Answered):
        return answer
    if not isinstance(answer, Accept):
        raise ConfigurationError(
            "the answer to a question must be Accept(values), Deny(reason) or Answered(content), "
            f"not a {type(answer).__name__}"
        )
    if (problem := question.problem_with(answer.content)) is not None:
        raise ConfigurationError(
            f"the values for the question of MCP server {question.server!r} do not fit: {problem}"
        )
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Where a call goes on once a question of its server has an answer."""

    question: Question
    kept: str
    """What the call needs for that."""
    arguments: str | None
    """What it runs with in place of the model's arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTurn:
    """A turn of the model whose calls have not all been answered."""

    message: AssistantMessage
    results: Mapping[str, ToolResult]
    """Of the calls that are done, by call id."""
    started: frozenset[str]
    """Ids of calls that were begun; without a result, nobody knows what they have done."""
    waiting: frozenset[str] = frozenset()
    """Ids of calls that wait for a person, here or in a run below."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """What people have said to calls that waited, by call id."""
    asked: Mapping[str, Asked] = field(default_factory=dict)
    """What calls that wait for an answer have asked, by call id."""

    @property
    def n_counted(self) -> int:
        """Calls that limits know: one that was refused was not begun, and was made all the same."""
        return len(self.started | self.results.keys())


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEnd:
    """How a run ended."""

    text: str = ""
    """The answer, as the model wrote it."""
    finish: FinishReason = "stop"
    error: str | None = None
    """Type and text of what ended it, also of a cancellation; None: it has its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBack:
    """What a run goes back to if the model refuses the epoch in which it is asked next."""

    context: Context
    """As it would be now without that epoch."""
    n_old_messages: int
    """As in the run, for this context."""
    n_said: int
    """How much of the run's `said_before` was said in the epochs before this context's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRun:
    """One run after a step."""

    run_id: str
    parent: str | None
    """The run above, if any."""
    call_id: str | None
    """The call of the run above that began it."""
    number: int = 0
    """How many runs the run above had begun before it."""
    under: str = ""
    """Who was active in the run above, where that had been handed over; empty: who began that."""
    path: tuple[str, ...]
    agent: str
    """Name of the agent that began it."""
    session: str
    tenant: str
    user: str
    """Whose data it holds, for `delete`; empty: nobody's in particular."""
    prompt: str
    """The task, as text."""
    status: Status
    context: Context
    """Valid: every call in it has its result. Without the open turn."""
    turn: int
    """Number of the open turn, or of the next one."""
    open_turn: SavedTurn | None
    n_repairs: int
    memory: Memory
    n_old_messages: int
    """Messages of the context that were there before this run, or that stand for others."""
    said_before: tuple[Message, ...]
    """What the run added in the epochs before this one."""
    way_back: WayBack | None = None
    """Where no model has answered in the context's epoch yet, and may refuse it."""
    requests: tuple[RequestRecord, ...]
    """Its own, without those of runs below."""
    end: SavedEnd | None
    began_at: float
    """Seconds since 1970."""
    total_s: float
    """How long it has run, all processes together."""
    taken_over_s: Mapping[str, float] = field(default_factory=dict)
    """By agents with limits that have taken over: how long it had run when they did so first."""
    claim: str = field(default="", compare=False, repr=False, metadata={NOT_IN_JSON: True})
    """By which right it is saved: whoever begins a run or claims it has one that nobody else has.
    It says nothing of the run, so runs that differ in it only are equal."""

    def to_json(self) -> str:
        """Return the run as JSON text; `from_json` gives back an equal one."""
        from agentkit.saved_json import to_text

        return to_text(self)

    @staticmethod
    def from_json(text: str | bytes) -> SavedRun:
        """Rebuild a run.

        Raises:
            FormatError: the text is damaged, something else, or of another version's format.
        """
        from agentkit.saved_json import from_text

        return from_text(SavedRun, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A call that waits for a person."""

    run_id: str
    path: tuple[str, ...]
    """From the root agent's name to that of the agent that made the call."""
    turn: int
    """Number of the turn within its run, from 0."""
    call: ToolCall
    question: Question | None = None
    """What its server asks, where it was agreed to already; None: whether it may run."""

    @property
    def id(self) -> str:
        """What to answer by: run, turn and call.

        Ids of calls are unique within their turn only: some servers number them from 0 in each.
        """
        return f"{self.run_id}:{self.turn}:{self.call.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedRun:
    """A run that waits, with everything below it. Resume it in any process:

    agent.resume(paused, {paused.pending[0].id: Approve()})
    """

    runs: tuple[SavedRun, ...]
    """The root first; also the runs below that have ended."""

    def to_json(self) -> str:
        """Return it as JSON text, to be resumed in another process. It holds all that was said."""
        from agentkit.saved_json import to_text

        return to_text(self)

    @staticmethod
    def from_json(text: str | bytes) -> PausedRun:
        """Rebuild a paused run.

        Raises:
            FormatError: the text is damaged, something else, or of another version's format.
        """
        from agentkit.saved_json import from_text

        paused = from_text(PausedRun, text)
        if not paused.runs:
            raise FormatError("a paused run has no runs in it")
        return paused

    @property
    def run_id(self) -> str:
        """The root's."""
        return self.runs[0].run_id

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls to answer, in the order of the runs and of their calls.

        None for a run that was paused between two turns.
        """
        return tuple(
            PendingCall(
                run_id=run.run_id,
                path=run.path,
                turn=run.turn,
                call=_asked_about(run, call),
                question=_question(run.open_turn, call),
            )
            for run in self.runs
            if run.open_turn is not None
            for call in run.open_turn.message.calls
            if call.id in run.open_turn.waiting and not self._is_below(run, call)
        )

    def _is_below(self, above: SavedRun, call: ToolCall) -> bool:
        """Whether a call waits because a run that it began does."""
        return any(
            run.parent == above.run_id and run.call_id == call.id and run.status == "paused"
            for run in self.runs
        )


def _question(turn: SavedTurn, call: ToolCall) -> Question | None:
    asked = turn.asked.get(call.id)
    return None if asked is None else asked.question


Answers: TypeAlias = Mapping[str, Answer]
"""Answers by `PendingCall.id`.

The call's own id will do, alone or behind its run's and a colon, where it is clear: it is that of
no other call that waits, nor of an earlier call of the run.
"""


def answers_by_run(paused: PausedRun, answers: Answers) -> Mapping[str, Mapping[str, Answer]]:
    """Return the answers by run id and call id.

    Raises:
        ConfigurationError: one answers no pending call, or could be meant for several.
    """
    found: dict[str, dict[str, Answer]] = {}
    for key, answer in answers.items():
        meant = _meant(paused, key)
        if meant.question is None:
            checked_answer(answer)
        else:
            checked_values(meant.question, answer)
        found.setdefault(meant.run_id, {})[meant.call.id] = answer
    return found


def _meant(paused: PausedRun, key: str) -> PendingCall:
    """Return the pending call that a key is of.

    An answer that is delivered twice must not reach the next call, which nobody has seen.
    """
    pending = paused.pending
    for each in pending:
        if key == each.id:
            return each
    short = [each for each in pending if key in (each.call.id, f"{each.run_id}:{each.call.id}")]
    if len(short) == 1 and not _is_used_before(paused, short[0]):
        return short[0]
    what = "several calls" if short else "no pending call"
    raise ConfigurationError(
        f"the answer for {key!r} fits {what}; those that wait are {[each.id for each in pending]!r}"
    )


def _asked_about(run: SavedRun, call: ToolCall) -> ToolCall:
    """Return what a person is asked about: the found tool, and not the one that it is called by."""
    from agentkit.finding import FIND_TOOLS, meant

    finds = any(FIND_TOOLS in tool_names(each) for each in run.context.front)
    return meant(call) if finds else call


def _is_used_before(paused: PausedRun, pending: PendingCall) -> bool:
    """Whether an earlier call of the run has the same id."""
    run = next(each for each in paused.runs if each.run_id == pending.run_id)
    return any(
        call.id == pending.call.id
        for message in (*run.said_before, *run.context.messages)
        if isinstance(message, AssistantMessage)
        for call in message.calls
    )
