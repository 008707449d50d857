"""Local references: where they lead, which lead back, and all of them in `$defs`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from agentkit.toolset.provider_forms.modern import JsonObject
from agentkit.toolset.provider_forms.notes import Effect, Notes
from agentkit.toolset.provider_forms.pointers import child, resolve, subschemas
from agentkit.toolset.provider_forms.walk import rebuilt

_OURS = "#/$defs/"


def defined(schema: JsonObject, notes: Notes) -> dict[str, object]:
    """Return the schema with all that is referred to in `$defs`, and nothing else in there."""
    names = _names(schema)

    def visit(node: dict[str, object], pointer: str) -> dict[str, object]:
        reference = node.get("$ref")
        new = names.get(reference) if isinstance(reference, str) else None
        if new is None or f"{_OURS}{new}" == reference:
            return node
        notes.has_moved = True
        detail = f"{reference} is {_OURS}{new} there"
        notes.add(child(pointer, "$ref"), "$ref", Effect.REWRITTEN, detail)
        return {**node, "$ref": f"{_OURS}{new}"}

    found = rebuilt({k: v for k, v in schema.items() if k not in _PLACES}, visit)
    definitions: dict[str, object] = {}
    for reference, name in names.items():
        target = resolve(reference, schema)
        pointer = reference.removeprefix("#")
        definitions[name] = rebuilt(target, visit, pointer) if isinstance(target, Mapping) else {}
    if definitions:
        found["$defs"] = dict(sorted(definitions.items()))
    return found


def closes_cycle(node: object, start: str, parts: Mapping[str, object]) -> bool:
    """Whether a reference in a node leads back to `start`. `parts`: schemas by reference."""
    seen: set[str] = set()
    waiting = list(references(node))
    while waiting:
        name = waiting.pop()
        if name == start:
            return True
        if name not in seen:
            seen.add(name)
            waiting += references(parts.get(name))
    return False


def references(node: object) -> Iterator[str]:
    """Yield what a node refers to, in order."""
    for _, each in subschemas(node):
        if isinstance(each, Mapping) and isinstance(each.get("$ref"), str):
            yield str(each["$ref"])


def _names(schema: JsonObject) -> dict[str, str]:
    """Return a name for each schema that can be reached by reference from the root."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    waiting = sorted(set(references({k: v for k, v in schema.items() if k not in _PLACES})))
    while waiting:
        reference = waiting.pop(0)
        if reference in found or reference == "#":
            continue
        found[reference] = _free(_plain(reference), taken)
        taken.add(found[reference])
        waiting += sorted(set(references(resolve(reference, schema))))
    return found


def _plain(reference: str) -> str:
    """A name that shows where the schema stood: that of its definition, or its whole way."""
    name = reference.removeprefix("#/")
    for place in _PLACES:
        if name.startswith(f"{place}/") and name.count("/") == 1:
            name = name.removeprefix(f"{place}/")
    return _ILLEGAL.sub("_", name)


def _free(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


_PLACES = ("$defs", "definitions")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_.-]")
