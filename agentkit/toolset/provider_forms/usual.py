"""Which schemas every API takes as they are: most of those in the field, found in a quick walk."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentkit.toolset.provider_forms.anthropic import LEGAL_PROPERTY
from agentkit.toolset.provider_forms.modern import TYPES, VALID
from agentkit.toolset.provider_forms.notes import Dialect

_MAX_DEPTH = 12
_NOT_AT_ROOT = ("anyOf", "const", "enum")


def is_usual(schema: Mapping[str, object], dialect: Dialect) -> bool:
    """Return whether the form is the schema itself, and nothing is to be told. False: perhaps not.

    Only words that mean the same everywhere, each with a value that it may have, and no references.
    """
    known = _KNOWN if dialect == "gemini" else _KNOWN_BUT_TO_GEMINI
    return schema.keys().isdisjoint(_NOT_AT_ROOT) and _is_usual(schema, known, 0)


def _is_usual(node: object, known: Mapping[str, _Check | None], depth: int) -> bool:
    if not isinstance(node, dict) or depth > _MAX_DEPTH:
        return False
    for key, part in node.items():
        if key not in known:
            return False
        check = known[key]
        if check is not None:
            if not check(part):
                return False
        elif not _are_usual(key, part, known, depth + 1):
            return False
    kind = node.get("type")
    return "items" in node or not (kind == "array" or (isinstance(kind, list) and "array" in kind))


def _are_usual(key: str, part: object, known: Mapping[str, _Check | None], depth: int) -> bool:
    """Whether the schemas are usual that a keyword holds."""
    if key == "properties":
        return isinstance(part, dict) and all(
            LEGAL_PROPERTY.fullmatch(name) and _is_usual(each, known, depth)
            for name, each in part.items()
        )
    if key == "anyOf":
        return (
            isinstance(part, list)
            and bool(part)
            and all(_is_usual(each, known, depth) for each in part)
        )
    if key == "additionalProperties" and isinstance(part, bool):
        return True
    return _is_usual(part, known, depth)


def _is_kind(value: object) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return isinstance(value, list) and bool(value) and TYPES.issuperset(map(str, value))


def _is_anything(value: object) -> bool:
    return True


_Check = Callable[[object], bool]
_KNOWN: Mapping[str, _Check | None] = {
    **{key: VALID[key] for key in ("description", "enum", "format", "maximum", "minimum")},
    **{key: VALID[key] for key in ("maxItems", "minItems", "required", "title", "examples")},
    "default": _is_anything,
    "type": _is_kind,
    **dict.fromkeys(("additionalProperties", "anyOf", "items", "properties")),
}
_KNOWN_BUT_TO_GEMINI: Mapping[str, _Check | None] = {
    **_KNOWN,
    **{key: VALID[key] for key in ("exclusiveMaximum", "exclusiveMinimum", "maxLength")},
    **{key: VALID[key] for key in ("minLength", "multipleOf", "pattern")},
    "const": _is_anything,
}
