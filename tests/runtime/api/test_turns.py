"""Preparing requests takes threads that all tenants share: none takes all of them."""

from __future__ import annotations

import asyncio
from typing import cast

from agentkit_runtime.api.answer import Answer
from agentkit_runtime.api.answering import Answering
from agentkit_runtime.api.caller import Caller
from agentkit_runtime.chat import ChatMessage, ChatRequest
from agentkit_runtime.reply import ChatStream
from agentkit_runtime.service import ChatService

N_REQUESTS = 40


class SlowToPrepare:
    """A service that prepares ann's requests once it is let go on."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.preparing = 0
        self.most = 0

    async def open_many(self, request: ChatRequest, n: int) -> list[ChatStream]:
        if request.tenant == "ann":
            self.preparing += 1
            self.most = max(self.most, self.preparing)
            try:
                await self.go_on.wait()
            finally:
                self.preparing -= 1
        return []


async def test_one_tenants_requests_leave_threads_for_others() -> None:
    service = SlowToPrepare()
    answering = Answering(service=cast("ChatService", service))

    async def ask(tenant: str) -> Answer:
        chat = ChatRequest(messages=(ChatMessage(role="user", content="Hi"),))
        caller = Caller(tenant=tenant)
        (answer,) = await answering.open([chat], id="x", endpoint="/x", caller=caller, headers={})
        return answer

    async with asyncio.TaskGroup() as group:
        anns = [group.create_task(ask("ann")) for _ in range(N_REQUESTS)]
        gone = group.create_task(ask("ann"))
        await asyncio.sleep(0)  # all of them are on their way
        (await ask("bob")).close()
        gone.cancel()
        assert 2 <= service.most <= 16
        service.go_on.set()

    for task in anns:
        task.result().close()
    assert service.most <= 16
    assert not answering._turns, "nothing is kept of tenants that ask for nothing"
