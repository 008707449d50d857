"""An answer while it is being written: the beginning of a value, validated."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from agentkit.answer_form import is_object, member_of
from agentkit.events import Event, TextDelta, TurnDropped, TurnEnd
from agentkit.output import BadOutput, OutputType, one_type, output_spec

Output = TypeVar("Output")

_GROWTH = 1.05
"""By how much a text must grow until it is read again: all of it is read each time."""
_LEAST_GROWTH = 8
"""Characters."""


async def partial_outputs(
    events: AsyncIterator[Event], output_type: OutputType[Output]
) -> AsyncGenerator[Output, None]:
    """Yield what an answer says so far, each time that there is more of it.

    Only what is valid is yielded: of a list or a dict the elements that are there, of a `TypedDict`
    with `total=False` the members, of a text the words. Numbers, and texts that stand for something
    else (dates, choices), come once they are whole. A model whose fields are required is
    yielded once it has them. What the model says before it calls tools may be among it, and a check
    of your own may still have it answer again: the answer is `events.result.output`.

        async with agent.stream("...") as events:
            async for so_far in partial_outputs(events, list[Finding]): ...

    Args:
        events: of one run, such as `agent.stream(...)`. They are read to their end.
        output_type: the agent's, or one that demands less.
    """
    read, text, next_length = _reader(output_type), "", _LEAST_GROWTH
    last: _Value[Output] | None = None
    async for event in events:
        if isinstance(event, TextDelta):
            text += event.text
            if len(text) < next_length:
                continue
            next_length = max(int(len(text) * _GROWTH), len(text) + _LEAST_GROWTH)
        elif not isinstance(event, TurnEnd | TurnDropped):
            continue
        is_whole = isinstance(event, TurnEnd)
        value = None if isinstance(event, TurnDropped) else read(text, is_whole)
        if value is not None and value != last:
            last = value
            yield value.value
        if not isinstance(event, TextDelta):
            text, next_length = "", _LEAST_GROWTH


@dataclass(frozen=True, slots=True)
class _Value(Generic[Output]):
    """A value that was read; it may be None."""

    value: Output


def _reader(output_type: OutputType[Output]) -> Callable[[str, bool], _Value[Output] | None]:
    """Return what reads a text, of which more may come, as the beginning of a value."""
    kind = one_type(output_type)
    if kind is str:
        return lambda text, _: _Value(text) if text else None  # type: ignore[arg-type]
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import from_json, to_json

    adapter: TypeAdapter[Output] = TypeAdapter(kind)
    parse = output_spec(output_type).parse
    schema = adapter.json_schema()
    member = None if is_object(schema) else member_of(schema)

    def validated(value: Any) -> Output:
        if member is not None and isinstance(value, dict) and value.keys() == {member}:
            value = value[member]
        return adapter.validate_json(to_json(value), experimental_allow_partial=True)

    def validated_cut(text: str) -> Output:
        value = from_json(text, allow_partial="trailing-strings")
        try:
            validated(_with_more(value))
        except ValidationError:  # not any text will do, so this one may mean something else yet
            value = from_json(text, allow_partial=True)
        return validated(value)

    def read(text: str, is_whole: bool) -> _Value[Output] | None:
        begun = _begun(text)
        try:
            if not begun:
                return None
            if is_whole:
                found = parse(text)
            elif _is_in_string(begun):
                found = validated_cut(begun)
            else:
                found = validated(from_json(_without_number(begun), allow_partial=True))
        except (BadOutput, ValidationError, ValueError):
            return None
        return _Value(found)

    return read


def _is_in_string(text: str) -> bool:
    """Whether the beginning of a JSON text ends within a string."""
    return re.sub(r"\\.", "", text, flags=re.DOTALL).count('"') % 2 == 1


def _without_number(text: str) -> str:
    """Return a JSON text without the number at its end, which may have more digits."""
    rest = text.rstrip("0123456789+-.eE")
    is_number = text[len(rest) :][:1] in tuple("-0123456789")
    return rest if is_number else text


def _with_more(value: Any) -> Any:
    """Return a value whose last text goes on."""
    match value:
        case str():
            return f"{value} ..."
        case [*before, last]:
            return [*before, _with_more(last)]
        case {**members} if members:
            last = next(reversed(members))
            return members | {last: _with_more(members[last])}
    return value


def _begun(text: str) -> str:
    """Return the JSON in a text, perhaps in a Markdown code block whose end is not there yet."""
    stripped = text.strip()
    if not stripped.startswith("```"):
        return stripped
    _, _, inside = stripped.partition("\n")
    return inside.removesuffix("```")
