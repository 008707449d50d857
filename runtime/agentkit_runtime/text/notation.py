"""How a call's arguments are written, and the usual way: as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from agentkit_runtime.text.constraint import Vocabulary
from agentkit_runtime.text.json_extent import JsonExtent
from agentkit_runtime.text.lark import lark_schema


@dataclass(frozen=True, slots=True)
class ArgumentsRead:
    """What reading a piece of arguments gave."""

    n_chars: int
    """How many characters of the text are done with; the others come again, with more."""
    json: str
    """More of the arguments, as JSON text."""
    state: Literal["more", "end", "broken"]
    """Whether arguments go on, are whole, or turned into something else at that place."""


class ArgumentReader(Protocol):
    """Reads the arguments of one call while they arrive. How they are split changes nothing."""

    def read(self, text: str) -> ArgumentsRead:
        """Read on: what was left of the last text, and more."""

    def cut(self, text: str) -> str:
        """JSON text of what is left where generation ends inside the arguments."""


class Notation(Protocol):
    """A way to write arguments."""

    def written(self, arguments: str) -> str:
        """Arguments in this notation, from their JSON text."""

    def rules(self, rule: str, schema: Mapping[str, object], vocabulary: Vocabulary) -> list[str]:
        """Lark rules, of which `rule` stands for arguments that fit `schema`, which is bounded.

        Raises `UnboundableSchema` for what this notation cannot be held to.
        """

    def reader(self, parameters: Mapping[str, object]) -> ArgumentReader:
        """A reader for a call of a tool with these parameters."""


@dataclass(frozen=True, slots=True)
class JsonNotation:
    """One JSON object, exactly as it is generated."""

    def written(self, arguments: str) -> str:
        """See `Notation`."""
        return arguments

    def rules(self, rule: str, schema: Mapping[str, object], vocabulary: Vocabulary) -> list[str]:
        """See `Notation`."""
        return [f"{rule}: {lark_schema(dict(schema))}"]

    def reader(self, parameters: Mapping[str, object]) -> ArgumentReader:
        """See `Notation`."""
        return _JsonReader()


class _JsonReader:
    def __init__(self) -> None:
        self._extent = JsonExtent()

    def read(self, text: str) -> ArgumentsRead:
        end = self._extent.feed(text)
        if end is None:
            return ArgumentsRead(len(text), text, "more")
        return ArgumentsRead(end, text[:end], "end")

    def cut(self, text: str) -> str:
        return text
