"""Looser schemas for arguments that no grammar can be held to as they stand.

Tools come from others, and one schema with a word that the grammar engine does not know must not
end a conversation. Each step allows all that the one before does, and more; the tool itself refuses
what is too much. The prompt shows the schema as it was given in any case.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from agentkit_runtime.chat import ChatTool

_LOGGER = logging.getLogger("agentkit_runtime.text")

UNKNOWN_KEYWORDS = frozenset(
    (
        *("contains", "dependentRequired", "dependentSchemas", "else", "if", "maxContains"),
        *("minContains", "not", "propertyNames", "then", "unevaluatedItems"),
        *("unevaluatedProperties", "uniqueItems"),
    )
)
"""Keywords that hold a value to something, and that the grammar engine does not know."""

Tools: TypeAlias = tuple[tuple[int, ChatTool], ...]
"""Tools with their places in the request."""

_Keep: TypeAlias = Callable[[str], str | None]
_KEPT = 256
_MAX_DEPTH = 64
"""What lies deeper may be anything."""
_MAPS = frozenset(("$defs", "definitions", "patternProperties", "properties"))
_LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_SINGLES = frozenset(("additionalProperties", "items"))


@dataclass(frozen=True, slots=True)
class Looser:
    """A schema in the place of another one."""

    parameters: Mapping[str, object]
    lost: str
    """What calls are not held to."""


def looser(parameters: Mapping[str, object]) -> Iterator[Looser]:
    """Yield looser and looser parameters; the last is any object."""
    known = _without(parameters, _keep_known, 0)
    if known != parameters:
        lost = "keywords that the grammar does not know, and 'exactly one' of oneOf"
        yield Looser(known, lost)
    plain = _without(known, _keep_plain, 0)
    if plain != known:
        yield Looser(plain, "patterns, and keywords that it does not know")
    yield Looser({"type": "object", "additionalProperties": True}, "anything but an object")


def _without(schema: Mapping[str, object], keep: _Keep, depth: int) -> dict[str, object]:
    """Return a schema with its keywords renamed, or left out where `keep` has no name for them."""
    if depth > _MAX_DEPTH:
        return {}
    found: dict[str, object] = {}
    for key, part in schema.items():
        name = keep(key)
        if name is not None and name not in found:
            found[name] = _part(key, part, keep, depth + 1)
    return found


def _part(key: str, part: object, keep: _Keep, depth: int) -> object:
    if key in _MAPS and isinstance(part, Mapping):
        return {name: _each(value, keep, depth) for name, value in part.items()}
    if key in _LISTS and isinstance(part, (list, tuple)):
        return [_each(value, keep, depth) for value in part]
    return _each(part, keep, depth) if key in _SINGLES else part


def _each(value: object, keep: _Keep, depth: int) -> object:
    return _without(value, keep, depth) if isinstance(value, Mapping) else value


def _keep_known(key: str) -> str | None:
    if key in UNKNOWN_KEYWORDS:
        return None
    return "anyOf" if key == "oneOf" else key


def _keep_plain(key: str) -> str | None:
    return None if key in ("pattern", "patternProperties", "format") else key


class LooserTools:
    """Remembers which tools need looser parameters. Safe to use from any thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Mapping[str, object]] = OrderedDict()
        """By name, and the JSON of the parameters: what calls are held to in their place."""
        self._names: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def applied(self, tools: Tools) -> Tools:
        """Return the tools, with looser parameters where they are known to be needed."""
        if not self._names:
            return tools
        return tuple((place, self._applied(tool)) for place, tool in tools)

    def learn(self, tools: Tools, problem: Callable[[int, ChatTool], str | None]) -> None:
        """Find out which tools need them, and remember and tell it.

        Args:
            tools: those of a request that no grammar could be made for.
            problem: says why the parameters of one tool cannot be enforced; None: they can.
        """
        for place, tool in tools:
            why = problem(place, tool)
            if why is None:
                continue
            for step in looser(tool.parameters):
                if problem(place, replace(tool, parameters=step.parameters)) is None:
                    _LOGGER.warning(_LOOSENED, tool.name, step.lost, why)
                    self._remember(tool, step.parameters)
                    break

    def _applied(self, tool: ChatTool) -> ChatTool:
        if tool.name not in self._names:
            return tool
        with self._lock:
            found = self._known.get(_key(tool))
        return tool if found is None else replace(tool, parameters=found)

    def _remember(self, tool: ChatTool, parameters: Mapping[str, object]) -> None:
        with self._lock:
            self._known[_key(tool)] = parameters
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
            self._names = frozenset(name for name, _ in self._known)


_LOOSENED = "tool %r: the grammar holds its calls to a looser schema, without %s: %s"


def _key(tool: ChatTool) -> tuple[str, str]:
    return tool.name, json.dumps(tool.parameters, default=str)
