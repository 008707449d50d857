"""Hearing of changed tools in the modern protocol: a stream that has to be asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Set
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Literal

from agentkit.toolset.mcp.links.backoff import Backoff
from agentkit.toolset.mcp.links.transport import Transport

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.client.subscriptions import Subscription

_BEGIN_S = 1.0
"""How long a new link waits for the server to accept that changes are heard, before it is used."""

_NOTICE_S = 0.25
"""How long telling the server that nobody listens any more may take."""

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


@asynccontextmanager
async def hearing(
    session: ClientSession, transport: Transport, on_gap: Callable[[Set[Wanted]], None]
) -> AsyncIterator[None]:
    """Hear of changes inside, from the first moment on. In the old protocol they just come."""
    wanted = wanted_of(session)
    if session.discover_result is None or not wanted:
        yield
        return
    is_hearing = asyncio.Event()
    listening = asyncio.create_task(
        keep_listening(session, wanted, on_gap, is_hearing), name="mcp-hearing"
    )
    begun = asyncio.create_task(is_hearing.wait())
    try:
        await asyncio.wait([begun], timeout=_BEGIN_S)
        yield
    finally:
        begun.cancel()
        listening.cancel()
        if transport.hurry.is_set() or transport.is_stuck(_NOTICE_S):
            # Else the end of the session would wait for its last notice to be read.
            transport.give_up()
        await asyncio.wait([listening], timeout=_NOTICE_S)


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
