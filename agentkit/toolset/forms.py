"""Forms: the schemas that servers give for values they want from a person, and the values' check.

MCP allows flat objects of texts, numbers, yes-or-no and choices. Everything else of JSON Schema is
refused or left out: a server's pattern or reference could keep a check busy for ever.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from agentkit.toolset.canonical import canonical_json

_MOST_FIELDS = 100
_KEPT = {
    "string": ("type", "title", "description", "default", "minLength", "maxLength", "format"),
    "number": ("type", "title", "description", "default", "minimum", "maximum"),
    "integer": ("type", "title", "description", "default", "minimum", "maximum"),
    "boolean": ("type", "title", "description", "default"),
    "array": ("type", "title", "description", "default", "minItems", "maxItems"),
}


def form_of(schema: object) -> str:
    """Return the JSON text of a form: what of a server's schema is allowed.

    Raises:
        ValueError: it is no flat object of simple values.
    """
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        raise ValueError("the form is no object with properties")
    properties = schema["properties"]
    if len(properties) > _MOST_FIELDS:
        raise ValueError(f"the form has {len(properties)} fields, of {_MOST_FIELDS} at most")
    required = schema.get("required", [])
    if not _are_texts(required):
        raise ValueError("'required' of the form is no list of names")
    form = {
        "type": "object",
        "properties": {name: _field(name, value) for name, value in properties.items()},
        "required": [name for name in required if name in properties],
    }
    canonical_json(form)  # whether it has a JSON form at all
    return json.dumps(form, ensure_ascii=False, separators=(",", ":"))


def problem_with(values: Mapping[str, object], form: str) -> str | None:
    """Return why values do not fit a form, without the values themselves; None: they fit."""
    from jsonschema import Draft202012Validator, SchemaError

    schema = {**json.loads(form), "additionalProperties": False}
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"the form itself is broken: {error.message}"
    found = next(iter(Draft202012Validator(schema).iter_errors(dict(values))), None)
    if found is None:
        return None
    where = ".".join(map(str, found.absolute_path))
    if not where:
        return str(found.message)  # of names only: one is missing, or one too many
    return f"{where}: it is not as the form wants it ({found.validator}: {found.validator_value!r})"


def _field(name: object, schema: object) -> dict[str, object]:
    if not isinstance(name, str) or not isinstance(schema, Mapping):
        raise ValueError(f"the field {name!r:.100} of the form has no schema")
    kind = schema.get("type")
    kept = _KEPT.get(kind) if isinstance(kind, str) else None
    if kept is None:
        raise ValueError(f"the field {name!r:.100} of the form is of type {kind!r:.100}")
    field: dict[str, object] = {key: schema[key] for key in kept if key in schema}
    if kind == "string":
        field |= _choices(schema)
    if kind == "array":
        items = schema.get("items")
        choices = _choices(items) if isinstance(items, Mapping) else {}
        if not choices:
            raise ValueError(f"the list {name!r:.100} of the form has no choices")
        field["items"] = {"type": "string", **choices}
    return field


def _choices(schema: Mapping[str, object]) -> dict[str, object]:
    """The values that may be chosen, with their titles where there are some."""
    if _are_texts(values := schema.get("enum")):
        names = schema.get("enumNames")
        return {"enum": values, **({"enumNames": names} if _are_texts(names) else {})}
    for key in ("oneOf", "anyOf"):
        options = schema.get(key)
        if isinstance(options, Sequence) and not isinstance(options, str) and options:
            return {key: [_option(option) for option in options]}
    return {}


def _option(option: object) -> dict[str, object]:
    if not isinstance(option, Mapping) or not isinstance(option.get("const"), str):
        raise ValueError(f"a choice of the form is no text: {option!r:.100}")
    title = option.get("title")
    return {"const": option["const"], **({"title": title} if isinstance(title, str) else {})}


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
