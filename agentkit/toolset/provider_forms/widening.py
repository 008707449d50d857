"""What turns round when a part of it allows more: `not`, `if`, `oneOf`, `unevaluated...`.

A looser schema within a `not` forbids more, within an `if` asks more often, and of two looser
alternatives both may hold. Where a part was loosened that one of these depends on, it goes, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.toolset.provider_forms.modern import JsonObject
from agentkit.toolset.provider_forms.notes import Effect, Notes
from agentkit.toolset.provider_forms.pointers import child
from agentkit.toolset.provider_forms.references import references
from agentkit.toolset.provider_forms.walk import rebuilt

_AT_ROOT = ("/allOf", "/anyOf", "/enum", "/not", "/oneOf")
_EVALUATED = ("unevaluatedItems", "unevaluatedProperties")
_DETAIL = "it would forbid what is allowed, since a part that it depends on is loosened"


def widened(form: JsonObject, notes: Notes) -> JsonObject:
    """Return the form without what forbids more because of what was loosened in it."""
    n_notes = -1
    while n_notes != len(notes.all):  # what goes makes what it stands in looser, too
        n_notes = len(notes.all)
        form = _pass(form, notes)
    return form


def _pass(form: JsonObject, notes: Notes) -> JsonObject:
    loosened = [note.pointer for note in notes.all if note.effect is Effect.LOOSENED]
    if not loosened:
        return form
    is_moved = _is_moved(loosened, notes)

    def is_touched(part: object, pointer: str) -> bool:
        if is_moved or any(True for _ in references(part)):
            return True
        return any(at == pointer or at.startswith(f"{pointer}/") for at in loosened)

    def visit(node: dict[str, object], pointer: str) -> dict[str, object]:
        lost = [
            key
            for key in map(str, ("not", "if"))
            if key in node and is_touched(node[key], child(pointer, key))
        ]
        if "maxContains" in node and is_touched(node.get("contains"), child(pointer, "contains")):
            lost.append("maxContains")
        lost += [key for key in _EVALUATED if key in node]
        if "oneOf" in node and is_touched({"anyOf": node["oneOf"]}, child(pointer, "oneOf")):
            lost.append("oneOf")
        found = {key: part for key, part in node.items() if key not in lost}
        if "oneOf" in lost and "anyOf" not in found:
            found["anyOf"] = node["oneOf"]
        if "if" in lost:
            found.pop("then", None)
            found.pop("else", None)
        for key in lost:
            notes.add(child(pointer, key), key, Effect.LOOSENED, _DETAIL)
        return dict(sorted(found.items())) if lost else node

    made = rebuilt(form, visit)
    assert isinstance(made, Mapping)
    return made


def _is_moved(loosened: list[str], notes: Notes) -> bool:
    """Whether parts stand elsewhere than they did: then nobody knows which of them are touched."""
    return notes.has_moved or (
        not set(_AT_ROOT).isdisjoint(loosened)
        and any(at.startswith(_FROM_ELSEWHERE) for at in loosened)
    )


_FROM_ELSEWHERE = ("/$defs/", "/allOf/", "/anyOf/", "/definitions/", "/oneOf/")
