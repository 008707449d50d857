"""All flags of one tool, or of any text of a server. Pure; the same text has the same flags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from agentkit.toolset.mcp.trust.encoded import form_flags
from agentkit.toolset.mcp.trust.flag import Flag
from agentkit.toolset.mcp.trust.hidden import hidden_flags
from agentkit.toolset.mcp.trust.phrases import phrase_flags

_ORDER = {"danger": 0, "warning": 1, "note": 2}
_KEYWORDS = frozenset(
    (
        *(
            "type",
            "string",
            "integer",
            "number",
            "boolean",
            "object",
            "array",
            "null",
            "properties",
        ),
        *(
            "required",
            "description",
            "default",
            "enum",
            "items",
            "anyOf",
            "oneOf",
            "allOf",
            "const",
        ),
        *("additionalProperties", "format", "minimum", "maximum", "minLength", "maxLength", "$ref"),
        *("$defs", "minItems", "maxItems", "pattern", "examples", "uniqueItems"),
    )
)
"""Most texts of a schema are these, and say nothing."""
_MOST = 100_000
"""Characters of one text that are looked through: a server may send a megabyte to be slow on."""


def flags_of_text(text: str, where: str) -> tuple[Flag, ...]:
    """Return what is odd about a text of a server: instructions, a prompt, a resource."""
    return _in_order(_flags(text, where))


def flags_of_tool(
    name: str, description: str, parameters: Mapping[str, object]
) -> tuple[Flag, ...]:
    """Return what is odd about a tool, by all that a model reads of it.

    Args:
        name: the server's own.
        description: of the tool.
        parameters: the schema. All its names and texts are read, since a model reads them too.
    """
    where = f"tool {name!r}"
    found = [*_flags(name, f"{where}, its name"), *_flags(description, where)]
    for place, text in texts_of(parameters):
        if text not in _KEYWORDS:
            found += _flags(text, f"{where}, {place}")
    return _in_order(found)


def texts_of(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield every name and text in a JSON value, each with its JSON pointer."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, member in value.items():
            below = f"{place}/{str(key).replace('~', '~0').replace('/', '~1')}"
            yield below, str(key)
            yield from texts_of(member, below)
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            yield from texts_of(member, f"{place}/{index}")


def _flags(text: str, where: str) -> Iterator[Flag]:
    if len(text) > _MOST:
        what = f"has {len(text):,} characters, of which the first {_MOST:,} were looked through"
        yield Flag("warning", "size", where, what)
        text = text[:_MOST]
    yield from hidden_flags(text, where)
    yield from phrase_flags(text, where)
    yield from form_flags(text, where)


def _in_order(flags: Iterable[Flag]) -> tuple[Flag, ...]:
    """The worst first; otherwise as they came."""
    return tuple(sorted(dict.fromkeys(flags), key=lambda flag: _ORDER[flag.severity]))
