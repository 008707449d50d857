"""The root of a tool's schema without the keywords that providers refuse there.

Claude's API takes no `anyOf`, `oneOf` and `allOf` at the root, OpenAI's no `enum` and `not` either,
and a root that is only a reference shows no properties. What the alternatives have is listed as
properties of one object; which of them go together is said in words.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from agentkit.toolset.provider_forms.modern import JsonObject
from agentkit.toolset.provider_forms.notes import Effect, Notes
from agentkit.toolset.provider_forms.pointers import child, resolve

_ALONE = (
    *("type", "enum", "const", "format", "description", "pattern", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems"),
    *("maxItems", "uniqueItems", "minProperties", "maxProperties", "default"),
)
"""Keywords that mean the same whatever stands beside them."""
_MAX_WORDS = 600
"""Characters of what is said in words."""
_MAX_HOPS = 16
"""References that lead to references."""
_LIST_KEYS = ("allOf", "anyOf", "oneOf")


def plain_root(
    schema: JsonObject, forbidden: Collection[str], notes: Notes, *, open_branch: bool = True
) -> dict[str, object]:
    """Return an object schema that allows all that `schema` does, without `forbidden` at its root.

    Args:
        schema: in 2020-12.
        forbidden: of allOf, anyOf, oneOf, enum, not; a `$ref` goes in any case.
        notes: takes notes.
        open_branch: whether `{}` may stand in an `anyOf`: "like this, or anything".
    """
    root = _referred(schema, notes)
    said: list[str] = []
    for key in _LIST_KEYS:
        if key in forbidden and key in root:
            root = _merged(root, key, schema, said, notes, open_branch=open_branch)
    for key in ("enum", "not"):
        if key in forbidden and key in root:
            said.append(_words(key, root.pop(key)))
            notes.add(child("", key), key, Effect.LOOSENED, _AT_ROOT)
    if said:
        words = " ".join([str(root.get("description", "")), *said]).strip()
        root["description"] = words
    root["type"] = "object"
    root.setdefault("properties", {})
    return dict(sorted(root.items()))


def without_values(schema: JsonObject, notes: Notes) -> JsonObject:
    """Return the schema with what its root must be (`enum`, `const`) only said in words."""
    if "enum" not in schema and "const" not in schema:
        return schema
    root = dict(schema)
    said = [str(root.get("description", ""))]
    for key in ("enum", "const"):
        if key in root:
            said.append(_words(key, root.pop(key)))
            detail = "arguments are an object with properties; it is said in words"
            notes.add(child("", key), key, Effect.LOOSENED, detail)
    root["description"] = " ".join(said).strip()
    return dict(sorted(root.items()))


def _referred(schema: JsonObject, notes: Notes) -> dict[str, object]:
    """Return the root with what its reference names put in its place."""
    root = dict(schema)
    for _ in range(_MAX_HOPS):
        reference = root.pop("$ref", None)
        if not isinstance(reference, str):
            return root
        target = resolve(reference, schema)
        if isinstance(target, Mapping) and target is not schema and reference != "#":
            root = _both(target, root)
            notes.has_moved = True
            detail = f"a root that is {reference} is that schema itself"
            notes.add("/$ref", "$ref", Effect.REWRITTEN, detail)
    root.pop("$ref", None)
    return root


def merged_all(node: dict[str, object]) -> dict[str, object]:
    """Return a node with what the members of its `allOf` say in the place of that.

    Of members that are references the first one becomes an `anyOf` of one.
    """
    members = node.pop("allOf")
    assert isinstance(members, list | tuple)
    node.pop("unevaluatedProperties", None)
    objects = [each for each in members if isinstance(each, Mapping)]
    for each in objects:
        if "$ref" in each:
            node.setdefault("anyOf", [{"$ref": each["$ref"]}])
    return _with_all(node, objects)


def _merged(
    root: dict[str, object],
    key: str,
    document: JsonObject,
    said: list[str],
    notes: Notes,
    *,
    open_branch: bool,
) -> dict[str, object]:
    members = root.pop(key)
    assert isinstance(members, list | tuple)
    # It would not know the names that the members speak of.
    root.pop("unevaluatedProperties", None)
    branches = [_resolved(member, document) for member in members]
    said.append(_words(key, members))
    notes.add(child("", key), key, Effect.LOOSENED, _AT_ROOT)
    if not all(isinstance(branch, Mapping) for branch in branches):
        return root  # true and false name no properties
    objects = [branch for branch in branches if isinstance(branch, Mapping)]
    return _with_all(root, objects) if key == "allOf" else _with_one(root, objects, open_branch)


def _with_all(root: dict[str, object], members: list[Mapping[str, object]]) -> dict[str, object]:
    """Each member holds: all properties, all that is required. What is said twice, only once."""
    properties = _properties(root)
    required = _required(root)
    for member in members:
        for name, schema in _properties(member).items():
            properties.setdefault(name, schema)
        required += [name for name in _required(member) if name not in required]
        for key in _ALONE:
            if key in member:
                root.setdefault(key, member[key])
    # "No others" of one part does not know the properties of the others.
    root.pop("additionalProperties", None)
    return _described(root, properties, required)


def _with_one(
    root: dict[str, object], members: list[Mapping[str, object]], open_branch: bool
) -> dict[str, object]:
    """One of the members holds: the properties of all of them, and what all require."""
    properties = _properties(root)
    names = {name: None for member in members for name in _properties(member)}
    for name in sorted(names):
        if name not in properties:
            properties[name] = _one_of(name, members, open_branch)
    common = set.intersection(*(set(_required(member)) for member in members))
    required = _required(root)
    required += sorted(common - set(required))
    if not root.get("additionalProperties", True):
        # The root speaks of its own properties: those of the members were never allowed.
        properties = _properties(root)
    elif all(map(_is_closed, members)):
        root["additionalProperties"] = False
    return _described(root, properties, required)


def _one_of(name: str, members: list[Mapping[str, object]], open_branch: bool) -> object:
    """What a property may be, as far as each member says it."""
    found: list[object] = []
    is_open = False
    for member in members:
        schema = _properties(member).get(name)
        if schema is None:
            is_open = is_open or not _is_closed(member)
        elif schema not in found:
            found.append(schema)
    if is_open:
        # A member that does not speak of it allows anything there.
        if not open_branch:
            return {"description": _words("usually", found)}
        found.append({})
    return found[0] if len(found) == 1 else {"anyOf": found}


def _described(
    root: dict[str, object], properties: dict[str, object], required: list[str]
) -> dict[str, object]:
    if properties:
        root["properties"] = dict(sorted(properties.items()))
    if required:
        root["required"] = sorted(required)
    return root


def _resolved(member: object, document: JsonObject) -> object:
    for _ in range(_MAX_HOPS):
        if not isinstance(member, Mapping) or "$ref" not in member:
            break
        others = {key: part for key, part in member.items() if key != "$ref"}
        target = resolve(str(member["$ref"]), document)
        member = _both(target, others) if isinstance(target, Mapping) else target
    return member


def _both(first: JsonObject, second: JsonObject) -> dict[str, object]:
    """Return one schema for two that both hold; what both say is taken from the second alone."""
    found = {**first, **second}
    if "properties" in first or "properties" in second:
        found["properties"] = _properties(first) | _properties(second)
    if required := [*_required(first), *_required(second)]:
        found["required"] = sorted(set(required))
    found.pop("unevaluatedProperties", None)
    if "patternProperties" in first and "patternProperties" in second:
        found.pop("additionalProperties", None)
    return found


def _is_closed(schema: JsonObject) -> bool:
    """Whether an object has no properties but those that are listed."""
    return schema.get("additionalProperties") is False and "patternProperties" not in schema


def _properties(schema: JsonObject) -> dict[str, object]:
    found = schema.get("properties")
    return dict(found) if isinstance(found, Mapping) else {}


def _required(schema: JsonObject) -> list[str]:
    found = schema.get("required")
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


def _words(key: str, value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict)
    cut = text if len(text) <= _MAX_WORDS else f"{text[:_MAX_WORDS]} ..."
    return f"{_SAID[key]} {cut}"


_SAID = {
    "allOf": "All of these hold, too:",
    "anyOf": "At least one of these holds, too:",
    "oneOf": "Exactly one of these holds, too:",
    "const": "It is always:",
    "enum": "It is one of:",
    "not": "This must not hold:",
    "usually": "Usually one of:",
}
_AT_ROOT = (
    "the API refuses it at the root; properties are listed, and which go together is said in words"
)
