"""In which order blocks may stand: Anthropic's rules for calls and their results.

A user's turn that follows calls begins with the results of all of them, and results stand nowhere
else. Neighbouring messages of one role are one turn.
https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from agentkit_runtime.api.anthropic.blocks import Placed
from agentkit_runtime.api.failure import ApiError

_ASSISTANT_ONLY = frozenset({"tool_use", "thinking", "redacted_thinking"})


def check_order(placed: Sequence[Placed]) -> None:
    """Raise `ApiError` (400), which names the block, where a rule is broken."""
    seen: set[str] = set()
    open_calls: dict[str, str] = {}
    """Paths of the calls of the turn before, by their ids."""
    turned = [item for item in placed if item.role != "system"]
    for role, group in groupby(turned, key=lambda item: item.role):
        turn = list(group)
        if role == "assistant":
            open_calls = _calls_of(turn, seen)
        else:
            _check_results(turn, open_calls)
            open_calls = {}
    _require_answered(open_calls)


def _calls_of(turn: Iterable[Placed], seen: set[str]) -> dict[str, str]:
    calls: dict[str, str] = {}
    for item in turn:
        block = item.block
        if block.type == "tool_result":
            raise ApiError(
                f"{item.path} is a tool_result, which belongs to the user", param=item.path
            )
        if block.type == "tool_use" and block.id is not None:
            if block.id in seen:
                raise ApiError(
                    f"{item.path}.id is {block.id!r}, which an earlier tool_use has; ids must be "
                    "unique",
                    param=f"{item.path}.id",
                )
            seen.add(block.id)
            calls[block.id] = item.path
    return calls


def _check_results(turn: Sequence[Placed], calls: dict[str, str]) -> None:
    waiting = dict(calls)
    began_otherwise = False
    for item in turn:
        if item.block.type in _ASSISTANT_ONLY:
            raise ApiError(
                f"{item.path} is a {item.block.type} block, which belongs to the assistant",
                param=item.path,
            )
        if item.block.type != "tool_result":
            began_otherwise = True
            continue
        if began_otherwise:
            raise ApiError(
                f"{item.path} is a tool_result behind other content; results come first in a turn",
                param=item.path,
            )
        _take(item, calls, waiting)
    _require_answered(waiting)


def _take(item: Placed, calls: dict[str, str], waiting: dict[str, str]) -> None:
    call_id, path = item.block.tool_use_id, f"{item.path}.tool_use_id"
    if call_id is None or call_id not in calls:
        raise ApiError(
            f"{path} is {call_id!r}, but the assistant's turn before it has no tool_use with that "
            "id",
            param=path,
        )
    if waiting.pop(call_id, None) is None:
        raise ApiError(f"{path} is {call_id!r}, which has a result already", param=path)


def _require_answered(calls: dict[str, str]) -> None:
    for call_id, path in calls.items():
        raise ApiError(
            f"{path} is a tool_use ({call_id!r}) without a tool_result right behind it; send the "
            "results of all calls at the beginning of the next user message",
            param=path,
        )
