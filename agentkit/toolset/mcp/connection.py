"""One connection to an MCP server: started, listed, called, and started again when it has ended.

The tools are listed once and pinned: a server that changes its list, or restarts with another
one, does not move the prompt's prefix; `warnings` says what happened. A server that dies answers
with error results and is started again at the next call. A call is never sent twice, since it may
have had an effect, unless the policy for its tool says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import TracebackType

from agentkit.toolset.caller import NOBODY, Caller
from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.calling import make_call
from agentkit.toolset.mcp.link import McpLink, ServerEnded
from agentkit.toolset.mcp.listing import ListedTool, Listing, Selection, list_tools
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.policy import ToolPolicy
from agentkit.toolset.threads import run_in_thread
from agentkit.toolset.tool import ToolContext, ToolOutput, ToolSpec

__all__ = ["McpConnection", "McpServer", "McpTool", "connect_all"]


_NO_POLICY = ToolPolicy()


class McpTool:
    """One tool of an MCP server, as a `Tool`."""

    __slots__ = ("_connection", "_listed")

    def __init__(self, connection: McpConnection, listed: ListedTool) -> None:
        self._connection = connection
        self._listed = listed

    @property
    def spec(self) -> ToolSpec:
        """The pinned spec under the final name."""
        return self._listed.spec

    @property
    def original_name(self) -> str:
        """The server's own name for the tool."""
        return self._listed.original

    @property
    def policy(self) -> ToolPolicy:
        """How its calls are handled."""
        return self._connection.server.policies.get(self._listed.original, _NO_POLICY)

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        """Call the tool on its server."""
        return await self._connection.call(self._listed.original, arguments, context.caller)

    def __repr__(self) -> str:
        return f"<MCP tool {self.spec.name!r} of {self._connection.server.alias!r}>"


class McpConnection:
    """A connection to one server. Enter it, call from any task of the same event loop, leave it.

    Entering and leaving may happen in different tasks. After leaving, no process of the server is
    left, also if the leaving task was cancelled.
    """

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self.tools: tuple[McpTool, ...] = ()
        """The tools, pinned at the first connect."""
        self.error: McpConnectError | None = None
        """Why the server could not be connected, when `connect_all` reports it this way."""
        self._listing: Listing | None = None
        self._notes: list[str] = []
        self._link: McpLink | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False
        self._protocol = server.protocol

    async def __aenter__(self) -> McpConnection:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Start the server and pin its tools.

        Raises:
            McpConnectError: the server cannot be used.
        """
        await self._live_link()

    async def close(self) -> None:
        """End the server. Returns when its processes are gone; calling it again does nothing."""
        self._is_closed = True
        async with self._opening:
            link, self._link = self._link, None
            if link is not None:
                self._note_link(link)
                await link.close()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd: tools left out, junk on stdout, changed lists, restarts."""
        listed = () if self._listing is None else self._listing.warnings
        live = () if self._link is None else _link_warnings(self._link)
        return (*listed, *self._notes, *live)

    @property
    def pid(self) -> int | None:
        """The process id of the running server."""
        return None if self._link is None else self._link.transport.pid

    async def call(
        self, name: str, arguments: Mapping[str, object], caller: Caller = NOBODY
    ) -> ToolOutput:
        """Call a tool by the server's own name for it.

        Whatever goes wrong is an `is_error` output; only cancellation is raised.
        """
        return await make_call(self.server, self._live_link, name, arguments, caller)

    async def _live_link(self) -> McpLink:
        """The live link. If there is none, one task starts the server and the others wait."""
        async with self._opening:
            if self._is_closed:
                raise self._closed_error()
            if self._link is not None and self._link.is_alive:
                return self._link
            if self._link is not None:
                dead, self._link = self._link, None
                self._note_link(dead)
                self._notes.append(f"the server was restarted: it {await dead.problem()}")
                await dead.close(hurry=True)
            link = await self._start()
            if self._is_closed:
                await link.close(hurry=True)
                raise self._closed_error()
            self._link = link
            return link

    def _closed_error(self) -> McpConnectError:
        return McpConnectError(self.server.alias, "is closed; connect it again")

    async def _start(self) -> McpLink:
        # Loading the SDK takes seconds: not on the event loop, and not from the server's time.
        await run_in_thread(lambda: import_module("mcp"), "load-mcp")
        deadline = asyncio.get_running_loop().time() + self.server.connect_timeout_s
        link = await self._open_link(deadline)
        try:
            async with asyncio.timeout_at(deadline):
                listing = await self._list(link)
        except TimeoutError:
            await link.close(hurry=True)
            raise link.too_late() from None
        except BaseException:
            await link.close(hurry=True)
            raise
        self._pin(listing)
        return link

    async def _open_link(self, deadline: float) -> McpLink:
        try:
            return await McpLink.open(self.server, self._protocol, deadline)
        except ServerEnded:
            if self._protocol == "legacy":
                raise
        # Some servers end at a method they do not know. For those the old handshake must come
        # first.
        link = await McpLink.open(self.server, "legacy", deadline)
        self._protocol = "legacy"
        return link

    async def _list(self, link: McpLink) -> Listing:
        from mcp import MCPError

        async def request(method: str, params: dict[str, object]) -> Mapping[str, object]:
            return await link.request(method, params, None)

        selection = Selection(allow=self.server.allow, deny=self.server.deny)
        try:
            listing = await list_tools(self.server.alias, selection, request)
        except MCPError as error:
            problem = f"could not list its tools: {error.message}"
            if not link.is_alive:
                problem += f"; it {await link.problem()}"
            raise McpConnectError(self.server.alias, problem) from error
        if self._listing is None:
            _check_policies(self.server, listing)
        return listing

    def _pin(self, listing: Listing) -> None:
        """Keep the first listing; a later one is only compared with it."""
        if self._listing is None:
            self._listing = listing
            self.tools = tuple(McpTool(self, listed) for listed in listing.tools)
        elif drift := _drift(self._listing, listing):
            self._notes.append(f"after a restart the tools differ ({drift}); the first list stays")

    def _note_link(self, link: McpLink) -> None:
        self._notes += _link_warnings(link)


async def connect_all(servers: Iterable[McpServer]) -> list[McpConnection]:
    """Connect servers in parallel; the connections come in the order of the servers.

    A server that cannot be used does not hold up the others: its connection has no tools, and
    `error` says why. Close every connection when done. If the caller is cancelled, all are
    closed.

    Raises:
        ValueError: two servers have one alias.
    """
    connections = [server.connect() for server in servers]
    aliases = [connection.server.alias for connection in connections]
    if len(set(aliases)) != len(aliases):
        raise ValueError(f"MCP server aliases must be unique, not {aliases!r}")
    try:
        await asyncio.gather(*(_try_open(connection) for connection in connections))
    except BaseException:
        await asyncio.gather(*(connection.close() for connection in connections))
        raise
    return connections


async def _try_open(connection: McpConnection) -> None:
    try:
        await connection.open()
    except McpConnectError as error:
        connection.error = error


def _link_warnings(link: McpLink) -> list[str]:
    transport = link.transport
    warnings = []
    if transport.n_junk_lines:
        warnings.append(
            f"{transport.n_junk_lines} lines on stdout are no messages; "
            f"the first is {transport.first_junk!r}"
        )
    if link.n_list_changes:
        warnings.append(
            f"the server announced {link.n_list_changes} changes of its tools; the first list stays"
        )
    return warnings


def _check_policies(server: McpServer, listing: Listing) -> None:
    known = sorted(listed.original for listed in listing.tools)
    if unknown := sorted(server.policies.keys() - set(known)):
        raise McpConnectError(
            server.alias,
            f"has no tools {unknown!r}, for which there are policies; it has {known!r}",
        )


def _drift(pinned: Listing, now: Listing) -> str:
    """How a later listing differs from the pinned one; empty when it does not."""
    before = {tool.spec.name: tool.spec.bytes for tool in pinned.tools}
    after = {tool.spec.name: tool.spec.bytes for tool in now.tools}
    kinds = {
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
        "changed": sorted(n for n in before.keys() & after.keys() if before[n] != after[n]),
    }
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)
