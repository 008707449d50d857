"""Handoffs: the conversation goes on under another agent, behind the same prefix.

The call of the tool is what hands over: it and its result are part of the context, so that the
conversation itself says who goes on. `hand_over` acts on it between two turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentkit.blocks import AssistantMessage, Message, ToolCall, ToolMessage, ToolResult
from agentkit.caching.tokens import data_tokens
from agentkit.events import HandedOff
from agentkit.team.delegate import summary_of
from agentkit.team.joining import arrival, joined
from agentkit.toolset import ToolContext, ToolOutput, ToolPolicy, ToolSpec
from agentkit.toolset.execute import parse_arguments

if TYPE_CHECKING:
    from agentkit.context import Context
    from agentkit.saved import Memory
    from agentkit.state import RunState

_PREFIX = "handoff_to_"
_POLICY = ToolPolicy(idempotent=True)


class Handoff:
    """The tool `handoff_to_<name>`. Of several in one turn only the first that can hands over.

    A hook that answers such a call otherwise (`before_tool`, `after_tool`) keeps it from happening.
    """

    def __init__(self, name: str, role: str) -> None:
        self._name = name
        self._spec = ToolSpec(
            name=f"{_PREFIX}{name}",
            description=(
                f"Hand the conversation over to the agent {name!r}, who goes on with it in your "
                f"place and knows all that was said.{summary_of(role)}"
            ),
            parameters={
                "type": "object",
                "properties": {
                    "note": {
                        "type": "string",
                        "description": "What it should know beside the conversation, if anything.",
                    }
                },
                "additionalProperties": False,
            },
            source=f"handoff to {name!r}",
        )

    @property
    def spec(self) -> ToolSpec:
        """The pinned spec."""
        return self._spec

    @property
    def policy(self) -> ToolPolicy:
        """A call does nothing by itself, so it may be run again."""
        return _POLICY

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        """Agree to the handoff; it happens when all calls of the turn have their results."""
        from agentkit.state import RunContext

        if not _are_right(arguments):
            return ToolOutput.error(
                f'Give at most one argument "note", a text; got {dict(arguments)!r:.200}.'
            )
        if not isinstance(context, RunContext) or context.run.open is None:
            return ToolOutput.error(f"{self._spec.name} works only inside the run of an agent.")
        own = context.run.member.own_tools
        fitting = (call.id for call in context.run.open.message.calls if _fits(call, own))
        if next(fitting, context.call_id) != context.call_id:
            return ToolOutput.error("A conversation is handed over once in a turn; see the other.")
        return ToolOutput(content=_agreed(self._name))

    def __repr__(self) -> str:
        return f"<handoff tool of {self._name!r}>"


def hand_over(run: RunState) -> HandedOff | None:
    """Go on under another agent, if the turn before says so. Returns the event then."""
    last = next(reversed(run.context), None) if run.member.desk else None
    message = None if last is None else last.content
    agreed = _agreement(message, run.member.desk) if isinstance(message, ToolMessage) else None
    if agreed is None:
        return None
    to = agreed.name.removeprefix(_PREFIX)
    before, member = run.member, joined(run.member, run.member.desk[to])
    event = HandedOff(
        turn=run.turn,
        agent=before.name,
        to=to,
        note=_note(run.context.messages[-2], agreed),
        unread_tokens=0 if member.model is before.model else _n_tokens(run.context),
    )
    run.take_over(member)
    run.context = run.context.append(arrival(run))
    return event


def go_on(
    run: RunState, memory: Memory | None, old: Sequence[Message], new: Sequence[Message]
) -> None:
    """Let a conversation that was handed over before go on with whom it was handed to.

    Args:
        run: of the agent that has begun the conversation.
        memory: what is known of it; without it, its messages tell.
        old: what was said before the run.
        new: what was said in it so far, by another process.
    """
    desk = run.member.desk
    if not desk:
        return
    # A handoff in the last message is acted on by `hand_over`, which also says so.
    active = _last_target([*old, *new][:-1], desk) if memory is None else memory.active
    run.count_turns(*_turns_and_calls(new, _last_target(old, desk) or run.member.name, desk))
    if active is not None and active in desk and active != run.member.name:
        run.take_over(joined(run.member, desk[active]))


def _turns_and_calls(
    messages: Iterable[Message], began: str, desk: Collection[str]
) -> tuple[Counter[str], Counter[str]]:
    """Return how many turns and calls each agent has made."""
    turns, calls, active = Counter[str](), Counter[str](), began
    for message in messages:
        if isinstance(message, AssistantMessage):
            turns[active] += 1
            calls[active] += len(message.calls)
        elif isinstance(message, ToolMessage):
            active = _target(message, desk) or active
    return turns, calls


def _last_target(messages: Iterable[Message], desk: Collection[str]) -> str | None:
    targets = (_target(each, desk) for each in messages if isinstance(each, ToolMessage))
    return next((name for name in reversed(list(targets)) if name is not None), None)


def _target(message: ToolMessage, desk: Collection[str]) -> str | None:
    """Return to whom a turn with these results has handed over."""
    agreed = _agreement(message, desk)
    return None if agreed is None else agreed.name.removeprefix(_PREFIX)


def _agreement(message: ToolMessage, desk: Collection[str]) -> ToolResult | None:
    """Return the result that hands over to somebody of the desk."""
    return next((result for result in message.results if _hands_over(result, desk)), None)


def _hands_over(result: ToolResult, desk: Collection[str]) -> bool:
    name = result.name.removeprefix(_PREFIX)
    is_handoff = result.name != name and name in desk
    return is_handoff and not result.is_error and result.content == _agreed(name)


def _fits(call: ToolCall, own_tools: Collection[str]) -> bool:
    """Whether a call asks for a handoff that can happen. What is wrong with others, they say."""
    if not call.name.startswith(_PREFIX) or call.name not in own_tools:
        return False
    try:
        return _are_right(parse_arguments(call.arguments))
    except ValueError:
        return False


def _are_right(arguments: Mapping[str, object]) -> bool:
    return isinstance(arguments.get("note", ""), str) and arguments.keys() <= {"note"}


def _agreed(name: str) -> str:
    return f"The conversation goes on with the agent {name!r}."


def _note(message: Message, agreed: ToolResult) -> str:
    """Return the note of the call with this result, as the model wrote it."""
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    arguments = next((call.arguments for call in calls if call.id == agreed.call_id), "")
    try:
        note = parse_arguments(arguments).get("note", "")
    except ValueError:  # a hook or a person has put others in their place
        return ""
    return note if isinstance(note, str) else ""


def _n_tokens(context: Context) -> int:
    return sum(data_tokens(segment.data) for segment in context)
