"""What an app says about priority reaches the servers that take it, in their own sign."""

from __future__ import annotations

import pytest

from agentkit.blocks import UserMessage
from agentkit.caching.options import CacheOptions
from agentkit.caching.times import VirtualTime
from agentkit.caching.track.tracker import CacheTracker
from agentkit.context import Context
from agentkit.models import ModelRequest
from agentkit.models.hosted.openai_chat import ChatAdapter
from agentkit.models.hosted.openai_chat.profiles import PROFILES
from agentkit.toolset import Toolset


@pytest.mark.parametrize(("server", "sent"), [("vllm", -5), ("sglang", 5)])
async def test_a_higher_priority_is_served_sooner_at_either_server(server: str, sent: int) -> None:
    adapter = ChatAdapter("m", profile=PROFILES[server], base_url="http://host/v1")
    tracker = CacheTracker(
        provider=adapter.provider,
        model="m",
        label=adapter.label,
        options=CacheOptions(priority=5),
        time=VirtualTime(),
    )
    request = ModelRequest(
        context=Context(UserMessage.of("Hello")),
        toolset=Toolset(),
        agent="a",
        run_id="r",
        request_id="1",
    )

    ticket = await tracker.enter(adapter.layout(request), request)

    assert ticket.plan.hints.body["priority"] == sent
    ticket.abandon()
