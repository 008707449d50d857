"""When a server is asked for its tools again: after a change that it announced, and not before.

Servers announce bursts of changes that are none, and some announce one a moment after the call
that has made it. So a list counts when the server has been quiet for a moment; and who asks just
behind a call waits a moment for a word.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.links.link import McpLink
from agentkit.toolset.mcp.lists.listing import Listing
from agentkit.toolset.mcp.lists.words import Notes
from agentkit.toolset.mcp.server import McpServer

_QUIET_S = 0.05
"""After so long without another announcement a burst is over."""
_MOST_LISTINGS = 4
"""A server that never stops to announce changes is believed then."""
_MOST_WAITS = 8
_GRACE_S = 0.025
"""How long behind a call the change that it has made may be announced."""
_MOST_S = 10.0
_AFTER_FAILURE_S = 30.0


class Relisting:
    """Lists the tools of one server. One task does so at a time, the others wait for it.

    Args:
        server: for its time limit.
        list_tools: asks a link for the tools. Raises `McpConnectError`.
    """

    def __init__(
        self, server: McpServer, list_tools: Callable[[McpLink], Awaitable[Listing]]
    ) -> None:
        self.notes = Notes()
        """Lists that could not be had."""
        self._list = list_tools
        self._limit_s = min(_MOST_S, server.connect_timeout_s)
        self._turn = asyncio.Lock()
        self._called_s = float("-inf")
        self._not_before_s = float("-inf")

    def called(self) -> None:
        """Note that a call has just ended."""
        self._called_s = _now_s()

    def is_due(self, link: McpLink) -> bool:
        """Whether there may be news: a change is announced, or a call has just ended."""
        return link.list_changed.is_set() or self._waits_for_word_s(link) > 0

    async def first(self, link: McpLink) -> Listing:
        """Return the tools of a server that has just been started.

        Raises:
            McpConnectError: it does not list them.
        """
        async with self._turn:
            return await self._settled(link)

    async def listing(self, link: McpLink, *, is_forced: bool = False) -> Listing | None:
        """Return the list of a server that has announced a change; None if there is no news.

        Never fails: a list that cannot be had is none, and is asked for again later.

        Args:
            link: to the server.
            is_forced: whether to ask without any announcement.
        """
        if not is_forced:
            await self._wait_for_word(link)
        async with self._turn:
            is_due = link.list_changed.is_set() and _now_s() >= self._not_before_s
            if not (is_forced or is_due):
                return None
            try:
                async with asyncio.timeout(self._limit_s):
                    return await self._settled(link)
            except (TimeoutError, McpConnectError) as error:
                link.list_changed.set()
                self._not_before_s = _now_s() + _AFTER_FAILURE_S
                self._note(error)
                return None

    async def _settled(self, link: McpLink) -> Listing:
        link.list_changed.clear()
        listing = await self._list(link)
        for _ in range(_MOST_LISTINGS - 1):
            if not await self._is_announced(link):
                break
            for _ in range(_MOST_WAITS):
                if not await self._goes_on(link):
                    break
            link.list_changed.clear()
            listing = await self._list(link)
        return listing

    async def _is_announced(self, link: McpLink) -> bool:
        """Whether a change is announced behind a list, at once or in the next moment."""
        if link.announces_changes:
            await _wait(link.list_changed, _QUIET_S)
        return link.list_changed.is_set()

    async def _goes_on(self, link: McpLink) -> bool:
        """Whether a burst of announcements goes on."""
        link.list_changed.clear()
        await _wait(link.list_changed, _QUIET_S)
        return link.list_changed.is_set()

    async def _wait_for_word(self, link: McpLink) -> None:
        if (left_s := self._waits_for_word_s(link)) > 0:
            await _wait(link.list_changed, left_s)

    def _waits_for_word_s(self, link: McpLink) -> float:
        return self._called_s + _GRACE_S - _now_s() if link.announces_changes else 0.0

    def _note(self, error: Exception) -> None:
        problem = error.problem if isinstance(error, McpConnectError) else "is too slow in that"
        self.notes.add(f"announced a change of its tools, but {problem}; the list before holds")


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
