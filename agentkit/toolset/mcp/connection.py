"""One connection to an MCP server: started, listed, called, and started again when it has ended.

What the server offers is known from its list: taken when it is started, again when it announces a
change, and from disk where a list may be kept. What a conversation was shown stays as it was. A
server that dies answers with error results and is started again at the next call. A call is never
sent twice, since it may have had an effect, unless the policy for its tool says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType

from agentkit.toolset.caller import NOBODY, Caller
from agentkit.toolset.errors import McpConnectError, McpRequestError
from agentkit.toolset.mcp.calls.calling import make_call
from agentkit.toolset.mcp.content.about import ServerAbout, about
from agentkit.toolset.mcp.content.reading import ReadsContent
from agentkit.toolset.mcp.links.link import McpLink
from agentkit.toolset.mcp.links.transport import TOO_LATE
from agentkit.toolset.mcp.lists.listing_cache import ListingCache
from agentkit.toolset.mcp.lists.lists import ToolLists
from agentkit.toolset.mcp.lists.offered import CallRefused, OfferedTools
from agentkit.toolset.mcp.lists.words import Notes
from agentkit.toolset.mcp.mcp_tool import McpTool
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.mcp.starting import LinkStarter
from agentkit.toolset.outlast import outlast
from agentkit.toolset.tool import ToolOutput

__all__ = ["McpConnection", "McpServer", "McpTool"]


class McpConnection(ReadsContent):
    """A connection to one server. Enter it, call from any task of the same event loop, leave it.

    Entering and leaving may happen in different tasks. After leaving, no process of the server is
    left, also if the leaving task was cancelled.

    Args:
        server: how it is reached.
        cache: where its list may be kept; by default in the user's cache folder.
    """

    def __init__(self, server: McpServer, *, cache: ListingCache | None = None) -> None:
        self.server = server
        self.error: McpConnectError | None = None
        """Why the server could not be connected, where that stops nobody."""
        self.resources_changed = asyncio.Event()
        """Set when the server says that its resources have changed; who reads them clears it."""
        self._lists = ToolLists(server, ListingCache() if cache is None else cache)
        self.starter = LinkStarter(server, self._lists)
        """Starts it, and knows when it is tried again."""
        self._notes = Notes()
        self._link: McpLink | None = None
        self._logged: set[str] = set()
        self._n_links = 0
        self._opening = asyncio.Lock()
        self._is_opened = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._retry: asyncio.Task[None] | None = None

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
        """Get the server's tools: from disk, if its list may be kept, and else by starting it.

        Raises:
            McpConnectError: a server that is required cannot be used.
        """
        self._is_opened = True
        self._loop = asyncio.get_running_loop()
        if await self._lists.take_kept():
            return
        self.starter.backoff.reset()
        try:
            await self._live_link()
        except McpConnectError as error:
            if self.server.required:
                raise
            self.error = error
            await self._lists.take_kept(at_any_age=True)

    async def close(self) -> None:
        """End the server. Returns when its processes are gone, also if cancelled meanwhile; calling
        it again does nothing. A start that is under way is waited for: `connect_timeout_s`."""
        self._is_closed = True
        closing = asyncio.create_task(self._close())
        cancelled = await outlast(closing, on_cancel=self.hurry)
        closing.result()
        if cancelled is not None:
            raise cancelled

    def hurry(self) -> None:
        """Skip the polite part of ending the server."""
        if self._link is not None:
            self._link.transport.hurry.set()

    async def _close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            await asyncio.wait([self._retry])
        async with self._opening:
            if self._link is not None:
                await self._link.close()
                self._forget(self._link)

    @property
    def offered(self) -> OfferedTools:
        """Its tools, as far as is known."""
        return self._lists.offered

    @property
    def tools(self) -> tuple[McpTool, ...]:
        """What new conversations are shown: the tools of now; with `on_change="pin"` the first.

        Raises:
            McpConnectError: the connection was never entered.
        """
        self._check_opened()
        follows = self.server.on_change == "append"
        specs = self.offered.specs if follows else self.offered.first_specs
        return tuple(McpTool(self, spec) for spec in specs.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd: tools left out, junk on stdout, changed lists, restarts."""
        live = () if self._link is None else _link_warnings(self._link)
        failed = () if self.error is None else (f"is not there: it {self.error.problem}",)
        return (*self._lists.warnings, *self._notes, *failed, *live)

    @property
    def pid(self) -> int | None:
        """The process id of the running server."""
        return None if self._link is None else self._link.transport.pid

    @property
    def about(self) -> ServerAbout | None:
        """What the server says of itself; None while it is not connected."""
        return None if self._link is None else about(self._link.session)

    async def call(
        self, name: str, arguments: Mapping[str, object], caller: Caller = NOBODY
    ) -> ToolOutput:
        """Call a tool by the server's own name for it, or by that which a model is shown.

        Whatever goes wrong is an `is_error` output; only cancellation is raised.
        """
        name = self.offered.own_name(name)
        try:
            return await make_call(
                self.server,
                lambda: self._link_to_call(name),
                name,
                arguments,
                caller,
                logged=self._logged,
            )
        except CallRefused as error:
            return ToolOutput.error(str(error))
        finally:
            self._lists.called()

    async def _link_to_call(self, name: str) -> McpLink:
        """The live link, unless the tool is there not what was approved.

        A restart, or the start of a server whose list was kept, has listed its tools again.

        Raises:
            McpConnectError: there is none.
            CallRefused: the tool has changed since it was approved.
        """
        link = await self._live_link()
        if self.server.trust.lock is not None and link.list_changed.is_set():
            await self._lists.take_new(link)
        self.offered.check_call(name)
        return link

    async def ask(self, method: str, params: dict[str, object]) -> Mapping[str, object]:
        """Send a request that is no call, and return its raw result.

        Raises:
            McpConnectError: the server cannot be reached.
            McpRequestError: it answered with an error, or too late.
        """
        from mcp import MCPError
        from mcp_types import REQUEST_TIMEOUT

        link, who, limit_s = await self._live_link(), self.server.alias, self.server.call_timeout_s
        try:
            result = await link.request(method, params, limit_s)
            return link.transport.secrets.out_of_result(result)
        except MCPError as error:
            if error.code == TOO_LATE:
                problem = f"MCP server {who!r} did not answer {method} within {limit_s:g} s"
                raise McpRequestError(problem, REQUEST_TIMEOUT) from error
            problem = f"MCP server {who!r} answered {method} with an error: {error.message}"
            raise McpRequestError(f"{problem} (code {error.code})", error.code) from error

    async def problem_with(self, name: str) -> ToolOutput | None:
        """Return why the tool of this final name cannot be called now; None if it can.

        One that comes back while it is called is not called yet: who may call it is asked before.
        """
        if self.offered.get(name) is not None:
            return None
        try:
            link = await self._live_link()
        except McpConnectError as error:
            return ToolOutput.error(f"{error}. The call was not sent.", may_pass=True)
        await self._lists.take_new(link, is_forced=True)
        who = f"MCP server {self.server.alias!r}"
        if self.offered.get(name) is not None:
            return ToolOutput.error(f"{who} offers {name!r} again, only now. Call it once more.")
        return ToolOutput.error(
            f"{who} no longer offers {name!r}. Calling it again will not help; do without it."
        )

    @property
    def may_have_changed(self) -> bool:
        """Whether `recheck` has anything to do."""
        if self._link is None:
            return self.error is not None or self._lists.is_stale
        return self._link.is_alive and self._lists.is_due(self._link)

    async def recheck(self) -> None:
        """Learn what the server offers now, if that may have changed. Bounded, and never fails.

        To be called before a conversation goes on. A server that could not be connected is tried
        again meanwhile, and nobody waits for it.
        """
        if self._link is None:
            self._try_again()
        elif self._link.is_alive:
            await self._lists.take_new(self._link)

    def _try_again(self) -> None:
        is_under_way = self._retry is not None and not self._retry.done()
        has_reason = self.error is not None or self._lists.is_stale
        if not has_reason or is_under_way or self.starter.backoff.left_s > 0 or self._is_closed:
            return
        self._retry = asyncio.create_task(self._reconnect(), name=f"mcp-retry-{self.server.alias}")

    async def _reconnect(self) -> None:
        try:
            await self._live_link()
        except McpConnectError as error:
            self.error = error

    async def _live_link(self) -> McpLink:
        """The live link. If there is none, one task starts the server and the others wait."""
        self._check_opened()
        if self._loop is not asyncio.get_running_loop():
            # Its answers would wake nobody here.
            raise McpConnectError(
                self.server.alias,
                "is connected in another event loop; call it there, or connect it in this one too",
            )
        async with self._opening:
            if self._is_closed:
                raise self._closed_error()
            if self._link is not None and self._link.is_alive:
                return self._link
            if self._link is not None:
                problem = await self._link.problem()
                await self._link.close(hurry=True)
                self._notes.add(f"the server was restarted: it {problem}")
                self._forget(self._link)
            link = await self.starter.start()
            if self._is_closed:
                await link.close(hurry=True)
                raise self._closed_error()
            if self._n_links:
                self.resources_changed.set()  # or may have, while nobody heard
            link.resources_changed = self.resources_changed
            self._n_links += 1
            self._link, self.error = link, None
            return link

    def _check_opened(self) -> None:
        if not self._is_opened:
            raise McpConnectError(
                self.server.alias,
                "is not connected yet; use: async with server.connect() as connection",
            )

    def _closed_error(self) -> McpConnectError:
        return McpConnectError(self.server.alias, "is closed; connect it again")

    def _forget(self, link: McpLink) -> None:
        """Keep what is to be said of a link that has been closed. Until then it is ours."""
        self._link = None
        for warning in _link_warnings(link):
            self._notes.add(warning)


def _link_warnings(link: McpLink) -> list[str]:
    transport = link.transport
    warnings = []
    if transport.n_junk_lines:
        warnings.append(
            f"{transport.n_junk_lines} lines on stdout are no messages; "
            f"the first is {transport.first_junk!r}"
        )
    return [*warnings, *transport.unanswered.warnings]
