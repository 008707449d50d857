"""One life of an MCP server: its process, its session, and the task that owns both.

The SDK's session must be left in the task that entered it. So one task does both and waits in
between; everybody else only sends requests. When the link is dead it stays dead; `McpConnection`
makes a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.callbacks import Callbacks
from agentkit.toolset.mcp.process import ServerProcess
from agentkit.toolset.mcp.server import McpServer, Protocol
from agentkit.toolset.mcp.stdio import StdioTransport

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.shared.dispatcher import CallOptions, ProgressFnT
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher


_NOTICE_S = 0.25
"""How long telling the server that a request is abandoned may hold up the caller."""


class ServerEnded(McpConnectError):
    """The server ended, or closed its stdout, before the handshake was done."""


class McpLink:
    """A live session with one server process."""

    def __init__(self, server: McpServer, process: ServerProcess, protocol: Protocol) -> None:
        self.n_list_changes = 0
        """Notifications that the tool list changed. The pinned toolset does not follow them."""
        self.list_changed = asyncio.Event()
        """Set when the tool list may have changed; whoever lists the tools clears it before."""
        self.announces_changes = False
        """Whether the server says that it will announce changes of its tools."""
        self.transport = StdioTransport(process, server.max_message_bytes)
        """For its process id, exit code, stderr and junk."""
        self.callbacks = Callbacks(server)
        """What the server may ask of us, and tells; its clock stands still where it waits for us."""
        self._server = server
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._dispatcher: JSONRPCDispatcher[Any] | None = None
        self._meta: dict[str, object] | None = None
        self._abandoned: set[asyncio.Task[dict[str, Any]]] = set()
        self._owner = asyncio.create_task(self._own(protocol), name=f"mcp-{server.alias}")

    @classmethod
    async def open(cls, server: McpServer, protocol: Protocol, deadline: float) -> McpLink:
        """Start the server and agree on a protocol before `deadline`, in seconds of the loop's
        clock.

        Raises:
            ServerEnded: the process ended before it answered.
            McpConnectError: it did not start, was too slow, or refused the handshake.
        """
        cwd = None if server.cwd is None else Path(server.cwd)
        try:
            process = await ServerProcess.start(server.command, server.process_env, cwd)
        except (OSError, ValueError) as error:
            raise McpConnectError(server.alias, f"cannot be started: {error}") from error
        # No await between the start of the process and the task that will end it.
        link = cls(server, process, protocol)
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
    def is_modern(self) -> bool:
        """Whether it speaks the modern protocol, in which a server asks inside its answers."""
        return self._meta is not None

    @property
    def is_alive(self) -> bool:
        """Whether requests can be sent."""
        return not self._stop.is_set() and not self.transport.closed.is_set()

    async def request(
        self,
        method: str,
        params: dict[str, object],
        timeout_s: float | None,
        on_progress: ProgressFnT | None = None,
    ) -> Mapping[str, object]:
        """Send a request and return its raw result, from any task.

        The SDK's typed calls are not used: they throw away a whole list for one bad tool, and a
        good result for one unknown block.

        The time counts from here, writing included. A server that does not read its input is
        given up when it ends: what was half written cannot be taken back.

        Raises:
            MCPError: the server's error, the timeout, or the end of the connection.
        """
        from mcp import MCPError
        from mcp_types import REQUEST_TIMEOUT

        options: CallOptions = {} if on_progress is None else {"on_progress": on_progress}
        assert self._dispatcher is not None
        if self._meta is not None:
            params = {**params, "_meta": self._meta}
        # The SDK's own timeout covers only the wait for the answer, not that for the pipe.
        sending = asyncio.create_task(self._dispatcher.send_raw_request(method, params, options))
        try:
            await self.callbacks.pauses.wait(sending, timeout_s)
            if timeout_s is not None and not sending.done():
                if self.transport.is_stuck(timeout_s / 2):
                    self.transport.give_up()
                await self._abandon(sending)
        except asyncio.CancelledError:
            await self._abandon(sending)
            raise
        if sending.done() and not sending.cancelled():
            return sending.result()
        raise MCPError(code=REQUEST_TIMEOUT, message=f"request {method!r} timed out")

    async def close(self, *, hurry: bool = False) -> None:
        """End session and process. Returns when both are gone, also if cancelled meanwhile."""
        self._stop.set()
        if not self._ready.done():
            # It waits for a handshake that may never come, and not yet for `_stop`.
            self._owner.cancel()
        if hurry:
            self.transport.hurry.set()
        cancelled = False
        while not self._owner.done():
            try:
                await asyncio.wait([self._owner])
            except asyncio.CancelledError:
                # The process must not outlive us; what remains is bounded, and now quick.
                cancelled = True
                self.transport.hurry.set()
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()
        if cancelled:
            raise asyncio.CancelledError

    async def problem(self) -> str:
        """Why the link is dead, with the last words of the server."""
        await self.transport.settle()
        code, tail = self.transport.exit_code, self.transport.stderr_tail
        if self.transport.fault is not None:
            return (
                f"{self.transport.fault}; its stderr says: {tail[-1000:]}"
                if tail
                else (self.transport.fault)
            )
        ended = f"ended with exit code {code}" if code is not None else "closed the connection"
        return f"{ended}; its stderr says: {tail[-1000:]}" if tail else f"{ended} without a word"

    def too_late(self) -> McpConnectError:
        """The error for a server that did not come up in time."""
        tail = self.transport.stderr_tail
        said = f"; its stderr says: {tail[-1000:]}" if tail else ""
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
            await self._live(protocol)
        except asyncio.CancelledError:
            self._fail(McpConnectError(self._server.alias, "was cancelled while connecting"))
            raise
        except Exception as error:
            # After the handshake nobody waits for this; the dead transport tells the rest.
            self._fail(error)

    async def _live(self, protocol: Protocol) -> None:
        from mcp import ClientSession
        from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

        async with self.transport as (receive, send):
            self._dispatcher = JSONRPCDispatcher(receive, send)
            async with ClientSession(
                dispatcher=self._dispatcher,
                message_handler=self._on_message,
                **self.callbacks.for_session,
            ) as session:
                error = await self._shake_hands(session, protocol)
                # Not raised: the session's task group would wrap it.
                if error is not None:
                    self._fail(error)
                elif not self._ready.done():
                    self._ready.set_result(None)
                    await self._wait_for_end()

    async def _shake_hands(
        self, session: ClientSession, protocol: Protocol
    ) -> McpConnectError | None:
        from mcp import MCPError

        try:
            await _negotiate(session, protocol)
        except (MCPError, ValueError, RuntimeError) as error:
            if self.transport.closed.is_set():
                return ServerEnded(self._server.alias, await self.problem())
            return McpConnectError(self._server.alias, f"refused the handshake: {error}")
        self._meta = _request_meta(session, self.callbacks.meta)
        offered = session.server_capabilities and session.server_capabilities.tools
        self.announces_changes = bool(offered and offered.list_changed)
        return None

    async def _wait_for_end(self) -> None:
        waits = [
            asyncio.ensure_future(event.wait()) for event in (self._stop, self.transport.closed)
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _on_message(self, message: object) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            self.n_list_changes += 1
            self.list_changed.set()

    def _fail(self, error: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)


async def _negotiate(session: ClientSession, protocol: Protocol) -> None:
    """Agree on a protocol: the modern one if the server knows it, else the old handshake."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, UNSUPPORTED_PROTOCOL_VERSION

    if protocol == "auto":
        try:
            await session.discover()
            return
        except (MCPError, ValueError, RuntimeError) as error:
            if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
                raise
    try:
        await session.initialize()
    except MCPError as error:
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        # A slow server answered the first probe after we had given it up, and is now a modern one.
        await session.discover()


def _request_meta(
    session: ClientSession, of_callbacks: Mapping[str, object]
) -> dict[str, object] | None:
    """What the modern protocol wants in each request: version, client, and capabilities."""
    from mcp_types import CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

    if session.discover_result is None:
        return None
    return {
        PROTOCOL_VERSION_META_KEY: session.protocol_version,
        CLIENT_INFO_META_KEY: {"name": "agentkit", "version": "1"},
        **of_callbacks,
    }
