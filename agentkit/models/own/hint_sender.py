"""Hints over HTTP, in the background: nobody waits for them, and none can fail a run."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping

from agentkit.errors import ModelError
from agentkit.models.own.client import ServerClient
from agentkit.models.own.tenant_keys import TenantKeys
from agentkit_runtime.wire_chat import HINTS_PATH

_LOGGER = logging.getLogger("agentkit.models")

_MOST = 1_024
"""Hints under way: when a server is that slow, further ones are dropped."""


class HintSender:
    """Sends hints to one server. Usable from several event loops and threads."""

    def __init__(self, client: ServerClient, keys: TenantKeys, *, label: str) -> None:
        self._client = client
        self._keys = keys
        self._label = label
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, hint: Mapping[str, object], tenant: str) -> None:
        """Send a hint without waiting for it. Outside an event loop it is dropped."""
        if len(self._tasks) >= _MOST:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        task = loop.create_task(self._post(hint, tenant))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def sent(self) -> None:
        """Wait until this event loop's hints are sent, or have failed."""
        loop = asyncio.get_running_loop()
        own = [task for task in list(self._tasks) if task.get_loop() is loop]
        await asyncio.gather(*own, return_exceptions=True)

    async def _post(self, hint: Mapping[str, object], tenant: str) -> None:
        try:
            headers = self._keys.headers(tenant)
            await self._client.document("POST", HINTS_PATH, json.dumps(hint).encode(), headers)
        except ModelError as error:
            _LOGGER.debug("%s did not take a hint: %s", self._label, error)
