"""Whether structured results are what the server said that they would be.

One that is not is kept all the same: the call had its effect, and the model can read what came.
Schema and result are the server's, so the check is bounded: it applies so many keywords, each of
which counts for as much as it holds, and leaves out those whose time nobody can tell.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_MOST_CHARS = 200_000
"""Of a result. Above this nobody reads it whole anyway."""
_MOST_SCHEMA_CHARS = 100_000
_MOST_STEPS = 20_000
_QUICK_STEPS = 500
"""So many take no more than some milliseconds."""
_PARTS_A_STEP = 4
"""Of what a keyword holds, so much is compared in the time of a step."""
_REASON_CHARS = 200
_LEFT_OUT = (
    *("pattern", "patternProperties", "uniqueItems"),
    *("unevaluatedItems", "unevaluatedProperties"),
)

_Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


class OutputSchema:
    """What one tool promises, compiled at its first result."""

    def __init__(self, schema: Mapping[str, object]) -> None:
        self._schema = schema
        self._validator: Validator | None = None
        self._is_useless = False
        self._is_slow = False
        self._steps = _Steps()
        self._sizes: dict[int, int] = {}
        """Of parts of the schema, by identity: they live as long as it."""

    @property
    def is_quick(self) -> bool:
        """Whether a check is known to take little time; the first one has to compile."""
        return self._is_useless or (self._validator is not None and not self._is_slow)

    def problem_with(self, result: Mapping[str, object]) -> str | None:
        """Return how a raw result breaks the promise; None: it keeps it, or nobody can tell.

        May be called in several threads. Errors need not keep it. A schema that is broken itself,
        or refers to elsewhere, promises nothing.
        """
        if result.get("isError") is True or self._is_useless:
            return None
        if "structuredContent" not in result:
            return "it has no structured content, which the tool promises"
        self._steps.left = _MOST_STEPS
        try:
            value: Any = result["structuredContent"]
            if len(json.dumps(value)) > _MOST_CHARS:
                return None
            error = next(iter(self._compiled().iter_errors(value)), None)
        except _TooLongError:
            return None
        except Exception:
            # Whatever the library makes of a schema from elsewhere: it says nothing of the result.
            self._is_useless = True
            return None
        finally:
            self._is_slow |= self._steps.left < _MOST_STEPS - _QUICK_STEPS
        if error is None:
            return None
        where = "/".join(map(str, error.absolute_path)) or "the whole"
        return f"{where}: {error.message[:_REASON_CHARS]}"

    def _compiled(self) -> Validator:
        if self._validator is None:
            from jsonschema import Draft202012Validator, validators
            from referencing import Registry

            text = json.dumps(self._schema)
            if len(text) > _MOST_SCHEMA_CHARS or '"patternProperties"' in text:
                raise ValueError("the schema is too long, or asks for patterns of names")
            Draft202012Validator.check_schema(self._schema)
            keywords = {
                name: self._counted(keyword, is_compared=name in ("const", "enum"))
                for name, keyword in Draft202012Validator.VALIDATORS.items()
            } | dict.fromkeys(_LEFT_OUT, _anything)
            extend: Any = validators.extend  # not typed
            bounded = extend(Draft202012Validator, keywords)
            self._validator = bounded(self._schema, registry=Registry())
        return self._validator

    def _counted(self, keyword: _Keyword, *, is_compared: bool) -> _Keyword:
        def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self._steps.left -= 1 + self._n_parts(value, is_deep=is_compared) // _PARTS_A_STEP
            if self._steps.left < 0:
                raise _TooLongError
            yield from keyword(validator, value, instance, schema) or ()

        return counted

    def _n_parts(self, value: object, *, is_deep: bool) -> int:
        """How much a keyword holds; with `is_deep` all that is in it, which is counted once."""
        if not isinstance(value, dict | list):
            return 0
        if not is_deep:
            return len(value)
        if (known := self._sizes.get(id(value))) is None:
            known = self._sizes[id(value)] = _size(value)
        return known


class PromisedOutputs:
    """What the tools of one server promise, by the server's own names."""

    def __init__(self) -> None:
        self._by_name: dict[str, OutputSchema] = {}

    def learn(self, tools: object) -> None:
        """Take the schemas from a page of a raw list. What is no list of tools says nothing."""
        for tool in tools if isinstance(tools, list) else ():
            match tool:
                case {"name": str(name), "outputSchema": Mapping() as schema}:
                    self._by_name[name] = OutputSchema(schema)
                case {"name": str(name)}:
                    self._by_name.pop(name, None)
                case _:
                    pass

    def is_quick(self, name: str) -> bool:
        """Whether looking at a small result of a tool is known to take little time."""
        promised = self._by_name.get(name)
        return promised is None or promised.is_quick

    def problem_with(self, name: str, result: Mapping[str, object]) -> str | None:
        """Return how a raw result of a tool breaks its promise; None: nothing is wrong."""
        promised = self._by_name.get(name)
        return None if promised is None else promised.problem_with(result)


class _Steps(threading.local):
    """What is left of one check, which runs in one thread."""

    left = 0


class _TooLongError(Exception):
    """The check has taken all its steps."""


def _size(value: object) -> int:
    """How many values there are in one, itself included."""
    match value:
        case dict():
            return 1 + sum(map(_size, value.values()))
        case list():
            return 1 + sum(map(_size, value))
        case _:
            return 1


def _anything(*_: object) -> tuple[()]:
    return ()
