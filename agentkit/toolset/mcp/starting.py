"""Starting a server, or calling it: with the handshake that it bears, and not too often in vain."""

from __future__ import annotations

import asyncio
import math
from importlib import import_module

from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.links.backoff import Backoff
from agentkit.toolset.mcp.links.link import McpLink, ServerEnded
from agentkit.toolset.mcp.lists.lists import ToolLists
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.threads import run_in_thread


class LinkStarter:
    """Makes the links of one connection, one after the other, and takes the tools of each.

    Args:
        server: how it is reached.
        lists: takes the tools.
    """

    def __init__(self, server: McpServer, lists: ToolLists) -> None:
        self.backoff = Backoff()
        """When it is tried again after it could not be started."""
        self._server = server
        self._lists = lists
        self._protocol = server.protocol
        self._failure: McpConnectError | None = None

    async def start(self) -> McpLink:
        """Return a new link, unless that has just failed: then its callers go on without it.

        Raises:
            McpConnectError: the server cannot be used, or is not tried again yet.
        """
        if self._failure is not None and (left_s := self.backoff.left_s) > 0:
            problem = f"{self._failure.problem}; it is tried again in {math.ceil(left_s)} s"
            raise McpConnectError(self._server.alias, problem)
        try:
            link = await self._start()
        except McpConnectError as error:
            self._failure = error
            self.backoff.failed()
            raise
        self._failure = None
        self.backoff.reset()
        return link

    async def _start(self) -> McpLink:
        # Loading the SDK takes seconds: not on the event loop, and not from the server's time.
        await run_in_thread(lambda: import_module("mcp"), "load-mcp")
        deadline = asyncio.get_running_loop().time() + self._server.connect_timeout_s
        link = await self._open(deadline)
        try:
            async with asyncio.timeout_at(deadline):
                await self._lists.take_first(link)
        except TimeoutError:
            await link.close(hurry=True)
            raise link.too_late() from None
        except BaseException:
            await link.close(hurry=True)
            raise
        return link

    async def _open(self, deadline: float) -> McpLink:
        try:
            link = await McpLink.open(self._server, self._protocol, deadline)
        except ServerEnded:
            if self._protocol == "legacy":
                raise
        else:
            if not link.is_modern:
                # Some servers leave the probe unanswered: next time it would cost seconds again.
                self._protocol = "legacy"
            return link
        # Some servers end at a method they do not know. For those the old handshake must come
        # first.
        link = await McpLink.open(self._server, "legacy", deadline)
        self._protocol = "legacy"
        return link
