"""Any tool's schema as valid JSON Schema 2020-12: what older drafts say, and what is malformed.

One part that the dialect does not know makes providers refuse the whole request. What has the same
meaning in 2020-12 is rewritten; what has none is left out, so that more is allowed, never less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from agentkit.toolset.provider_forms.notes import Effect, Notes
from agentkit.toolset.provider_forms.pointers import LISTS, MAPS, SINGLES, child, resolve

JsonObject: TypeAlias = Mapping[str, object]

TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_BASES = frozenset(
    (
        *("$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor"),
        *("$recursiveRef", "$vocabulary"),
    )
)
"""They say where references lead; tools' schemas have local pointers only, which need none.

`id` is one of draft 4, and later no keyword at all."""


def modern(schema: JsonObject, notes: Notes) -> dict[str, object]:
    """Return the schema in 2020-12, equal to what was given where that is valid already."""
    return _Modern(schema, notes).mapping(schema, "")


class _Modern:
    def __init__(self, root: JsonObject, notes: Notes) -> None:
        self._root = root
        self._notes = notes

    def schema(self, value: object, pointer: str) -> object:
        """A subschema: an object, or true or false."""
        if isinstance(value, bool):
            return value
        if isinstance(value, Mapping):
            return self.mapping(value, pointer)
        self._dropped(pointer, pointer.rpartition("/")[2], f"{value!r:.80} is no schema")
        return {}

    def mapping(self, value: JsonObject, pointer: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, part in value.items():
            self._keyword(found, key, part, value, pointer)
        if any(key in value and key not in found for key in ("properties", "patternProperties")):
            found.pop("additionalProperties", None)  # nobody knows which are no others
        return dict(sorted(found.items()))

    def _keyword(
        self, found: dict[str, object], key: str, part: object, whole: JsonObject, pointer: str
    ) -> None:
        at = child(pointer, key)
        legacy = _LEGACY.get(key)
        if legacy is not None and legacy(self, found, part, whole, pointer):
            return
        if key in _BASES or (key == "id" and isinstance(part, str)):
            self._dropped(at, key, "references are local, and need no base")
        elif key in MAPS:
            if self._is(isinstance(part, Mapping), at, key, part):
                assert isinstance(part, Mapping)
                found[key] = {n: self.schema(each, child(at, n)) for n, each in part.items()}
        elif key in LISTS:
            if self._is(isinstance(part, list | tuple) and bool(part), at, key, part):
                assert isinstance(part, list | tuple)
                found[key] = [self.schema(each, child(at, n)) for n, each in enumerate(part)]
        elif key in SINGLES:
            found[key] = self.schema(part, at)
        elif key not in VALID or self._is(VALID[key](part), at, key, part):
            found[key] = part

    def _is(self, is_valid: bool, pointer: str, key: str, part: object) -> bool:
        if not is_valid:
            self._dropped(pointer, key, f"{part!r:.80} is no value for it")
        return is_valid

    def _dropped(self, pointer: str, key: str, why: str) -> None:
        self._notes.add(pointer, key, Effect.LOOSENED, f"{why}, so it is left out")

    # What older drafts, and OpenAPI, say otherwise. Each returns whether it was that.

    def items(self, found: dict[str, object], part: object, whole: JsonObject, at: str) -> bool:
        if not isinstance(part, list | tuple):
            return False
        if part:
            made = [self.schema(each, child(at, "items", n)) for n, each in enumerate(part)]
            found["prefixItems"] = made
        if "additionalItems" in whole:
            found["items"] = self.schema(whole["additionalItems"], child(at, "additionalItems"))
        self._notes.has_moved = True
        detail = "a list of schemas is prefixItems since 2020-12"
        self._notes.add(child(at, "items"), "items", Effect.REWRITTEN, detail)
        return True

    def additional_items(
        self, found: dict[str, object], part: object, whole: JsonObject, at: str
    ) -> bool:
        return True  # beside a list of items it is the new items; elsewhere it never had a meaning

    def bound(
        self, key: str, limit: str
    ) -> Callable[[dict[str, object], object, JsonObject, str], bool]:
        def read(found: dict[str, object], part: object, whole: JsonObject, at: str) -> bool:
            if not isinstance(part, bool):
                return False
            if part and _is_number(whole.get(limit)):
                found[key] = whole[limit]
            detail = "true and false are of draft 4; it is the bound itself now"
            self._notes.add(child(at, key), key, Effect.REWRITTEN, detail)
            return True

        return read

    def dependencies(
        self, found: dict[str, object], part: object, whole: JsonObject, at: str
    ) -> bool:
        if not self._is(isinstance(part, Mapping), child(at, "dependencies"), "dependencies", part):
            return True
        assert isinstance(part, Mapping)
        names = {name: each for name, each in part.items() if _are_names(each)}
        others = {name: each for name, each in part.items() if name not in names}
        if names:
            found["dependentRequired"] = names
        if others:
            pointer = child(at, "dependencies")
            made = {n: self.schema(each, child(pointer, n)) for n, each in others.items()}
            found["dependentSchemas"] = made
        self._notes.has_moved = True
        detail = "it is dependentRequired and dependentSchemas since 2019-09"
        self._notes.add(child(at, "dependencies"), "dependencies", Effect.REWRITTEN, detail)
        return True

    def reference(self, found: dict[str, object], part: object, whole: JsonObject, at: str) -> bool:
        if isinstance(part, str) and isinstance(resolve(part, self._root), Mapping | bool):
            found["$ref"] = part
        else:
            why = f"{part!r:.80} names nothing in the schema"
            self._dropped(child(at, "$ref"), "$ref", why)
        return True

    def kind(self, found: dict[str, object], part: object, whole: JsonObject, at: str) -> bool:
        kinds = [part] if isinstance(part, str) else part
        if isinstance(kinds, list | tuple) and kinds and TYPES.issuperset(map(str, kinds)):
            found["type"] = part
        else:
            self._dropped(child(at, "type"), "type", f"there is no type {part!r:.80}")
        return True


def _bound(key: str, limit: str) -> Callable[..., bool]:
    def read(
        self: _Modern, found: dict[str, object], part: object, whole: JsonObject, at: str
    ) -> bool:
        return self.bound(key, limit)(found, part, whole, at)

    return read


_LEGACY: Mapping[str, Callable[[_Modern, dict[str, object], object, JsonObject, str], bool]] = {
    "items": _Modern.items,
    "additionalItems": _Modern.additional_items,
    "exclusiveMinimum": _bound("exclusiveMinimum", "minimum"),
    "exclusiveMaximum": _bound("exclusiveMaximum", "maximum"),
    "dependencies": _Modern.dependencies,
    "$ref": _Modern.reference,
    "type": _Modern.kind,
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _are_names(value: object) -> bool:
    """Whether a value is a list of texts, each once."""
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        return False
    return len(set(value)) == len(value)


def _are_names_by_name(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_are_names, value.values()))


def _is_step(value: object) -> bool:
    return _is_number(value) and value > 0  # type: ignore[operator]


VALID: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"), _is_number),
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties", "maxContains"), _is_count),
    **dict.fromkeys(("minItems", "minLength", "minProperties", "minContains"), _is_count),
    **dict.fromkeys(("title", "description", "format", "pattern", "$comment"), _is_text),
    **dict.fromkeys(("contentEncoding", "contentMediaType", "$schema"), _is_text),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_flag),
    **dict.fromkeys(("enum", "examples"), _is_list),
    "required": _are_names,
    "dependentRequired": _are_names_by_name,
    "multipleOf": _is_step,
}
"""What the dialect demands of keywords that hold no schemas."""
