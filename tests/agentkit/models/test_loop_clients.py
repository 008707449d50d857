"""A client for each event loop."""

from __future__ import annotations

import asyncio

import pytest

from agentkit.models.loop_clients import LoopClients


class Client:
    """Knows whether it is closed."""

    def __init__(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        """Close it."""
        self.is_closed = True


def clients(given: Client | None = None) -> LoopClients[Client]:
    return LoopClients(given, Client, lambda client: client.close())


async def test_a_loop_has_one_client_until_it_is_closed() -> None:
    own = clients()

    first = await own.get()
    assert await own.get() is first
    await own.aclose()
    await own.aclose()

    assert first.is_closed
    assert not len(own)
    assert await own.get() is not first
    await own.aclose()


def test_every_event_loop_has_a_client_of_its_own_which_ends_with_it() -> None:
    own = clients()

    async def used() -> tuple[Client, int]:
        return await own.get(), len(own)

    (first, n_first), (second, n_second) = asyncio.run(used()), asyncio.run(used())

    assert first is not second
    assert first.is_closed
    assert second.is_closed
    assert (n_first, n_second, len(own)) == (1, 1, 0)


async def test_a_client_that_was_given_stays_open() -> None:
    given = Client()
    own = clients(given)
    assert await own.get() is given

    await own.aclose()

    assert not given.is_closed
    assert await own.get() is given


async def test_a_client_that_cannot_be_made_is_asked_for_again() -> None:
    made = iter([ValueError("no key"), Client()])

    def make() -> Client:
        found = next(made)
        if isinstance(found, Exception):
            raise found
        return found

    own = LoopClients(None, make, lambda client: client.close())
    with pytest.raises(ValueError, match="no key"):
        await own.get()

    assert isinstance(await own.get(), Client)
    await own.aclose()
