"""Tool schemas for Claude's API, without strict tools.

Sources: the API's errors, as users report them (2025-08 to 2026-09): the schema must be valid
2020-12, property names have a pattern, and the root takes no anyOf, oneOf, allOf. Keywords that it
does not know are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentkit.toolset.provider_forms.modern import JsonObject
from agentkit.toolset.provider_forms.notes import Effect, Notes
from agentkit.toolset.provider_forms.pointers import child
from agentkit.toolset.provider_forms.root import plain_root
from agentkit.toolset.provider_forms.walk import rebuilt

ROOT_FORBIDS = ("allOf", "anyOf", "oneOf")
LEGAL_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def anthropic_form(schema: JsonObject, notes: Notes) -> JsonObject:
    """Return the form of a 2020-12 schema."""

    def visit(node: dict[str, object], pointer: str) -> dict[str, object]:
        return _with_legal_names(node, pointer, notes)

    return rebuilt(plain_root(schema, ROOT_FORBIDS, notes), visit)


def _with_legal_names(node: dict[str, object], pointer: str, notes: Notes) -> dict[str, object]:
    """Return a node whose properties have names that the API takes.

    Others cannot be renamed: the tool would not know the arguments. They are told of in words.
    """
    properties = node.get("properties")
    if not isinstance(properties, Mapping):
        return node
    illegal = [name for name in properties if not LEGAL_PROPERTY.fullmatch(name)]
    if not illegal:
        return node
    for name in illegal:
        detail = f"property names must match {LEGAL_PROPERTY.pattern}; it is named in words"
        notes.add(child(pointer, "properties", name), name, Effect.LOOSENED, detail)
    said = f"There are more properties, which may be given, too: {', '.join(map(repr, illegal))}."
    kept = {name: part for name, part in properties.items() if name not in illegal}
    found = {**node, "properties": kept}
    found["description"] = f"{node.get('description', '')} {said}".strip()
    # "No others" would forbid them now.
    found.pop("additionalProperties", None)
    return dict(sorted(found.items()))
