"""What a server may ask of us while one of its tools runs, and what it tells meanwhile.

A server's request does not say which call it belongs to. In the modern protocol it comes inside
the answer to the call. In the old one it comes by itself, so calls of an old server that may ask
are made one at a time: then the one under way is meant, and a request beside it is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from agentkit.toolset.mcp.calls.asking import Asking, Refused
from agentkit.toolset.mcp.calls.logs import ServerLog
from agentkit.toolset.mcp.links.patience import Patience

if TYPE_CHECKING:
    from mcp_types import (
        CreateMessageResult,
        ElicitResult,
        ErrorData,
        LoggingMessageNotificationParams,
    )
    from pydantic import BaseModel

    from agentkit.toolset.mcp.server import McpServer


class Pauses:
    """Time in which a call waits for us and not for its server. It does not count as the call's."""

    def __init__(self) -> None:
        self._n_open = 0
        self._since_s = 0.0
        self._ended_s = 0.0
        self._over = asyncio.Event()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock inside."""
        if not self._n_open:
            self._since_s = _now_s()
            self._over.clear()
        self._n_open += 1
        try:
            yield
        finally:
            self._n_open -= 1
            if not self._n_open:
                self._ended_s += _now_s() - self._since_s
                self._over.set()

    def clock(self) -> float:
        """Return the time in seconds, which stands still in pauses."""
        paused_s = self._ended_s + (_now_s() - self._since_s if self._n_open else 0.0)
        return _now_s() - paused_s

    async def wait(self, task: asyncio.Task[Any], patience: Patience) -> None:
        """Return when a task is done, or when patience, by this clock, is at an end."""
        while not task.done():
            if self._n_open:
                await self._wait_for_end(task)
                continue
            left_s = patience.left_s()
            if left_s is not None and left_s <= 0:
                return
            await asyncio.wait([task], timeout=left_s)

    async def _wait_for_end(self, task: asyncio.Task[Any]) -> None:
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait([task, over], return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()


class Callbacks:
    """Of one link: what its session hands on, and to which call. `hidden` takes the secrets of its
    server out of a text that is logged."""

    def __init__(self, server: McpServer, hidden: Callable[[str], str]) -> None:
        self.pauses = Pauses()
        self._server = server
        self._log = ServerLog(server.alias, hidden)
        self._slot = asyncio.Lock()
        self._call: Asking | None = None
        self._answering: set[asyncio.Task[Mapping[str, object]]] = set()

    @property
    def for_session(self) -> dict[str, Any]:
        """Arguments of the SDK's session. A callback that is given declares a capability."""
        given: dict[str, Any] = {"logging_callback": self._on_log}
        if self._server.elicits:
            given["elicitation_callback"] = self._on_elicit
        if self._server.samples:
            given["sampling_callback"] = self._on_sample
        return given

    @property
    def meta(self) -> dict[str, object]:
        """What each request of the modern protocol says of us, beside version and client."""
        from mcp_types import CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY

        capabilities: dict[str, object] = {}
        if self._server.elicits:
            capabilities["elicitation"] = {"form": {}, "url": {}}
        if self._server.samples:
            capabilities["sampling"] = {}
        return {CLIENT_CAPABILITIES_META_KEY: capabilities, LOG_LEVEL_META_KEY: self._log.level}

    @asynccontextmanager
    async def answering(self, call: Asking, *, is_modern: bool) -> AsyncGenerator[None, None]:
        """Let the requests of an old server be this call's, inside."""
        if is_modern or not (self._server.elicits or self._server.samples):
            yield
            return
        async with self._slot:
            self._call = call
            try:
                yield
            finally:
                self._call = None
                await _ended(tuple(self._answering))

    async def _on_elicit(self, context: object, params: BaseModel) -> ElicitResult | ErrorData:
        from mcp_types import ElicitResult, ErrorData

        answer = await self._answer("elicitation/create", params)
        return answer if isinstance(answer, ErrorData) else ElicitResult.model_validate(answer)

    async def _on_sample(
        self, context: object, params: BaseModel
    ) -> CreateMessageResult | ErrorData:
        from mcp_types import CreateMessageResult, ErrorData

        answer = await self._answer("sampling/createMessage", params)
        if isinstance(answer, ErrorData):
            return answer
        return CreateMessageResult.model_validate(answer)

    async def _on_log(self, params: LoggingMessageNotificationParams) -> None:
        self._log.write(params.level, params.logger, params.data)

    async def _answer(self, method: str, params: BaseModel) -> Mapping[str, object] | ErrorData:
        """Put a request to the call under way; when the call ends, nobody answers any more."""
        from mcp_types import INVALID_REQUEST, ErrorData

        if self._call is None:
            return ErrorData(code=INVALID_REQUEST, message="no call is under way that could ask")
        given = params.model_dump(mode="json", by_alias=True, exclude_none=True)
        task = asyncio.create_task(self._call.answer(method, given, kept=None))
        self._answering.add(task)
        try:
            with self.pauses.paused():
                await asyncio.wait([task])
        finally:
            self._answering.discard(task)
            task.cancel()
        if task.cancelled():
            return ErrorData(code=INVALID_REQUEST, message="the call that asked has ended")
        try:
            return task.result()
        except Refused as error:
            return ErrorData(code=_REFUSED, message=str(error))


_CANCEL_GRACE_S = 2.0
"""How long a program that answers a question may take to clean up."""
_REFUSED = -1
"""The specification's code for a request that a person has rejected."""


async def _ended(tasks: tuple[asyncio.Task[Any], ...]) -> None:
    """Cancel what answers a call that is over, and wait a bounded time for its end."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CANCEL_GRACE_S)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
