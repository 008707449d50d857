"""Runs as the loop would save them, made by hand."""

from __future__ import annotations

from dataclasses import replace

from agentkit.blocks import AssistantMessage, Text, UserMessage
from agentkit.caching.report import RequestRecord
from agentkit.context import Context, SystemPart, SystemText
from agentkit.saved import Memory, SavedRun, WayBack
from agentkit.usage import Timing, Usage

FRONT = Context(SystemText(SystemPart.RULES, "Be exact."), SystemText(SystemPart.ROLE, "You add."))


def begun(run_id: str = "r", *, context: Context = FRONT, **fields: object) -> SavedRun:
    """A run after its first step."""
    run = SavedRun(
        run_id=run_id,
        parent=None,
        call_id=None,
        path=("adder",),
        agent="adder",
        session=run_id,
        tenant="",
        user="",
        prompt="Add.",
        status="running",
        context=context.append(UserMessage.of("Add.")),
        turn=0,
        open_turn=None,
        n_repairs=0,
        memory=Memory(length=None, epoch=0, version=None, seen=frozenset()),
        n_old_messages=len(context.messages),
        said_before=(),
        requests=(),
        end=None,
        began_at=1000.0,
        total_s=0.0,
    )
    return replace(run, **fields)  # type: ignore[arg-type]


def after_turn(run: SavedRun, answer: str = "", **fields: object) -> SavedRun:
    """The run after one more turn."""
    said = AssistantMessage((Text(answer or f"Turn {run.turn}."),))
    request = RequestRecord(
        path=run.path,
        model="m",
        usage=Usage(input_tokens=100, cache_read_tokens=80, output_tokens=3),
        timing=Timing(),
    )
    later = replace(
        run,
        context=run.context.append(said, UserMessage.of("More.")),
        turn=run.turn + 1,
        requests=(*run.requests, request),
        total_s=run.total_s + 1.0,
    )
    return replace(later, **fields)  # type: ignore[arg-type]


def in_new_epoch(run: SavedRun, told: str = "Told instead.") -> SavedRun:
    """The run in an epoch that the model may refuse; what it is told in the one before, then."""
    way = WayBack(
        context=run.context.append(UserMessage.of(told)),
        n_old_messages=run.n_old_messages,
        n_said=len(run.said_before),
    )
    said = (*run.said_before, *run.context.messages[run.n_old_messages :])
    context = FRONT.append(UserMessage.of(f"A summary of {run.run_id}."))
    return replace(run, context=context, n_old_messages=1, said_before=said, way_back=way)


def below(run: SavedRun, run_id: str, **fields: object) -> SavedRun:
    """A run that a call of another one has begun."""
    below = begun(run_id, parent=run.run_id, call_id="c", session=run.session, user=run.user)
    return replace(below, path=(*run.path, "digger"), agent="digger", **fields)  # type: ignore[arg-type]
