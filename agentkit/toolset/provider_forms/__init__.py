"""How a tool's schema is sent to each provider, what of it is lost there, and what APIs refuse.

    schema_form(spec, "gemini")      the parameters as Gemini gets them, with notes
    schema_report(spec, "gemini")    the notes alone: what was loosened, where, and why
    tool_problems(spec, "gemini")    why the API would refuse the form; empty: it takes it

A tool's canonical schema is pinned once (`canonical.py`); forms are made of it, always the same.
They allow all that the schema allows, never less: what is too much, the tool itself refuses.

notes.py      dialects, notes, forms
modern.py     older drafts and malformed parts, as valid JSON Schema 2020-12
root.py       no alternatives at the root
references.py, pointers.py, walk.py: ways through a schema
anthropic, openai, gemini, local: what each takes
usual.py      which schemas need no form
widening.py   what must go when a part of it allows more
problems.py   what each refuses, written apart from the forms
"""

from __future__ import annotations

from agentkit.toolset.provider_forms.form import form_bytes, schema_form, schema_report
from agentkit.toolset.provider_forms.notes import (
    DIALECTS,
    Dialect,
    Effect,
    SchemaForm,
    SchemaNote,
)
from agentkit.toolset.provider_forms.problems import schema_problems, tool_problems

__all__ = [
    "DIALECTS",
    "Dialect",
    "Effect",
    "SchemaForm",
    "SchemaNote",
    "form_bytes",
    "schema_form",
    "schema_problems",
    "schema_report",
    "tool_problems",
]
