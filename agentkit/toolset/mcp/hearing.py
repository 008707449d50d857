"""Hearing of changed tools in the modern protocol: a stream that has to be asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Set
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Literal

from agentkit.toolset.mcp.backoff import Backoff

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.client.subscriptions import Subscription

_ACCEPT_S = 15.0
"""How long the server may take to accept that we listen."""

_LASTED_S = 30.0
"""A stream that lasted this long was a good one: the pause before the next one is short again."""


Wanted = Literal["tools", "resources"]


def wanted_of(session: ClientSession) -> frozenset[Wanted]:
    """Return which changes of a server can be heard, as it says."""
    said = session.server_capabilities
    parts: dict[Wanted, object] = (
        {} if said is None else {"tools": said.tools, "resources": said.resources}
    )
    return frozenset(what for what, part in parts.items() if getattr(part, "list_changed", False))


async def keep_listening(
    session: ClientSession,
    wanted: Set[Wanted],
    on_gap: Callable[[Set[Wanted]], None],
    is_hearing: asyncio.Event,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Listen for as long as the server lets us; a stream that drops is opened again, after a pause.

    Ends by itself if the server refuses to tell.

    Args:
        session: of the modern protocol. Its message handler hears the changes.
        wanted: which changes to listen for.
        on_gap: called when a stream is opened again: changes may have been missed meanwhile.
        is_hearing: set with the first stream, or when there is none to wait for.
        pause: waits for so many seconds.
        clock: the time in seconds.
    """
    backoff = Backoff(clock)
    while wanted:
        started_s = clock()
        async with AsyncExitStack() as stack:
            wanted, stream = await _open(stack, session, wanted)
            if stream is not None:
                if is_hearing.is_set():
                    on_gap(wanted)
                is_hearing.set()
                await _until_end(stream)
        if clock() - started_s >= _LASTED_S:
            backoff.reset()
        if wanted:
            await pause(backoff.failed())
    is_hearing.set()


async def _open(
    stack: AsyncExitStack, session: ClientSession, wanted: Set[Wanted]
) -> tuple[Set[Wanted], Subscription | None]:
    """Open a stream. Returns what the server tells (nothing: do not ask again), and the stream."""
    from mcp import MCPError
    from mcp.client.subscriptions import SubscriptionLost, listen
    from mcp_types import METHOD_NOT_FOUND

    try:
        async with asyncio.timeout(_ACCEPT_S):
            stream = await stack.enter_async_context(
                listen(
                    session,
                    tools_list_changed="tools" in wanted,
                    resources_list_changed="resources" in wanted,
                )
            )
    except MCPError as error:
        return (frozenset() if error.code == METHOD_NOT_FOUND else wanted), None
    except (SubscriptionLost, TimeoutError):
        return wanted, None
    honored: dict[Wanted, bool | None] = {
        "tools": stream.honored.tools_list_changed,
        "resources": stream.honored.resources_list_changed,
    }
    return frozenset(what for what in wanted if honored[what]), stream


async def _until_end(stream: Subscription) -> None:
    from mcp.client.subscriptions import SubscriptionLost

    try:
        async for _ in stream:
            pass
    except SubscriptionLost:
        return
