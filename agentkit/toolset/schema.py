"""From a signature to a JSON schema and a validator, by pydantic.

This module imports pydantic, so function.py imports it when the first tool is built.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, ClassVar, cast, get_args, get_type_hints

import pydantic
from pydantic import BaseModel, ConfigDict, Field
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import ErrorDetails, PydanticSerializationError
from pydantic_core.core_schema import (
    DataclassSchema,
    ModelSchema,
    TypedDictSchema,
    WithDefaultSchema,
)

from agentkit.toolset.errors import ToolDefinitionError
from agentkit.toolset.results import in_fixed_order
from agentkit.toolset.signature import Parameter, Signature

_MAX_SHOWN = 200
"""Characters of a wrong value that an error message repeats to the model."""


class InvalidArguments(Exception):
    """The model's arguments do not fit; the message tells the model how to correct them."""


@dataclass(frozen=True, slots=True)
class ArgumentSchema:
    """A tool's parameters: their JSON schema, and the way from parsed JSON to Python values."""

    signature: Signature
    _model: type[BaseModel]

    @classmethod
    def of(cls, signature: Signature, tool_name: str) -> ArgumentSchema:
        """Build the schema of a signature.

        Raises:
            ToolDefinitionError: a parameter's type has no JSON schema.
        """
        for parameter in signature.parameters:
            _check_type(parameter, tool_name)
        # Fields are numbered and the parameter's name is an alias, so that a parameter may be
        # called `schema`, `copy` or `_private` without meeting an attribute of BaseModel.
        fields: Any = {
            f"p{index}": (parameter.annotation, _field(parameter))
            for index, parameter in enumerate(signature.parameters)
        }
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
        return cls(signature, pydantic.create_model("Arguments", __config__=config, **fields))

    def json_schema(self) -> dict[str, object]:
        """The schema that the model sees, before canonicalisation."""
        return self._model.model_json_schema(by_alias=True, schema_generator=_SchemaGenerator)

    def validate(self, arguments: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
        """Turn parsed JSON into positional and keyword arguments; defaults are left to Python.

        Raises:
            InvalidArguments: an argument is missing, unknown or of a wrong type.
        """
        try:
            values = self._values(dict(arguments))
        except pydantic.ValidationError as error:
            raise InvalidArguments(self._explain(error)) from error
        positional: list[object] = []
        keywords: dict[str, object] = {}
        for index, parameter in enumerate(self.signature.parameters):
            if f"p{index}" not in values.model_fields_set:
                if parameter.positional_only:
                    positional.append(parameter.default)
                continue
            value = getattr(values, f"p{index}")
            if parameter.positional_only:
                positional.append(value)
            else:
                keywords[parameter.name] = value
        return positional, keywords

    def _values(self, arguments: dict[str, object]) -> BaseModel:
        """Return the validated arguments. As JSON: strict types take no texts for dates otherwise.

        What pydantic's parser cannot read, as what lies very deep, is validated as it is.
        """
        try:
            return self._model.model_validate_json(json.dumps(arguments))
        except (TypeError, ValueError, RecursionError) as error:
            is_about_values = isinstance(error, pydantic.ValidationError) and not any(
                detail["type"] == "json_invalid" and not detail["loc"]
                for detail in error.errors(include_url=False, include_context=False)
            )
            if is_about_values:
                raise
        return self._model.model_validate(arguments)

    def _explain(self, error: pydantic.ValidationError) -> str:
        problems = [_describe(detail) for detail in error.errors(include_url=False)]
        names = [parameter.name for parameter in self.signature.parameters]
        expected = f"The arguments are: {', '.join(names)}." if names else "It takes no arguments."
        return "\n".join(["The arguments do not fit this tool:", *problems, expected])


class _SchemaGenerator(GenerateJsonSchema):
    """pydantic's generator, with defaults in an order that does not depend on the hash seed."""

    ignored_warning_kinds: ClassVar[set[JsonSchemaWarningKind]] = {  # type: ignore[misc]
        "skipped-choice",
        "non-serializable-default",
    }

    def encode_default(self, dft: Any) -> Any:
        return in_fixed_order(dft, super().encode_default(dft))

    def get_default_value(self, schema: WithDefaultSchema) -> Any:
        default = super().get_default_value(schema)
        if not isinstance(default, Set):
            return default
        # pydantic would sort it by `<`, which among sets means "is contained in" and is no order.
        try:
            return sorted(default, key=lambda each: json.dumps(self.encode_default(each)))
        except (PydanticSerializationError, TypeError, ValueError):
            return default

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        return _with_ordered_examples(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        return _with_ordered_examples(super().dataclass_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
        return _with_ordered_examples(super().typed_dict_schema(schema), schema.get("cls"))


def _with_ordered_examples(json_schema: JsonSchemaValue, kind: type | None) -> JsonSchemaValue:
    """Order the examples that a class's fields give. pydantic hands them on in JSON form only."""
    properties = json_schema.get("properties", {})
    for name, field in _fields(kind).items():
        names = (field.alias, field.validation_alias, field.serialization_alias, name)
        key = next((each for each in names if isinstance(each, str) and each in properties), None)
        shown = None if key is None else properties[key].get("examples")
        if shown is not None and field.examples is not None:
            properties[key]["examples"] = in_fixed_order(field.examples, shown)
    return json_schema


def _fields(kind: type | None) -> dict[str, FieldInfo]:
    """The pydantic fields of a model, dataclass or typed dict."""
    known = getattr(kind, "__pydantic_fields__", None)
    if known is not None:
        return dict(known)
    try:
        hints = get_type_hints(kind, include_extras=True) if kind is not None else {}
    except (NameError, TypeError):
        return {}
    return {
        name: extra
        for name, hint in hints.items()
        for extra in get_args(hint)
        if isinstance(extra, FieldInfo) and extra.examples is not None
    }


def _field(parameter: Parameter) -> Any:
    default = ... if parameter.is_required else parameter.default
    options: dict[str, Any] = {"alias": parameter.name}
    if parameter.description and not _describes_itself(parameter.annotation):
        options["description"] = parameter.description
    return Field(default, **options)


def _describes_itself(annotation: object) -> bool:
    """Whether an `Annotated[..., Field(description=...)]` describes the parameter already."""
    return any(isinstance(extra, FieldInfo) and extra.description for extra in get_args(annotation))


def _check_type(parameter: Parameter, tool_name: str) -> None:
    try:
        pydantic.TypeAdapter(cast(Any, parameter.annotation)).json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        kind = inspect.formatannotation(parameter.annotation)
        raise ToolDefinitionError(
            f"tool {tool_name!r}: parameter {parameter.name!r} of type {kind} has no JSON schema "
            f"({str(error).splitlines()[0]}); use JSON types, dataclasses or pydantic models"
        ) from error


def _describe(detail: ErrorDetails) -> str:
    """One line about one wrong argument: where, what was expected, what came."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"])
    path = path.removeprefix(".") or "arguments"
    match detail["type"]:
        case "missing":
            return f"- {path}: is required, but was not given"
        case "extra_forbidden":
            return f"- {path}: is not an argument of this tool; leave it out"
        case _:
            came = repr(detail["input"])
            came = came if len(came) <= _MAX_SHOWN else came[:_MAX_SHOWN] + "..."
            return f"- {path}: {detail['msg']}; got {came}"
