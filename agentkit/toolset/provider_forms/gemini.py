"""Tool schemas for Gemini's `parametersJsonSchema`.

Sources: the API's definition of JSON Schema fields (googleapis, 2026), which lists the keywords
that count and what references may do; the API's errors as users report them (2025-11 to 2026-09).
Other keywords may be sent and are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.toolset.provider_forms.modern import JsonObject
from agentkit.toolset.provider_forms.notes import Effect, Notes
from agentkit.toolset.provider_forms.pointers import LISTS, MAPS, SINGLES, child
from agentkit.toolset.provider_forms.references import closes_cycle, defined
from agentkit.toolset.provider_forms.root import merged_all, plain_root
from agentkit.toolset.provider_forms.walk import rebuilt

ROOT_FORBIDS = ("allOf", "anyOf", "oneOf")
IGNORED = frozenset(
    (
        *("allOf", "const", "contains", "dependentRequired", "dependentSchemas", "else"),
        *("exclusiveMaximum", "exclusiveMinimum", "if", "maxLength", "maxProperties", "minLength"),
        *("minProperties", "multipleOf", "not", "pattern", "patternProperties", "propertyNames"),
        *("then", "unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
    )
)
"""Keywords that hold values to something, and are not on the API's list."""


def gemini_form(schema: JsonObject, notes: Notes) -> JsonObject:
    """Return the form of a 2020-12 schema."""
    root = plain_root(schema, ROOT_FORBIDS, notes, open_branch=False)

    def visit(node: dict[str, object], pointer: str) -> dict[str, object]:
        return _alone(_known(_objects(node, pointer, notes), pointer, notes), notes, pointer)

    return _without_required_cycles(rebuilt(defined(root, notes), visit), notes)


def _objects(node: dict[str, object], pointer: str, notes: Notes) -> dict[str, object]:
    """Write true and false as objects, but where they are usual."""
    found = dict(node)
    for key, part in node.items():
        at = child(pointer, key)
        if key in MAPS and isinstance(part, Mapping):
            found[key] = {n: _object(each, child(at, n), notes) for n, each in part.items()}
        elif key in LISTS and isinstance(part, list):
            found[key] = [_object(each, child(at, n), notes) for n, each in enumerate(part)]
        elif key in SINGLES and not key.endswith("Properties"):
            if key == "items" and part is False:
                prefix = node.get("prefixItems")
                n_prefix = len(prefix) if isinstance(prefix, list) else 0
                most = node.get("maxItems")
                found["maxItems"] = min(n_prefix, most) if isinstance(most, int) else n_prefix
            found[key] = _object(part, at, notes)
    return dict(sorted(found.items()))


def _object(value: object, pointer: str, notes: Notes) -> object:
    if not isinstance(value, bool):
        return value
    effect = Effect.REWRITTEN if value else Effect.LOOSENED
    notes.add(pointer, str(value).lower(), effect, "a subschema is an object there")
    return {}


def _known(node: dict[str, object], pointer: str, notes: Notes) -> dict[str, object]:
    """Say in keywords that count what others say, as far as they can."""
    found = dict(node)
    is_plain = isinstance(found.get("const"), str | int | float)
    if is_plain and not isinstance(found["const"], bool) and "enum" not in found:
        found["enum"] = [found.pop("const")]
        detail = "it is an enum of one there"
        notes.add(child(pointer, "const"), "const", Effect.REWRITTEN, detail)
    members = found.get("allOf")
    if isinstance(members, list):
        at = child(pointer, "allOf")
        if len(members) == 1 and "anyOf" not in found:
            found["anyOf"] = found.pop("allOf")
            notes.add(at, "allOf", Effect.REWRITTEN, "one member is an anyOf of one there")
        else:
            found = merged_all(found)
            detail = "it does not count there; the properties of all members are listed"
            notes.add(at, "allOf", Effect.LOOSENED, detail)
    for key in sorted(IGNORED & found.keys()):
        detail = "it is sent, but not on the list of keywords that count"
        notes.add(child(pointer, key), key, Effect.NOT_ENFORCED, detail)
    return dict(sorted(found.items()))


def _alone(node: dict[str, object], notes: Notes, pointer: str) -> dict[str, object]:
    """A reference has no neighbours: it becomes the only choice among them."""
    others = {key: part for key, part in node.items() if not key.startswith("$")}
    if "$ref" not in node or not others:
        return node
    kept = {key: part for key, part in node.items() if key != "$ref"}
    at = child(pointer, "$ref")
    if "anyOf" in kept:
        kept.pop("anyOf")
        detail = "a reference stands alone there; the choice beside it is left out"
        notes.add(at, "$ref", Effect.LOOSENED, detail)
    else:
        detail = "a reference stands alone there, as an anyOf of one"
        notes.add(at, "$ref", Effect.REWRITTEN, detail)
    return dict(sorted({**kept, "anyOf": [{"$ref": node["$ref"]}]}.items()))


def _without_required_cycles(schema: dict[str, object], notes: Notes) -> dict[str, object]:
    """A reference that leads back may stand within a property that is not required, only."""
    definitions = schema.get("$defs")
    parts: dict[str, object] = {"#": {k: v for k, v in schema.items() if k != "$defs"}}
    if isinstance(definitions, Mapping):
        parts |= {f"#/$defs/{name}": part for name, part in definitions.items()}
    made = {
        name: _cut(part, name, parts, notes, name.removeprefix("#"), within=False)
        for name, part in parts.items()
    }
    root = made.pop("#")
    assert isinstance(root, dict)
    if made:
        root["$defs"] = {name.removeprefix("#/$defs/"): part for name, part in made.items()}
    return dict(sorted(root.items()))


def _cut(
    node: object,
    start: str,
    parts: Mapping[str, object],
    notes: Notes,
    pointer: str,
    *,
    within: bool,
) -> object:
    """Return a node without references that lead back to `start` through what must be there.

    `within`: whether it lies within a property of the part, or a value that need not be there.
    """
    if not isinstance(node, Mapping):
        return node
    if "$ref" in node and not within and closes_cycle(node, start, parts):
        detail = "a schema that must hold itself cannot be sent; anything may stand there"
        notes.add(child(pointer, "$ref"), "$ref", Effect.LOOSENED, detail)
        return {}
    found: dict[str, object] = {}
    for key, part in node.items():
        at = child(pointer, key)
        inside = within or key in ("additionalProperties", "patternProperties", "properties")
        if key in MAPS and isinstance(part, Mapping):
            found[key] = {
                name: _cut(each, start, parts, notes, child(at, name), within=inside)
                for name, each in part.items()
            }
        elif key in LISTS and isinstance(part, list):
            found[key] = [
                _cut(each, start, parts, notes, child(at, n), within=inside)
                for n, each in enumerate(part)
            ]
        elif key in SINGLES:
            found[key] = _cut(part, start, parts, notes, at, within=inside)
        else:
            found[key] = part
    return _optional(found, start, parts, notes, pointer)


def _optional(
    node: dict[str, object], start: str, parts: Mapping[str, object], notes: Notes, pointer: str
) -> dict[str, object]:
    properties, required = node.get("properties"), node.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, list | tuple):
        return node
    cyclic = [
        name
        for name in required
        if name in properties and closes_cycle(properties[name], start, parts)
    ]
    for name in cyclic:
        detail = "a schema may lead back to itself in optional properties only, so it is optional"
        notes.add(child(pointer, "properties", name), str(name), Effect.LOOSENED, detail)
    kept = [name for name in required if name not in cyclic]
    found = {**node, "required": kept}
    if not kept:
        found.pop("required")
    return found
