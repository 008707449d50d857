"""The one way to ask for a form."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache

from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.frozen_json import freeze
from agentkit.toolset.provider_forms.anthropic import anthropic_form
from agentkit.toolset.provider_forms.gemini import gemini_form
from agentkit.toolset.provider_forms.local import local_form
from agentkit.toolset.provider_forms.modern import JsonObject, modern
from agentkit.toolset.provider_forms.notes import (
    Dialect,
    Effect,
    Notes,
    SchemaForm,
    SchemaNote,
)
from agentkit.toolset.provider_forms.openai import MAX_DESCRIPTION, openai_form
from agentkit.toolset.provider_forms.usual import is_usual
from agentkit.toolset.provider_forms.widening import widened
from agentkit.toolset.tool import ToolSpec

_LOGGER = logging.getLogger("agentkit.toolset")

_FORMS: Mapping[Dialect, Callable[[JsonObject, Notes], JsonObject]] = {
    "anthropic": anthropic_form,
    "openai": openai_form,
    "gemini": gemini_form,
    "local": local_form,
}


@lru_cache(maxsize=4_096)  # forms are asked for in every request, and specs are values
def schema_form(spec: ToolSpec, dialect: Dialect) -> SchemaForm:
    """Return a tool's parameters as a provider gets them. Pure; what is loosened is logged once."""
    notes = Notes()
    form: JsonObject = spec.parameters
    if not is_usual(form, dialect):
        # Twice: a reference may have named what stands elsewhere now, or nowhere.
        form = _FORMS[dialect](modern(modern(form, notes), notes), notes)
        form = widened(form, notes)
    if dialect == "openai" and len(spec.description) > MAX_DESCRIPTION:
        detail = f"{len(spec.description)} characters; Azure takes {MAX_DESCRIPTION}"
        notes.add("", "description", Effect.MAY_BE_REFUSED, detail)
    loosened = [str(note) for note in notes.all if note.effect is Effect.LOOSENED]
    if loosened:
        _LOGGER.info(
            "tool %r: its schema is loosened for %s: %s", spec.name, dialect, "; ".join(loosened)
        )
    is_same = form is spec.parameters or canonical_json(form) == canonical_json(spec.parameters)
    return SchemaForm(parameters=spec.parameters if is_same else _frozen(form), notes=notes.all)


def schema_report(spec: ToolSpec, dialect: Dialect) -> tuple[SchemaNote, ...]:
    """Return what of a tool's schema is not sent to a provider, or not kept to, as it stands."""
    return schema_form(spec, dialect).notes


def form_bytes(spec: ToolSpec, dialect: Dialect) -> bytes:
    """Return a tool as `ToolSpec.bytes` has it, with the parameters in a provider's form."""
    form = schema_form(spec, dialect)
    if form.parameters is spec.parameters:
        return spec.bytes
    return canonical_json(
        {"name": spec.name, "description": spec.description, "parameters": form.parameters}
    )


def _frozen(form: JsonObject) -> JsonObject:
    frozen = freeze(form)
    assert isinstance(frozen, Mapping)
    return frozen
