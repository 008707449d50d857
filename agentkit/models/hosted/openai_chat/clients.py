"""The official client, pointed at another server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from agentkit.caching.policy import Provider
from agentkit.errors import ConfigurationError, MissingExtra
from agentkit.models.hosted.openai_chat.profiles import Profile

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class ChatClients:
    """One client for each event loop, made when it is first needed and closed with the loop.

    A connection belongs to the loop that opened it, and `run_sync` has a new loop every time.
    """

    def __init__(
        self,
        given: AsyncOpenAI | None,
        profile: Profile,
        label: str,
        base_url: str | None,
    ) -> None:
        self._given = given
        self._profile = profile
        self._label = label
        self._base_url = base_url or profile.base_url
        self._by_loop: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[AsyncOpenAI, AsyncGenerator[None, None]]
        ] = WeakKeyDictionary()

    async def get(self) -> AsyncOpenAI:
        """Return the client that was given, or this loop's own.

        Raises:
            MissingExtra: the SDK is not installed.
            ConfigurationError: there is no key, or no base URL.
        """
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            client = self._new()
            guard = _open(client)
            self._by_loop[loop] = client, guard
            await anext(guard)
        return self._by_loop[loop][0]

    async def aclose(self) -> None:
        """Close this loop's own client. One that was given stays open: its owner closes it."""
        found = self._by_loop.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found[1].aclose()

    def _new(self) -> AsyncOpenAI:
        try:
            from openai import AsyncOpenAI
        except ImportError as error:
            raise MissingExtra(
                f"{self._label} needs OpenAI's client, which is not installed ({error}); "
                'run: pip install "agentkit-radix[openai]"'
            ) from error
        key = self._key()
        if self._base_url is None and self._profile.is_self_hosted:
            raise ConfigurationError(
                f"{self._label} has no address; pass base_url='http://host:port/v1'"
            )
        client = AsyncOpenAI(api_key=key, base_url=self._base_url, max_retries=0)
        if self._profile.provider is not Provider.OPENAI:
            # The client reads these from the environment; they are OpenAI's business only.
            client.organization = client.project = None
        return client

    def _key(self) -> str:
        variable = self._profile.key_variable
        if variable is None:
            return "none"  # such servers ask for no key, but the client does
        key = os.environ.get(variable)
        if not key:
            raise ConfigurationError(
                f"{self._label} has no key: set {variable}, or pass client=AsyncOpenAI(...)"
            )
        return key


async def _open(client: AsyncOpenAI) -> AsyncGenerator[None, None]:
    """Hold a client open. `asyncio.run` closes generators that have not ended, and so this one."""
    try:
        yield
    finally:
        await client.close()
