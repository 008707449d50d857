"""Tool calls on the wire: legal and unique ids, exact arguments."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit.blocks import AssistantMessage, ToolCall, VendorItem
from agentkit.models.hosted.anthropic.dialect import Dialect
from agentkit.models.hosted.anthropic.vendor import is_called_by_code
from agentkit.models.hosted.call_ids import NOT_RENAMED, CallIdRule, Renamed
from agentkit.models.hosted.call_ids import CallLog as CallIds
from agentkit.models.hosted.wire_json import compact_json, is_json_object, object_of

MAX_NAME_CHARS = 128

_RULE = CallIdRule(
    pattern="[a-zA-Z0-9_-]{1,128}", unique=True, prefix="toolu_", digits=24, hash_bytes=12
)


@dataclass(frozen=True, slots=True)
class Calls:
    """What the encoding of a turn and of its results must know of the turns before."""

    renamed: Renamed = NOT_RENAMED
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
        self._ids = CallIds(_RULE)

    def turn(self, message: AssistantMessage) -> Calls:
        """Return what holds for this turn and its results."""
        if not message.calls:
            return NO_CALLS
        return Calls(self._ids.turn(message), self._by_code(message))

    def copy(self) -> CallLog:
        """Return a log that can go on without changing this one."""
        copied = CallLog(self._dialect)
        copied._ids = self._ids.copy()
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
                and is_called_by_code(object_of(block))
            ):
                found.add(last.id)
        return frozenset(found)


def wire_input(arguments: str) -> bytes:
    """Return the `input` of a call: the model's exact text where that is a JSON object.

    Other text is wrapped, always in the same way, as Anthropic's documentation of fine-grained tool
    streaming proposes.
    """
    if not arguments.strip():
        return b"{}"
    if is_json_object(arguments):
        return arguments.strip().encode()
    return b'{"INVALID_JSON":%b}' % compact_json(arguments)
