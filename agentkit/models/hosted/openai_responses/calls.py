"""Ids and names of calls that the API takes, also where another vendor's model made them up.

Source: the API's errors for longer or other values (measured). What a turn's ids become depends on
earlier turns only, so they stay what they are when the conversation goes on.
"""

from __future__ import annotations

import hashlib
import re

from agentkit.blocks import AssistantMessage

_MAX_ID = 64
_MAX_NAME = 64
_ILLEGAL_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")

Renamed = tuple[tuple[str, str], ...]
"""Ids of one turn that the wire cannot have as they are, and those it has."""

NOT_RENAMED: Renamed = ()


class CallLog:
    """Reads a history in its order."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        """How often each id has been used. Some models count anew in each turn."""

    def turn(self, message: AssistantMessage) -> Renamed:
        """Return what the ids of this turn, and of its results, become."""
        renamed = []
        for call in message.calls:
            times = self._times.get(call.id, 0)
            self._times[call.id] = times + 1
            if times or not 0 < len(call.id) <= _MAX_ID:
                renamed.append((call.id, _new_id(call.id, times)))
        return tuple(renamed)

    def copy(self) -> CallLog:
        """Return a log that can go on without changing this one."""
        copied = CallLog()
        copied._times = dict(self._times)
        return copied


def wire_name(name: str) -> str:
    """Return a tool name that the API takes; those of a toolset always are as they are."""
    return _ILLEGAL_IN_NAMES.sub("_", name)[:_MAX_NAME] or "_"


def _new_id(call_id: str, times: int) -> str:
    named = hashlib.blake2b(f"{times}:{call_id}".encode(), digest_size=12)
    return f"call_{named.hexdigest()}"
