"""JSON forms of runs: lossless, equal for equal runs, and readable in other processes.

A context is kept as the lines of `Context.dump()`, so its bytes, and so every later request, are
those of before. Runs of one tree share the lines that they have in common.

The parts (`part_to_json`, `part_from_json`) are for whoever keeps runs piece by piece.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias, TypeVar, cast

from agentkit.blocks import Json
from agentkit.caching.report import RequestRecord
from agentkit.errors import FormatError
from agentkit.json_values import Pool, decode, encode
from agentkit.output import BadOutput, one_type, output_spec
from agentkit.result import RunRecord, RunResult
from agentkit.saved import Memory, PausedRun, SavedEnd, SavedRun, SavedTurn

FORMAT = 2
"""Grows when older versions could not read what newer ones write. Those before are read, too."""

Part: TypeAlias = Memory | SavedTurn | SavedEnd | RequestRecord
"""What a run consists of beside its context and messages."""
Document: TypeAlias = PausedRun | SavedRun | RunRecord
"""What has a JSON text of its own."""

_DAMAGE = (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError)
"""What reading something else leads to."""

AnyPart = TypeVar("AnyPart", Memory, SavedTurn, SavedEnd, RequestRecord)
AnyDocument = TypeVar("AnyDocument", PausedRun, SavedRun, RunRecord, RunResult[Any])


def to_text(value: Document) -> str:
    """Return the JSON text of a run; what a result's output is made of must have a JSON form."""
    pool = Pool()
    body = encode(value, pool)
    kind = _KINDS[type(value)]
    whole = {"format": FORMAT, "kind": kind, "segments": pool.lines, kind: body}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))


def from_text(kind: type[AnyDocument], text: str | bytes) -> AnyDocument:
    """Return the value that `to_text` was given.

    Raises:
        FormatError: the text is something else, or of a format that this version does not know.
    """
    name = _KINDS[kind]
    try:
        whole = json.loads(text)
        if not isinstance(whole, dict) or "format" not in whole:
            raise FormatError(f"not the JSON form of a {name}: it says no format: {text[:100]!r}")
        if whole["format"] not in range(1, FORMAT + 1):
            raise FormatError(
                f"the {name} is in format {whole['format']!r}, and this version of agentkit reads "
                f"formats up to {FORMAT!r}; read it with the version that wrote it"
            )
        if whole.get("kind") != name:
            raise FormatError(f"this is the JSON form of a {whole.get('kind')}, not of a {name}")
        return cast("AnyDocument", decode(kind, whole[name], Pool(whole["segments"])))
    except FormatError:
        raise
    except _DAMAGE as error:
        raise FormatError(f"not the JSON form of a {name}: {error}") from error


def part_to_json(part: Part) -> Json:
    """Return a part as a JSON value; messages in it stand there in full."""
    return cast(Json, encode(part, None))


def part_from_json(kind: type[AnyPart], value: Json) -> AnyPart:
    """Return the part that `part_to_json` was given.

    Raises:
        FormatError: the value is something else.
    """
    try:
        return cast("AnyPart", decode(kind, value, None))
    except _DAMAGE as error:
        raise FormatError(f"not the JSON form of a {kind.__name__}: {error}") from error


def output_from_json(output_type: Any, text: str, value: object) -> Any:
    """Return a run's output as its type.

    Args:
        output_type: of the agent.
        text: the answer as the model wrote it. The output is made of it as it was in the run:
            aliases, left out fields and serialisers make another form of a value's JSON.
        value: the JSON value of the output, for an output that is not made of the text.

    Raises:
        FormatError: neither fits the type.
    """
    try:
        return output_spec(output_type).parse(text)
    except BadOutput as error:
        problem = error
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(one_type(output_type)).validate_json(json.dumps(value))
    except ValidationError:
        raise FormatError(f"the output is no {output_type!r}: {problem}") from problem


_KINDS: dict[type, str] = {
    PausedRun: "paused_run",
    SavedRun: "run",
    RunRecord: "record",
    RunResult: "result",
}
