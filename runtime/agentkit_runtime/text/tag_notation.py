"""Arguments between tags, as Qwen3-Coder writes them: a tag for each, and its value as raw text.

A value is `<parameter=NAME>`, a line break, the value, a line break, `</parameter>`. A text stands
there as it is, and everything else as JSON; only the tool's schema says which of the two it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from agentkit_runtime.text.argument_pairs import argument_pairs, text_of
from agentkit_runtime.text.constraint import Vocabulary
from agentkit_runtime.text.notation import ArgumentReader
from agentkit_runtime.text.partial_match import SPACE, Part, Pattern, literal
from agentkit_runtime.text.reasoning import partial_end
from agentkit_runtime.text.schema_parts import Kind, kind_of, kinds
from agentkit_runtime.text.stepwise import StepwiseReader
from agentkit_runtime.text.tag_rules import tag_rules

_MAX_NAME_CHARS = 256
_WORDS = {"True": ("boolean", "true"), "False": ("boolean", "false"), "None": ("null", "null")}
"""Python's, which models write where JSON's are meant."""


@dataclass(frozen=True, slots=True)
class TagNotation:
    """A tag for each argument."""

    def written(self, arguments: str) -> str:
        """See `Notation`."""
        pairs = argument_pairs(arguments) or ()
        return "".join(
            f"<parameter={name}>\n{_raw(value)}\n</parameter>\n" for name, value in pairs
        )

    def rules(self, rule: str, schema: Mapping[str, object], vocabulary: Vocabulary) -> list[str]:
        """See `Notation`. The `format` of a text is not held to."""
        return tag_rules(rule, schema)

    def reader(self, parameters: Mapping[str, object]) -> ArgumentReader:
        """See `Notation`."""
        return _TagReader(parameters)


def _raw(value: str) -> str:
    text = text_of(value)
    return value if text is None else text


_NAME = r"[^>\n]"
_TAG = Pattern(
    [
        *[SPACE, *literal("<parameter=")],
        Part(rf"(?P<name>{_NAME}{{1,{_MAX_NAME_CHARS}}})", rf"{_NAME}{{0,{_MAX_NAME_CHARS}}}"),
        *literal(">"),
    ]
)
_LAST = Pattern([SPACE, *literal("</function>")])
_CLOSING = "</parameter>"
_TEXT: frozenset[Kind] = frozenset(("string",))


class _TagReader(StepwiseReader):
    """Texts come out as they arrive, other values when they are whole."""

    def __init__(self, parameters: Mapping[str, object]) -> None:
        super().__init__()
        self._parameters = parameters
        self._n_read = 0
        self._kinds: frozenset[Kind] | None = None
        """What the value that is being read can be; None between values."""
        self._closing: str | None = None
        """What ends that value; None until its first character is there."""
        self._n_searched = 0
        """Characters of the waiting text that hold no end."""

    def _step(self, text: str) -> tuple[int, str] | None:
        return self._between(text) if self._kinds is None else self._value(text)

    def cut(self, text: str) -> str:
        return _escaped(text) if self._closing is not None and self._is_text else ""

    @property
    def _is_text(self) -> bool:
        return self._kinds == _TEXT

    def _between(self, text: str) -> tuple[int, str] | None:
        """The next tag: how many characters are read, and what they say; None: more is needed."""
        found, last = _TAG.match(text), _LAST.match(text)
        if not isinstance(last, str):
            self._state = "end"
            return 0, "}" if self._n_read else "{}"
        if isinstance(found, str):
            if "more" not in (found, last):
                self._state = "broken"
            return None
        name = found["name"]
        self._kinds, self._closing, self._n_searched = self._kinds_of(name), None, 0
        opening = ", " if self._n_read else "{"
        self._n_read += 1
        return found.end(), f"{opening}{json.dumps(name, ensure_ascii=False)}: "

    def _kinds_of(self, name: str) -> frozenset[Kind]:
        properties = self._parameters.get("properties")
        schema = properties.get(name) if isinstance(properties, Mapping) else None
        return kinds(schema, self._parameters)

    def _value(self, text: str) -> tuple[int, str] | None:
        if self._closing is None:
            return self._value_start(text)
        at = text.find(self._closing, max(0, self._n_searched - len(self._closing)))
        if at >= 0:
            value = f'{_escaped(text[:at])}"' if self._is_text else _json(text[:at], self._kinds)
            end = at + len(self._closing)
            self._kinds = self._closing = None
            return end, value
        if not self._is_text:
            self._n_searched = len(text)
            return None
        n_safe = len(text) - partial_end(text, [self._closing])
        return (n_safe, _escaped(text[:n_safe])) if n_safe else None

    def _value_start(self, text: str) -> tuple[int, str] | None:
        """The line break in front of a value; without one, there is none behind it either."""
        whole = f"\n{_CLOSING}"
        if text != whole and whole.startswith(text):
            return None
        has_line = text.startswith("\n")
        is_empty = text.startswith(whole)  # nothing, and not even a line for it
        self._closing = whole if has_line and not is_empty else _CLOSING
        return int(has_line), '"' if self._is_text else ""


def _json(text: str, allowed: frozenset[Kind] | None) -> str:
    """A value's JSON: its own text if it is JSON that may stand here, else a string."""
    may_be = allowed or frozenset()
    try:
        kind = kind_of(json.loads(text, parse_constant=_refuse))
    except (ValueError, RecursionError):
        kind = "string"
    if kind != "string" and (kind in may_be or (kind == "integer" and "number" in may_be)):
        return text
    word = _WORDS.get(text.strip())
    if word is not None and word[0] in may_be and "string" not in may_be:
        return word[1]
    return json.dumps(text, ensure_ascii=False)


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
