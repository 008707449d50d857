"""Events as JSON, for user interfaces: a line for each, over whatever carries lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from agentkit.events import Event, RunEnd, RunPaused, SubagentEvent, TurnDropped
from agentkit.json_values import jsonable
from agentkit.result import failure_text

if TYPE_CHECKING:
    from agentkit.blocks import Json
    from agentkit.saved import PendingCall


def event_to_json(event: Event) -> dict[str, Json]:
    """Return a JSON object with the event's fields; `kind` says which event it is.

    What is long and has a JSON form of its own is told by what an interface shows of it: of a
    result the answer and what it cost, of a paused run the calls that wait. To keep those, use
    `RunResult.to_json` and `PausedRun.to_json`. An output must have a JSON form, as pydantic makes
    it.
    """
    return {"kind": event.kind, **_fields(event)}


def _fields(event: Event) -> dict[str, Json]:
    match event:
        case SubagentEvent():
            return {
                "path": list(event.path),
                "run_id": event.run_id,
                "event": event_to_json(event.event),
            }
        case RunEnd(result):
            return {
                "run_id": result.run_id,
                "output": jsonable(result.output),
                "text": result.text,
                "finish": result.finish,
                "total_s": result.total_s,
                "cache": result.cache.to_json(),
            }
        case RunPaused(turns, paused):
            pending = () if paused is None else paused.pending
            return {
                "turns": turns,
                "run_id": None if paused is None else paused.run_id,
                "pending": [
                    {
                        "id": each.id,
                        "path": list(each.path),
                        "name": each.call.name,
                        "arguments": each.call.arguments,
                        **_asked(each),
                    }
                    for each in pending
                ],
            }
        case TurnDropped():
            return {
                "index": event.index,
                "error": failure_text(event.error),
                "wait_s": event.wait_s,
            }
        case _:
            return cast("dict[str, Json]", jsonable(event))


def _asked(pending: PendingCall) -> dict[str, Json]:
    """What its server asks, where a call waits for that and not for approval."""
    question = pending.question
    return {} if question is None else {"question": jsonable(question)}
