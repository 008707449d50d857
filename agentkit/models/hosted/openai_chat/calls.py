"""Tool calls from their deltas, also those of servers that number or name them badly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agentkit.errors import ModelError
from agentkit.events import ModelEvent, ToolCallArguments, ToolCallStarted


@dataclass(slots=True)
class _Call:
    number: int
    sent_id: str | None
    """The id as the server gave it."""
    name: str = ""
    waiting: list[str] = field(default_factory=list)
    """Argument text that came before the name."""
    started: bool = False


class CallReader:
    """Turns the `tool_calls` deltas of one answer into events.

    The protocol has an index in every delta, and the id and the name in a call's first. Seen in the
    wild, and read as they are meant: no index, no id, index 0 for every call, the name after the
    arguments, the same id twice, arguments as an object.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._ids: set[str] = set()

    @property
    def any(self) -> bool:
        """Whether there was a call."""
        return bool(self._calls)

    def push(self, deltas: object, answer_id: str) -> Iterator[ModelEvent]:
        """Read the deltas of one chunk. Missing ids are made of `answer_id`, which is unique."""
        if not isinstance(deltas, list):
            return
        for delta in deltas:
            if isinstance(delta, Mapping):
                yield from self._delta(delta, answer_id)

    def finish(self) -> None:
        """Check that all calls are whole.

        Raises:
            ModelError: a call has no name.
        """
        for call in self._calls:
            if not call.started:
                raise ModelError(
                    f"{self._label} sent a tool call without a name (call {call.number})",
                    retryable=True,
                )

    def _delta(self, delta: Mapping[str, object], answer_id: str) -> Iterator[ModelEvent]:
        function = delta.get("function")
        function = function if isinstance(function, Mapping) else {}
        name = function.get("name")
        name = name if isinstance(name, str) else ""
        call = self._call_of(delta, name)
        if not call.started:
            call.name += name
        text = _arguments(function.get("arguments"))
        if call.name and not call.started:
            call.started = True
            call_id = self._unique(call, answer_id)
            yield ToolCallStarted(index=call.number, id=call_id, name=call.name)
            for waiting in call.waiting:
                yield ToolCallArguments(index=call.number, text=waiting)
        if text and call.started:
            yield ToolCallArguments(index=call.number, text=text)
        elif text:
            call.waiting.append(text)

    def _call_of(self, delta: Mapping[str, object], name: str) -> _Call:
        """The call that a delta belongs to, a new one if need be."""
        given, index = delta.get("id"), delta.get("index")
        call_id = given if isinstance(given, str) and given else None
        last = self._calls[-1] if self._calls else None
        known = self._by_index.get(index) if isinstance(index, int) else last
        if known is None or _is_another(known, call_id, name, has_index=isinstance(index, int)):
            known = _Call(number=len(self._calls), sent_id=call_id)
            self._calls.append(known)
        elif known.sent_id is None:
            known.sent_id = call_id
        if isinstance(index, int):
            self._by_index[index] = known
        return known

    def _unique(self, call: _Call, answer_id: str) -> str:
        call_id = call.sent_id or f"{answer_id}-{call.number}"
        if call_id in self._ids:
            call_id = f"{call_id}-{call.number}"
        self._ids.add(call_id)
        return call_id


def _is_another(known: _Call, call_id: str | None, name: str, *, has_index: bool) -> bool:
    """Whether a delta that seems to continue a call begins another one."""
    if call_id is not None and known.sent_id is not None:
        return call_id != known.sent_id
    # Without index and id, a name begins a call.
    return bool(name) and known.started and not has_index


def _arguments(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
