"""Nothing that a finished run was told stays in memory for good."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic

from agentkit import Agent
from agentkit.blocks import UserMessage
from agentkit.caching.simulate.store import Store, Write
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.model import HostedModel

_ANSWER = (
    {
        "type": "message_start",
        "message": {
            "id": "msg",
            "type": "message",
            "role": "assistant",
            "content": [],
            "usage": {"input_tokens": 9, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Yes."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
)
_STREAM = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in _ANSWER)
_MARK = "Is this remembered? "


class Clerk(Agent):
    """You say yes."""


def _answer(_: httpx2.Request) -> httpx2.Response:
    headers = {"content-type": "text/event-stream"}
    return httpx2.Response(200, headers=headers, content=_STREAM.encode())


def _n_remembered() -> int:
    gc.collect()
    return sum(
        1 for each in gc.get_objects() if type(each) is UserMessage and each.text.startswith(_MARK)
    )


@pytest.mark.no_capture
def test_of_a_thousand_runs_only_the_last_are_remembered() -> None:
    counts = []

    async def runs() -> None:
        transport = httpx2.MockTransport(_answer)
        async with httpx2.AsyncClient(transport=transport) as http:
            client: Any = AsyncAnthropic(api_key="k", base_url="http://fake", http_client=http)
            model = HostedModel(AnthropicAdapter("claude-sonnet-5-5", client=client))
            clerk = Clerk(model=model)
            for number in range(1_000):
                await clerk.run(f"{_MARK}{number}")
                if number in (599, 999):
                    counts.append(_n_remembered())

    asyncio.run(runs())

    assert counts[0] == counts[1] <= 256


def test_a_store_drops_the_entries_that_were_used_longest_ago() -> None:
    store = Store(n_kept=2)
    for number, key in enumerate((b"a", b"b", b"a", b"c")):
        store.put(Write(key=key, ttl_s=300), used_s=number, readable_s=number)

    assert [store.was_there(key) for key in (b"a", b"b", b"c")] == [True, False, True]
