"""Rebuilding a schema node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentkit.toolset.provider_forms.modern import JsonObject
from agentkit.toolset.provider_forms.pointers import LISTS, MAPS, SINGLES, child

Visit = Callable[[dict[str, object], str], dict[str, object]]


def rebuilt(schema: JsonObject, visit: Visit, pointer: str = "") -> dict[str, object]:
    """Return the schema with `visit(node, pointer)` in place of each node, inner ones first."""
    found = {key: _part(key, part, visit, child(pointer, key)) for key, part in schema.items()}
    return visit(found, pointer)


def _part(key: str, part: object, visit: Visit, pointer: str) -> object:
    if key in MAPS and isinstance(part, Mapping):
        return {name: _each(one, visit, child(pointer, name)) for name, one in part.items()}
    if key in LISTS and isinstance(part, list | tuple):
        return [_each(one, visit, child(pointer, place)) for place, one in enumerate(part)]
    if key in SINGLES:
        return _each(part, visit, pointer)
    return part


def _each(value: object, visit: Visit, pointer: str) -> object:
    return rebuilt(value, visit, pointer) if isinstance(value, Mapping) else value
