"""Typed access to the values of a `config.json`, with errors that name file and key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from agentkit_runtime.errors import UnsupportedModel

JsonObject: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Keys:
    """Typed access; a key that is null counts as absent."""

    label: str
    values: JsonObject

    def integer(self, name: str, default: int | None = None) -> int:
        """A positive integer."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.wrong(name, value)
        return value

    def number(self, name: str, default: float) -> float:
        """Any number."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.wrong(name, value)
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, value)
        return value

    def wrong(self, name: str, value: object) -> UnsupportedModel:
        """The error for a value that cannot be used."""
        return UnsupportedModel(
            f"{self.label}: config.json has {name} = {value!r}, which is not implemented or missing"
        )

    def _value(self, name: str, default: object) -> object:
        value = self.values.get(name)
        return default if value is None else value
