"""Messages in HTTP bodies, made such that the SDK's strict parser takes what can be taken of them.

What it refuses costs a whole list or a result that is there: a lone surrogate, a byte of another
encoding, a schema of hundreds of levels. They are read here as lines of a process are (`wire.py`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agentkit.toolset.mcp.links.transport import LOST, theirs
from agentkit.toolset.mcp.links.wire import Broken, Message, RequestId, read_line
from agentkit.toolset.results import encodable

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

_MAX_DEPTH = 180
"""Levels that are passed on; the parser takes 200. A schema so deep is refused (the limit for
schemas is 64 of their levels, at most three of JSON each with the levels around)."""

_TOO_DEEP = "(nested too deeply)"


def parsable(data: bytes, request_id: RequestId | None, *, is_only: bool = False) -> bytes | None:
    """JSON that the SDK takes as a message, the same bytes if it takes them; None if they are
    nothing that could be the answer to this request. `is_only`: nothing else may be there."""
    from mcp_types import jsonrpc_message_adapter
    from pydantic import ValidationError

    try:
        message = jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValidationError:
        line = read_line(data, set() if request_id is None else {request_id})
    else:
        return _passed_on(message, data, request_id if is_only else None)
    match line:
        case Message(value):
            return _repaired(value, request_id, is_only=is_only)
        case Broken(waiting_id, problem):
            return lost(waiting_id, f"sent {problem}")
        case _:
            return None


def _passed_on(message: JSONRPCMessage, data: bytes, only_for: RequestId | None) -> bytes:
    """A message, the same bytes where nothing in it is ours to say. `only_for`: it has to answer
    this request."""
    passed = theirs(message) if only_for is None else _only_answer(message, only_for)
    if passed is None:
        assert only_for is not None
        return lost(only_for, "sent something else than the answer to the request")
    if passed is message:
        return data
    return passed.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _repaired(
    value: dict[str, object], request_id: RequestId | None, *, is_only: bool
) -> bytes | None:
    from mcp_types import jsonrpc_message_adapter
    from pydantic import ValidationError

    repaired = json.dumps(
        _bare(value, _MAX_DEPTH), ensure_ascii=False, separators=(",", ":")
    ).encode()
    try:
        message = jsonrpc_message_adapter.validate_json(repaired, by_name=False)
    except ValidationError:
        if request_id is None or value.get("id") != request_id:
            return None
        return lost(request_id, "sent an answer that is no JSON-RPC message")
    return _passed_on(message, repaired, request_id if is_only else None)


def _bare(value: object, depth: int) -> object:
    """The value without what cannot be sent as UTF-8, and without what lies below `depth`."""
    match value:
        case str():
            return encodable(value)
        case dict() | list() if depth == 0:
            return _TOO_DEEP
        case dict():
            return {encodable(key): _bare(each, depth - 1) for key, each in value.items()}
        case list():
            return [_bare(each, depth - 1) for each in value]
        case _:
            return value


def _only_answer(message: JSONRPCMessage, request_id: RequestId) -> JSONRPCMessage | None:
    """Return what a body of JSON holds, which can be nothing but the answer to its request; None:
    it is none. An error without an id is of a server that could not read so far."""
    from mcp_types import JSONRPCError, JSONRPCResponse

    if not isinstance(message, JSONRPCError | JSONRPCResponse):
        return None
    if isinstance(message, JSONRPCError) and message.id is None:
        return theirs(message.model_copy(update={"id": request_id}))
    return theirs(message) if str(message.id) == str(request_id) else None


def lost(request_id: RequestId, problem: str) -> bytes:
    """An answer that says what was wrong with the server's; what became of the request is open."""
    error = {"code": LOST, "message": problem}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode()
