"""The tool lists of one server: asked for, judged, kept on disk, and taken as what it offers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping

from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.content.resource_tool import with_resource_tool
from agentkit.toolset.mcp.links.link import McpLink
from agentkit.toolset.mcp.lists.listing import Listing, Selection, list_tools
from agentkit.toolset.mcp.lists.listing_cache import ListingCache
from agentkit.toolset.mcp.lists.offered import OfferedTools
from agentkit.toolset.mcp.lists.relisting import Relisting
from agentkit.toolset.mcp.lists.words import Notes
from agentkit.toolset.mcp.server import EVERY_TOOL, McpServer
from agentkit.toolset.mcp.trust.judging import trusted
from agentkit.toolset.threads import run_in_thread

_AFTER_FAILURE_S = 30.0
"""A list whose time is over, and that cannot be had, is asked for again then."""


class ToolLists:
    """Where what is known of a server's tools comes from.

    Args:
        server: whose they are.
        cache: where its list may be kept.
    """

    def __init__(self, server: McpServer, cache: ListingCache) -> None:
        self.offered = OfferedTools()
        """Its tools, as far as is known."""
        self._server = server
        self._cache = cache
        self._relisting = Relisting(server, self._listed)
        self._notes = Notes()
        self._stale_at_s = math.inf

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd about lists, and how they have changed."""
        return (*self.offered.warnings, *self._relisting.notes, *self._notes)

    async def take_kept(self, *, at_any_age: bool = False) -> bool:
        """Take the list that is kept on disk, if there is one that fits the settings.

        Returns whether it was taken. What is wrong with the settings the server's own list shows.
        """
        if self.offered.is_known:
            return False
        server, cache = self._server, self._cache
        kept = await run_in_thread(
            lambda: cache.load(server, at_any_age=at_any_age), "load-mcp-tools"
        )
        if kept is None:
            return False
        try:
            self._take(kept)
        except McpConnectError:
            return False
        self._stale_at_s = _now_s() + kept.ttl_s
        return True

    async def take_first(self, link: McpLink) -> None:
        """Take the list of a server that has just been started.

        Raises:
            McpConnectError: it has none, or one that does not fit the settings.
        """
        found = await self._relisting.first(link)
        if self._says_nothing(found):
            return
        listing = self._take(found)
        self._note_age(listing)
        await self._keep(listing)

    async def take_new(self, link: McpLink, *, is_forced: bool = False) -> None:
        """Take the list anew if a change was announced, or is asked for. Never fails."""
        is_stale = self.is_stale
        if is_stale:
            self._stale_at_s = _now_s() + _AFTER_FAILURE_S
        listing = await self._relisting.listing(link, is_forced=is_forced or is_stale)
        if listing is None or self._says_nothing(listing):
            return
        self._note_age(listing)
        try:
            taken = self._take(listing)
        except McpConnectError as error:  # its lock was damaged meanwhile
            self._notes.add(error.problem)
        else:
            await self._keep(taken)

    def called(self) -> None:
        """Note that a call has just ended."""
        self._relisting.called()

    @property
    def is_stale(self) -> bool:
        """Whether the time is over for which the list may be used without asking again."""
        return _now_s() >= self._stale_at_s

    def is_due(self, link: McpLink) -> bool:
        """Whether there may be news."""
        return self.is_stale or self._relisting.is_due(link)

    def _says_nothing(self, listing: Listing) -> bool:
        """Whether there is no list in an answer, where there was one before: a gateway before the
        server fails so, say. That is no word of all tools being removed."""
        if listing.has_list or not self.offered.specs:
            return False
        self._notes.add("answered tools/list without a list; the list before holds")
        return True

    def _note_age(self, listing: Listing) -> None:
        given_s = self._server.listing_ttl_s
        ttl_s = listing.ttl_s if given_s is None else given_s
        # Without a time it holds until the server says otherwise.
        self._stale_at_s = _now_s() + ttl_s if ttl_s > 0 else math.inf

    def _take(self, listing: Listing) -> Listing:
        if not self.offered.is_known:
            _check_settings(self._server, listing)
        judged = listing if listing.is_judged else trusted(self._server, listing)
        self.offered.take(judged)
        # A lock may change while a list lies on disk, so what it says is asked at each time.
        return listing if self._server.trust.lock is not None else judged

    async def _keep(self, listing: Listing) -> None:
        await run_in_thread(lambda: self._cache.keep(self._server, listing), "keep-mcp-tools")

    async def _listed(self, link: McpLink) -> Listing:
        return with_resource_tool(self._server, await self._ask(link))

    async def _ask(self, link: McpLink) -> Listing:
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND

        async def request(method: str, params: dict[str, object]) -> Mapping[str, object]:
            return await link.request(method, params, None)

        alias = self._server.alias
        selection = Selection(
            allow=self._server.allow,
            deny=self._server.deny,
            by_header=self._server.url is not None and self._server.transport == "streamable-http",
        )
        try:
            try:
                return await list_tools(alias, selection, request)
            except MCPError as error:
                if error.code != INVALID_PARAMS:
                    raise
            # A cursor that has become invalid: the list has changed between two pages.
            return await list_tools(alias, selection, request)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND:  # it has resources or prompts only
                return Listing(tools=(), warnings=(), has_list=False)
            problem = f"could not list its tools: {error.message}"
            if not link.is_alive:
                problem += f"; it {await link.problem()}"
            raise McpConnectError(alias, problem) from error


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _check_settings(server: McpServer, listing: Listing) -> None:
    """Check that what is said of tools by name is said of tools that are there.

    A misspelt name in `deny` or `policies` would let a call run that was meant not to.
    """
    taken = {listed.original for listed in listing.tools}
    known = taken if listing.all_names is None else listing.all_names
    chosen = {"allow": server.allow or frozenset(), "deny": server.deny or frozenset()}
    by_tool = {"policies": server.policies, "tool_timeouts_s": server.tool_timeouts_s}
    for what, names in (*chosen.items(), *by_tool.items()):
        if what in chosen and listing.all_names is None:
            continue  # it was checked before it was kept
        if unknown := sorted(set(names) - known - {EVERY_TOOL}):
            raise McpConnectError(
                server.alias,
                f"has no tools {unknown!r}, which are in {what}; it has {sorted(known)!r}"
                f"{_own_name(server.alias, unknown[0])}",
            )
        if what in by_tool and (idle := sorted(set(names) - taken - {EVERY_TOOL})):
            raise McpConnectError(
                server.alias,
                f"has {idle!r} in {what}, and these tools are not taken; look at allow, deny and "
                "the warnings, or remove them there",
            )


def _own_name(alias: str, name: str) -> str:
    """What to write in place of the name that models are shown."""
    lead = f"{alias}__"
    if not name.startswith(lead):
        return ""
    return f". Write the server's own name: {name.removeprefix(lead)!r}, without {lead!r}"
