"""The official client, one for each event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from agentkit.errors import ConfigurationError, MissingExtra

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class Clients:
    """One client for each event loop, made when it is first needed and closed with the loop.

    A connection belongs to the loop that opened it, and `run_sync` has a new loop every time.
    """

    def __init__(
        self, given: AsyncOpenAI | None, label: str, key_variable: str, base_url: str | None
    ) -> None:
        self._given = given
        self._label = label
        self._key_variable = key_variable
        self._base_url = base_url
        self._by_loop: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[AsyncOpenAI, AsyncGenerator[None, None]]
        ] = WeakKeyDictionary()

    async def get(self) -> AsyncOpenAI:
        """Return the client that was given, or this loop's own; see `new_client` for errors."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            client = new_client(self._label, self._key_variable, self._base_url)
            guard = self._hold(client)
            self._by_loop[loop] = client, guard
            await anext(guard)
        return self._by_loop[loop][0]

    async def aclose(self) -> None:
        """Close this loop's own client. One that was given stays open: its owner closes it."""
        found = self._by_loop.get(asyncio.get_running_loop())
        if found is not None:
            await found[1].aclose()

    async def _hold(self, client: AsyncOpenAI) -> AsyncGenerator[None, None]:
        # A loop that ends closes the generators that have not ended, and so this client.
        try:
            yield
        finally:
            self._by_loop.pop(asyncio.get_running_loop(), None)
            await client.close()


def new_client(label: str, key_variable: str, base_url: str | None = None) -> AsyncOpenAI:
    """Return the official client, which reads its key from the environment.

    Raises:
        MissingExtra: the SDK is not installed.
        ConfigurationError: there is no key.
    """
    try:
        from openai import AsyncOpenAI, OpenAIError
    except ImportError as error:
        raise MissingExtra(
            f"{label} needs OpenAI's client, which is not installed ({error}); "
            'run: pip install "agentkit-radix[openai]"'
        ) from error
    try:
        return AsyncOpenAI(base_url=base_url, max_retries=0)
    except OpenAIError as error:
        raise ConfigurationError(
            f"{label} has no key: set {key_variable}, or pass client=AsyncOpenAI(api_key=...)"
        ) from error
