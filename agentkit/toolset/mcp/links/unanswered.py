"""How many requests of a server may wait for their answers from us.

Each is a task until its answer has been written. A server that asks without end and reads nothing
would fill the memory: beyond so many at once its requests are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_types import JSONRPCMessage

    from agentkit.toolset.mcp.links.wire import RequestId

_MOST = 100


class Unanswered:
    """The requests of one server that were taken and not answered yet."""

    def __init__(self) -> None:
        self.n_dropped = 0
        """How many were dropped: there were too many at once, or one with the same id."""
        self._ids: set[RequestId] = set()

    def takes(self, message: JSONRPCMessage) -> bool:
        """Whether to hand on a message of the server. All but requests is."""
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        match message:
            case JSONRPCRequest(id=request_id):
                if request_id in self._ids or len(self._ids) >= _MOST:
                    self.n_dropped += 1
                    return False
                self._ids.add(request_id)
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": given}):
                # It is not answered any more.
                if isinstance(given, int | str):
                    self._ids.discard(given)
            case _:
                pass
        return True

    def note_sent(self, message: JSONRPCMessage) -> None:
        """Note that a message has gone to the server; it may be an answer."""
        from mcp_types import JSONRPCError, JSONRPCResponse

        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._ids.discard(message.id)

    @property
    def warnings(self) -> list[str]:
        """What is to be said of it."""
        if not self.n_dropped:
            return []
        return [
            f"{self.n_dropped} requests of the server were dropped: more than {_MOST} would have "
            "waited for an answer at once, or two had one id"
        ]
