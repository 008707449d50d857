"""One life of an MCP server: its transport, its session, and the task that owns both.

The SDK's session must be left in the task that entered it. So one task does both and waits in
between; everybody else only sends requests. When the link is dead it stays dead; `McpConnection`
makes a new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.calls.callbacks import Callbacks
from agentkit.toolset.mcp.calls.outputs import PromisedOutputs
from agentkit.toolset.mcp.links.handshake import ServerEnded, negotiate, problem_of
from agentkit.toolset.mcp.links.hearing import Wanted, hearing
from agentkit.toolset.mcp.links.patience import Patience
from agentkit.toolset.mcp.links.stamp import CLIENT, Stamp
from agentkit.toolset.mcp.links.transport import TOO_LATE, Transport, open_transport
from agentkit.toolset.mcp.server import McpServer, Protocol
from agentkit.toolset.outlast import outlast

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.shared.dispatcher import CallOptions, ProgressFnT
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

__all__ = ["McpLink", "ServerEnded"]

_LOGGER = logging.getLogger("agentkit.mcp")

_NOTICE_S = 0.25
"""How long telling the server that a request is abandoned may hold up the caller."""

_LAST_S = 0.05
"""How long the session of a dead transport is kept, for its last answers."""

_LEAVE_S = 15.0
"""How long leaving a transport may take before it is cancelled, and then once more; each transport
has shorter limits of its own."""


class McpLink:
    """A live session with one server."""

    def __init__(self, server: McpServer, transport: Transport, protocol: Protocol) -> None:
        self.n_list_changes = 0
        """Notifications that the tool list changed, and times when one may have been missed."""
        self.list_changed = asyncio.Event()
        """Set when the tool list may have changed; whoever lists the tools clears it before."""
        self.announces_changes = False
        """Whether the server says that it will announce changes of its tools."""
        self.transport = transport
        """For its process id and junk."""
        self.callbacks = Callbacks(server, transport.secrets.hidden)
        """What the server may ask, and tells. Its clock stands still while it waits for us."""
        self.promised = PromisedOutputs()
        """What its tools say that their results are like."""
        self.resources_changed = asyncio.Event()
        """Set when a resource, or their list, may have changed; who reads them clears it before."""
        self._server = server
        self._session: ClientSession | None = None
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._dispatcher: JSONRPCDispatcher[Any] | None = None
        self._stamp: Stamp | None = None
        self._abandoned: set[asyncio.Task[dict[str, Any]]] = set()
        self._owner = asyncio.create_task(self._own(protocol), name=f"mcp-{server.alias}")

    @classmethod
    async def open(cls, server: McpServer, protocol: Protocol, deadline: float) -> McpLink:
        """Start or call the server and agree on a protocol before `deadline`, in seconds of the
        loop's clock.

        Raises:
            ServerEnded: its process ended before it answered.
            McpConnectError: it did not start, was too slow, or refused the handshake.
        """
        transport = await open_transport(server)
        # No await between the start of a process and the task that will end it.
        is_old = server.transport == "sse"
        link = cls(server, transport, "legacy" if is_old else protocol)
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.shield(link._ready)
        except TimeoutError:
            await link.close(hurry=True)
            raise link.too_late() from None
        except BaseException:
            await link.close(hurry=True)
            raise
        return link

    @property
    def session(self) -> ClientSession:
        """The SDK's session, for what the server has said of itself. Its requests are typed: see
        `request`."""
        assert self._session is not None
        return self._session

    @property
    def is_modern(self) -> bool:
        """Whether it speaks the modern protocol, in which a server asks inside its answers."""
        return self._stamp is not None and self._stamp.is_modern

    @property
    def is_alive(self) -> bool:
        """Whether requests can be sent."""
        return not self._stop.is_set() and not self.transport.closed.is_set()

    async def request(
        self,
        method: str,
        params: Mapping[str, object],
        timeout_s: float | None,
        on_progress: ProgressFnT | None = None,
    ) -> Mapping[str, object]:
        """Send a request and return its raw result, from any task.

        The SDK's typed calls are not used: they throw away a whole list for one bad tool, and a
        good result for one unknown block.

        The time counts from here, writing included, and again from each progress that the server
        reports, up to ten times as long; not while the server waits for an answer from us. A server
        that does not read its input is given up when it ends: what was half written cannot be
        taken back.

        Raises:
            MCPError: the server's error, the timeout, or the end of the connection. The codes in
                `transport.py` say that the server had no part in it.
        """
        from mcp import MCPError

        assert self._dispatcher is not None
        assert self._stamp is not None
        pauses = self.callbacks.pauses
        patience = Patience(timeout_s, pauses.clock)
        options: CallOptions = {"headers": self._stamp.headers(method, params)}
        if method == "tools/call":
            # Asking for progress costs nothing, and tells a slow server from a dead one.
            options["on_progress"] = patience.noting(on_progress)
        # The SDK's own timeout covers only the wait for the answer, not that for the pipe.
        sending = asyncio.create_task(
            self._dispatcher.send_raw_request(method, self._stamp.params(params), options)
        )
        try:
            await pauses.wait(sending, patience)
            if timeout_s is not None and not sending.done():
                if self.transport.is_stuck(timeout_s / 2):
                    self.transport.give_up()
                await self._abandon(sending)
        except asyncio.CancelledError:
            await self._abandon(sending)
            raise
        if sending.done() and not sending.cancelled():
            try:
                result = sending.result()
            except MCPError as error:
                # Its data says where a person must go: that has to stay as it is.
                said = self.transport.secrets.hidden(error.message)
                raise MCPError(code=error.code, message=said, data=error.error.data) from None
            if method == "tools/list":
                self._stamp.learn(result.get("tools"))
                self.promised.learn(result.get("tools"))
            return result
        raise MCPError(code=TOO_LATE, message=f"request {method!r} timed out")

    async def close(self, *, hurry: bool = False) -> None:
        """End session and server. Returns when both are gone, also if cancelled meanwhile.

        What is not gone after 15 s is cancelled, and after as long again left behind with a line in
        the log: only a server object of this process, which nobody can kill, can come to that.
        """
        self._stop.set()
        if not self._ready.done():
            # It waits for a handshake that may never come, and not yet for `_stop`.
            self._owner.cancel()
        if hurry:
            self.transport.hurry.set()
        cancelled = await self._owner_ends()
        if not self._owner.done():
            self._owner.cancel()
            cancelled = await self._owner_ends() or cancelled
        if not self._owner.done():
            _LOGGER.error("%s: its connection cannot be ended", self._server.alias)
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()
        if cancelled is not None:
            raise cancelled

    async def _owner_ends(self) -> asyncio.CancelledError | None:
        """Wait for the end of the owner, for a time; also if cancelled, since the process must not
        outlive us. Returns the cancellation."""
        return await outlast(self._owner, timeout_s=_LEAVE_S, on_cancel=self.transport.hurry.set)

    async def problem(self) -> str:
        """Why the link is dead, said of the server, with its last words."""
        return await self.transport.problem()

    def too_late(self) -> McpConnectError:
        """The error for a server that did not come up in time."""
        words = self.transport.last_words
        said = f"; its stderr says: {words[-1000:]}" if words else ""
        if (junk := self.transport.first_junk) is not None:
            n_lines = self.transport.n_junk_lines
            said += f"; {n_lines} lines on its stdout are no messages, the first is {junk!r}"
        if (fault := self.transport.fault) is not None:
            said += f"; it {fault}"
        limit_s = self._server.connect_timeout_s
        return McpConnectError(self._server.alias, f"did not come up within {limit_s:g} s{said}")

    async def _abandon(self, sending: asyncio.Task[dict[str, Any]]) -> None:
        """Cancel a request; the SDK tells the server. A blocked pipe does not hold up the caller.

        The wait lets the notice go out before what the caller sends next.
        """
        self._abandoned.add(sending)
        sending.add_done_callback(self._forget)
        sending.cancel()
        await asyncio.wait([sending], timeout=_NOTICE_S)

    def _forget(self, sending: asyncio.Task[dict[str, Any]]) -> None:
        self._abandoned.discard(sending)
        if not sending.cancelled():
            # Looked at, so that asyncio does not report it as lost; nobody waits for it.
            sending.exception()

    async def _own(self, protocol: Protocol) -> None:
        try:
            with self.transport.secrets.kept_from_logs():
                await self._live(protocol)
        except asyncio.CancelledError:
            self._fail(McpConnectError(self._server.alias, "was cancelled while connecting"))
            raise
        except Exception as error:
            # After the handshake nobody waits for this; the dead transport tells the rest.
            self._fail(await problem_of(error, self._server.alias, self.transport))

    async def _live(self, protocol: Protocol) -> None:
        from mcp import ClientSession
        from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
        from mcp_types import Implementation

        async with self.transport as (receive, send):
            self._dispatcher = JSONRPCDispatcher(receive, send)
            async with ClientSession(
                dispatcher=self._dispatcher,
                message_handler=self._on_message,
                client_info=Implementation.model_validate(CLIENT),
                **self.callbacks.for_session,
            ) as session:
                error = await negotiate(session, protocol, self._server.alias, self.transport)
                # Not raised: the session's task group would wrap it.
                if error is not None:
                    self._fail(error)
                    return
                self._agreed(session)
                async with hearing(session, self.transport, self._note_change):
                    if not self._ready.done():
                        self._ready.set_result(None)
                        await self._wait_for_end()

    def _agreed(self, session: ClientSession) -> None:
        """Note what the handshake has settled."""
        self._session = session
        is_over_http = self._server.url is not None
        self._stamp = Stamp(session, self.callbacks.meta, is_over_http=is_over_http)
        said = session.server_capabilities
        self.announces_changes = bool(said and said.tools and said.tools.list_changed)

    async def _wait_for_end(self) -> None:
        waits = [
            asyncio.ensure_future(event.wait()) for event in (self._stop, self.transport.closed)
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            # What has come before the end still reaches those who wait for it.
            await asyncio.wait(waits[:1], timeout=_LAST_S)
        finally:
            for wait in waits:
                wait.cancel()

    async def _on_message(self, message: object) -> None:
        method = getattr(message, "method", None)
        if method == "notifications/tools/list_changed":
            self._note_change({"tools"})
        elif method in ("notifications/resources/list_changed", "notifications/resources/updated"):
            self._note_change({"resources"})

    def _note_change(self, wanted: Set[Wanted]) -> None:
        if "tools" in wanted:
            self.n_list_changes += 1
            self.list_changed.set()
        if "resources" in wanted:
            self.resources_changed.set()

    def _fail(self, error: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
