"""Ids and names of calls that a server takes, also where another vendor's model made them up.

What a turn's ids become depends on earlier turns only, so they stay what they are as the
conversation goes on.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from agentkit.blocks import AssistantMessage

Renamed = tuple[tuple[str, str], ...]
"""Ids of one turn that the server would refuse, and what is sent in their place."""

NOT_RENAMED: Renamed = ()

_ILLEGAL_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallIdRule:
    """What the ids of calls must be like. Only others are replaced, because models read them."""

    pattern: str
    unique: bool = False
    """Whether an id may occur in one turn only. Some models count anew in each turn."""
    prefix: str = "call_"
    digits: int = 24
    """Made-up ids are the prefix and this many hexadecimal digits."""
    hash_bytes: int = 32
    """Length of the hash that these digits begin. BLAKE2b of another length is another hash, and
    what was sent once stays as it was."""


class CallLog:
    """Reads a history in its order."""

    def __init__(self, rule: CallIdRule | None) -> None:
        self._rule = rule
        self._times: dict[str, int] = {}
        """How often each id has been used."""

    def turn(self, message: AssistantMessage) -> Renamed:
        """Return what the ids of this turn, and of its results, become."""
        rule = self._rule
        if rule is None:
            return NOT_RENAMED
        renamed = []
        for call in message.calls:
            times = self._times.get(call.id, 0)
            self._times[call.id] = times + 1
            if (rule.unique and times) or not re.fullmatch(rule.pattern, call.id):
                renamed.append((call.id, _new_id(call.id, times if rule.unique else 0, rule)))
        return tuple(renamed)

    def copy(self) -> CallLog:
        """Return a log that can go on without changing this one."""
        copied = CallLog(self._rule)
        copied._times = dict(self._times)
        return copied


def wire_name(name: str, *, max_chars: int = 64) -> str:
    """Return a tool name that a server takes; those of a toolset always are as they are."""
    return _ILLEGAL_IN_NAMES.sub("_", name)[:max_chars] or "_"


def _new_id(call_id: str, times: int, rule: CallIdRule) -> str:
    named = hashlib.blake2b(f"{times}:{call_id}".encode(), digest_size=rule.hash_bytes)
    return rule.prefix + named.hexdigest()[: rule.digits]
