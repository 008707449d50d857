"""Tool schemas for OpenAI's APIs and all that speak its Chat API, without strict mode.

Sources: the APIs' errors, as users report them (2025-01 to 2026-01): the root is of type object and
has no oneOf, anyOf, allOf, enum, not; each array has items; a subschema is an object. Tools are
strict only where `strict_form` proves that nothing changes by it.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.toolset.provider_forms.modern import JsonObject
from agentkit.toolset.provider_forms.notes import Effect, Notes
from agentkit.toolset.provider_forms.pointers import LISTS, MAPS, child
from agentkit.toolset.provider_forms.root import plain_root
from agentkit.toolset.provider_forms.walk import rebuilt

ROOT_FORBIDS = ("allOf", "anyOf", "oneOf", "enum", "not")
MAX_DESCRIPTION = 1_024
"""Characters of a tool's description that Azure, and models of early 2025, take at most."""


def openai_form(schema: JsonObject, notes: Notes) -> JsonObject:
    """Return the form of a 2020-12 schema."""

    def visit(node: dict[str, object], pointer: str) -> dict[str, object]:
        return _with_items(_with_objects(node, pointer, notes), pointer, notes)

    return rebuilt(plain_root(schema, ROOT_FORBIDS, notes), visit)


def _with_objects(node: dict[str, object], pointer: str, notes: Notes) -> dict[str, object]:
    """Write true and false as schemas that are objects, but where they are usual."""

    def written(value: object, at: str) -> object:
        if not isinstance(value, bool):
            return value
        notes.add(at, str(value).lower(), Effect.REWRITTEN, "a subschema is an object there")
        return {} if value else {"not": {}}

    found = dict(node)
    for key, part in node.items():
        at = child(pointer, key)
        if key in MAPS and isinstance(part, Mapping):
            found[key] = {name: written(each, child(at, name)) for name, each in part.items()}
        elif key in LISTS and isinstance(part, list):
            found[key] = [written(each, child(at, place)) for place, each in enumerate(part)]
        elif key in ("contains", "not", "if", "then", "else", "propertyNames"):
            found[key] = written(part, at)
    return found


def _with_items(node: dict[str, object], pointer: str, notes: Notes) -> dict[str, object]:
    """Give each array items that are an object."""
    kind = node.get("type")
    kinds = kind if isinstance(kind, list | tuple) else (kind,)
    items = node.get("items")
    if ("array" not in kinds and items is None) or isinstance(items, Mapping):
        return node
    found = {**node, "items": {}}
    prefix = node.get("prefixItems")
    n_prefix = len(prefix) if isinstance(prefix, list | tuple) else 0
    if items is False:
        most = found.get("maxItems")
        found["maxItems"] = min(n_prefix, most) if isinstance(most, int) else n_prefix
    notes.add(child(pointer, "items"), "items", Effect.REWRITTEN, "an array has to have it")
    return dict(sorted(found.items()))
