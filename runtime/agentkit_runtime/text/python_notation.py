"""Arguments as in a call of a Python function, as Llama writes them: `name(city="Oslo", days=3)`.

Texts, numbers, lists and objects are JSON, which Python reads too; `True`, `False` and `None` are
Python's words. What models write by themselves is read with Python's other spellings as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentkit_runtime.text.argument_pairs import argument_pairs
from agentkit_runtime.text.constraint import Vocabulary
from agentkit_runtime.text.lark import lark_plain, lark_schema
from agentkit_runtime.text.notation import ArgumentReader
from agentkit_runtime.text.partial_match import SPACE, Part, Pattern, literal
from agentkit_runtime.text.python_literals import LiteralExtent, json_of, literal_of
from agentkit_runtime.text.schema_bounds import MAX_KEY_CHARS, UnboundableSchema
from agentkit_runtime.text.schema_parts import (
    MAX_NAME_CHARS,
    JsonObject,
    alternatives,
    by_itself,
    kinds,
    listed_values,
    named_arguments,
    other_name,
)
from agentkit_runtime.text.stepwise import StepwiseReader

_NAME = r"""[^\s()\[\]{}=,"']"""


@dataclass(frozen=True, slots=True)
class PythonNotation:
    """Keyword arguments."""

    def written(self, arguments: str) -> str:
        """See `Notation`."""
        pairs = argument_pairs(arguments) or ()
        return ", ".join(f"{name}={literal_of(value)}" for name, value in pairs)

    def rules(self, rule: str, schema: Mapping[str, object], vocabulary: Vocabulary) -> list[str]:
        """See `Notation`."""
        return list(_rules(rule, schema))

    def reader(self, parameters: Mapping[str, object]) -> ArgumentReader:
        """See `Notation`."""
        return _PythonReader()


def _rules(rule: str, schema: JsonObject) -> Iterator[str]:
    """`rule_k` and `rule_k_on`: arguments from the k-th on, behind none and behind others."""
    arguments = named_arguments(schema)
    for k, argument in enumerate(arguments.named):
        if not re.fullmatch(f"{_NAME}+", argument.name):
            raise UnboundableSchema(f"the name {argument.name!r} cannot stand in a call in Python")
        value, more = f"{rule}_{k}_value", f"{rule}_{k + 1}_on"
        first = f"{lark_plain(f'{argument.name}=')} {value}"
        skipped = "" if argument.is_required else f" | {rule}_{k + 1}"
        skipped_on = "" if argument.is_required else f" | {more}"
        yield f"{rule}_{k}: {first} {more}{skipped}"
        yield f'{rule}_{k}_on: ", " {first} {more}{skipped_on}'
        yield from _value_rules(value, argument.schema, schema)
    n = len(arguments.named)
    yield f"{rule}: {rule}_0"
    if arguments.others is None:
        yield f'{rule}_{n}: ""'
        yield f'{rule}_{n}_on: ""'
        return
    other, name = f"{rule}_other", f"{rule.upper()}_NAME"
    yield f'{rule}_{n}: ({other} (", " {other}){{0,{arguments.max_others - 1}}})?'
    yield f'{rule}_{n}_on: (", " {other}){{0,{arguments.max_others}}}'
    yield f'{other}: {name} "=" {rule}_more'
    pattern = f"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_KEY_CHARS - 1}}}"
    yield f"{name}: {other_name(pattern, arguments.named)}"
    yield from _value_rules(f"{rule}_more", arguments.others, schema)


def _value_rules(rule: str, schema: object, root: JsonObject) -> Iterator[str]:
    parts: list[str] = []
    for n, leaf in enumerate(alternatives(schema, root)):
        values = _few_values(leaf, root)
        if values is None:
            parts.append(f"{rule}_{n}")
            yield f"{rule}_{n}: {lark_schema(by_itself(leaf, root))}"
        else:
            written = (json.dumps(value, ensure_ascii=False) for value in values)
            parts += [lark_plain(literal_of(value)) for value in written]
    yield f"{rule}: {' | '.join(parts)}"


def _few_values(leaf: JsonObject, root: JsonObject) -> Sequence[object] | None:
    if kinds(leaf, root) == {"boolean"} and listed_values(leaf) is None:
        return (True, False)
    return (None,) if kinds(leaf, root) == {"null"} else listed_values(leaf)


_FIRST = [
    SPACE,
    Part(rf"(?P<name>{_NAME}{{1,{MAX_NAME_CHARS}}})", rf"{_NAME}{{0,{MAX_NAME_CHARS}}}"),
    SPACE,
    *literal("="),
]
_ARGUMENT = Pattern(_FIRST)
_NEXT = Pattern([SPACE, *literal(","), *_FIRST])
_END = Pattern([SPACE, Part(",?", ",?"), SPACE, *literal(")")])

BEGINNING = Part(
    rf"(?=[ \t\r\n]*(?:\)|{_NAME}{{1,{MAX_NAME_CHARS}}}[ \t]*=))",
    rf"[ \t\r\n]*{_NAME}{{0,{MAX_NAME_CHARS}}}[ \t]*",
)
"""Right behind the bracket that opens arguments: their end, or the first one's name."""


class _PythonReader(StepwiseReader):
    """Each argument comes out when it is whole."""

    def __init__(self) -> None:
        super().__init__()
        self._n_read = 0
        self._value: LiteralExtent | None = None
        self._n_fed = 0

    def _step(self, text: str) -> tuple[int, str] | None:
        return self._between(text) if self._value is None else self._literal(text)

    def cut(self, text: str) -> str:
        return ""

    def _between(self, text: str) -> tuple[int, str] | None:
        """The next name: how many characters are read, and what they say; None: more is needed."""
        last = _END.match(text)
        if not isinstance(last, str):
            self._state = "end"
            return last.end() - 1, "}" if self._n_read else "{}"
        found = (_NEXT if self._n_read else _ARGUMENT).match(text)
        if isinstance(found, str):
            if "more" not in (found, last):
                self._state = "broken"
            return None
        opening = ", " if self._n_read else "{"
        self._n_read += 1
        self._value, self._n_fed = LiteralExtent(), 0
        return found.end(), f"{opening}{json.dumps(found['name'], ensure_ascii=False)}: "

    def _literal(self, text: str) -> tuple[int, str] | None:
        assert self._value is not None, "called inside a value"
        end = self._value.feed(text[self._n_fed :])
        if end is None:
            self._n_fed = len(text)
            return None
        end += self._n_fed
        self._value = None
        return end, json_of(text[:end])
