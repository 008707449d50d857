"""Tool calls on the wire: legal and unique ids, exact arguments."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import NoReturn

from agentkit.blocks import AssistantMessage, ToolCall, VendorItem
from agentkit.models.hosted.anthropic.dialect import Dialect
from agentkit.models.hosted.anthropic.pieces import dumps
from agentkit.models.hosted.anthropic.vendor import fields_of, is_called_by_code

_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ILLEGAL_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class Calls:
    """What the encoding of a turn and of its results must know of the turns before."""

    renamed: tuple[tuple[str, str], ...] = ()
    """Ids of this turn that the wire cannot have as they are -> those it has."""
    by_code: frozenset[str] = frozenset()
    """Calls that code in the provider's sandbox made; marks on them are refused."""

    def wire_id(self, call_id: str) -> str:
        """Return the id on the wire."""
        return dict(self.renamed).get(call_id, call_id)


NO_CALLS = Calls()


class CallLog:
    """Reads a history in its order. What it says of a turn depends on earlier turns only."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._seen: dict[str, int] = {}
        """How often each id has been used. Other vendors' models count anew in each turn."""

    def turn(self, message: AssistantMessage) -> Calls:
        """Return what holds for this turn and its results."""
        calls = message.calls
        if not calls:
            return NO_CALLS
        renamed = []
        for call in calls:
            times = self._seen.get(call.id, 0)
            self._seen[call.id] = times + 1
            if times or not _LEGAL.fullmatch(call.id):
                renamed.append((call.id, _new_id(call.id, times)))
        return Calls(tuple(renamed), self._by_code(message))

    def copy(self) -> CallLog:
        """Return a log that can go on without changing this one."""
        copied = CallLog(self._dialect)
        copied._seen = dict(self._seen)
        return copied

    def _by_code(self, message: AssistantMessage) -> frozenset[str]:
        found = set()
        last: ToolCall | None = None
        for block in message.blocks:
            if isinstance(block, ToolCall):
                last = block
            elif (
                last is not None
                and isinstance(block, VendorItem)
                and self._dialect.is_own(block.source)
                and is_called_by_code(fields_of(block))
            ):
                found.add(last.id)
        return frozenset(found)


def wire_name(name: str) -> str:
    """Return a tool name that the API takes; those of a toolset always are as they are."""
    return _ILLEGAL_CHARACTERS.sub("_", name)[:128] or "_"


def wire_input(arguments: str) -> bytes:
    """Return the `input` of a call: the model's exact text where that is a JSON object.

    Other text is wrapped, always in the same way, as Anthropic's documentation of fine-grained tool
    streaming proposes.
    """
    if not arguments.strip():
        return b"{}"
    if _is_object(arguments):
        return arguments.strip().encode()
    return b'{"INVALID_JSON":%b}' % dumps(arguments)


def _is_object(text: str) -> bool:
    try:
        value = json.loads(text, parse_constant=_refuse)
        # A lone surrogate has an escape in JSON and no UTF-8 form; the API refuses it.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _new_id(call_id: str, times: int) -> str:
    named = hashlib.blake2b(f"{times}:{call_id}".encode(), digest_size=12)
    return f"toolu_{named.hexdigest()}"
