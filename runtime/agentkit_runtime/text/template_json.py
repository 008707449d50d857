"""What chat templates get of a call's arguments: text that a model generated, exactly as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from agentkit_runtime.text.argument_pairs import argument_pairs, text_of


class VerbatimJson:
    """JSON text that `tojson` must not touch: the exact text that a model generated.

    Texts can be put in front of it and behind it, as templates do that expect a string here.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __add__(self, after: str) -> str:
        return self.text + after

    def __radd__(self, before: str) -> str:
        return before + self.text


class NamedArguments(VerbatimJson, Mapping[str, object]):
    """Arguments for templates that write each by itself; `tojson` leaves them as they were.

    A text is a `str`; every other value prints as its own JSON text.
    """

    __slots__ = ("_values",)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        pairs = argument_pairs(text) or ()
        self._values = {name: _value(value) for name, value in pairs}

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _value(text: str) -> object:
    written = text_of(text)
    return VerbatimJson(text) if written is None else written


def to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As transformers defines it for templates: no HTML escapes, text stays text."""
    verbatim: list[str] = []
    text = json.dumps(
        _with_placeholders(value, verbatim),
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
    if ensure_ascii:
        # The marks of `trust` are noncharacters and have to survive as themselves.
        text = _ESCAPED_NONCHARACTER.sub(lambda match: chr(int(match[1], 16)), text)
    for rank, exact in enumerate(verbatim):
        placeholder = json.dumps(_placeholder(rank), ensure_ascii=ensure_ascii)
        text = text.replace(placeholder, exact, 1)
    return text


_ESCAPED_NONCHARACTER = re.compile(r"\\u(fd[de][0-9a-f])")


def _with_placeholders(value: object, verbatim: list[str]) -> object:
    if isinstance(value, VerbatimJson):
        verbatim.append(value.text)
        return _placeholder(len(verbatim) - 1)
    if isinstance(value, Mapping):
        return {key: _with_placeholders(item, verbatim) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_placeholders(item, verbatim) for item in value]
    return value


def _placeholder(rank: int) -> str:
    """A string that no request can contain: lone surrogates are refused before rendering."""
    return f"\udc00{rank}\udc00"
