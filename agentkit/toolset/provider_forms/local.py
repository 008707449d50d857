"""Tool schemas for the grammar of the bundled runtime.

The prompt shows the schema as it is; the grammar leaves out what it cannot keep to, so that a
call may be generated that the tool has to refuse. The runtime has the same list: a test compares
them.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.toolset.provider_forms.modern import JsonObject
from agentkit.toolset.provider_forms.notes import Effect, Notes
from agentkit.toolset.provider_forms.pointers import child, subschemas
from agentkit.toolset.provider_forms.root import without_values

UNENFORCED = frozenset(
    (
        *("contains", "dependentRequired", "dependentSchemas", "else", "if", "maxContains"),
        *("minContains", "not", "propertyNames", "then", "unevaluatedItems"),
        *("unevaluatedProperties", "uniqueItems"),
    )
)
"""Keywords that the grammar does not know."""


def local_form(schema: JsonObject, notes: Notes) -> JsonObject:
    """Return the schema as it is, and note what calls are not held to.

    The root is an object whose properties the grammar writes one by one: it cannot be one of some
    values as well. Those are said in words.
    """
    schema = without_values(schema, notes)
    for pointer, node in subschemas(schema):
        if not isinstance(node, Mapping):
            continue
        for key in sorted(UNENFORCED & node.keys()):
            detail = "the grammar does not know it; the prompt shows it all the same"
            notes.add(child(pointer, key), key, Effect.NOT_ENFORCED, detail)
    return schema
