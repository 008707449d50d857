"""Our own server behind the vLLM profile: real engine, real HTTP, only the model is scripted."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agentkit.blocks import ToolMessage, ToolResult, UserMessage
from agentkit.context import Context, SystemPart, SystemText, ToolList
from agentkit.events import Turn
from agentkit.folding import fold
from agentkit.models.base import Settings
from agentkit.models.hosted.openai_chat import VLLM, ChatAdapter
from agentkit_runtime.load_text import load_text
from agentkit_runtime.service import ChatService
from tests.agentkit.models.hosted.openai_chat.talk import collect, plan
from tests.agentkit.models.hosted.weather import TOOLSET, request
from tests.runtime.api.serving import serving
from tests.runtime.service.scripted import Pace, Script, scripted_model

ARGUMENTS = '{"city": "Zürich"}'
ANSWERS = {
    "How is it": f'<tool_call>\n{{"name": "weather", "arguments": {ARGUMENTS}}}\n</tool_call>',
    "sunny": "It is sunny — 7 °C.",
}


@pytest.fixture
def url(smollm2_gguf: Path) -> Iterator[str]:
    torch.set_num_threads(1)
    tokenizer, template = load_text(smollm2_gguf)
    with scripted_model(tokenizer, template, Pace(Script(tokenizer, ANSWERS))) as loaded:
        with serving(ChatService(loaded)) as (served_url, _):
            yield f"{served_url}/v1"


async def test_a_run_with_a_tool_reads_its_first_turn_from_the_servers_tree(url: str) -> None:
    api = ChatAdapter("scripted", profile=VLLM, base_url=url)
    rules = SystemText(SystemPart.RULES, "Be honest. " * 30)
    context = Context(rules, ToolList(TOOLSET.bytes), UserMessage.of("How is it in Zürich?"))

    async def ask(context: Context, choice: str) -> Turn:
        made = request(context, tool_choice=choice, settings=Settings(max_tokens=60))
        return fold(await collect(api, api.body(api.layout(made), plan(), made)))

    first = await ask(context, "required")
    (call,) = first.message.calls
    assert (call.name, call.arguments) == ("weather", ARGUMENTS)
    assert first.finish == "tool_calls"
    result = ToolResult(call_id=call.id, name=call.name, content="sunny")
    second = await ask(context.append(first.message, ToolMessage((result,))), "none")

    assert second.message.text == ANSWERS["sunny"]
    assert second.finish == "stop"
    assert first.usage.input_tokens is not None
    assert second.usage.cache_read_tokens is not None
    assert second.usage.cache_read_tokens >= first.usage.input_tokens
    assert second.timing.ttft_s is not None
    await api.aclose()


def test_a_model_is_used_from_one_event_loop_after_another(url: str) -> None:
    """`run_sync` has a new loop each time; a connection of the last one would be dead."""
    api = ChatAdapter("scripted", profile=VLLM, base_url=url)
    made = request(Context(UserMessage.of("Is it sunny?")), settings=Settings(max_tokens=60))
    finished = api.body(api.layout(made), plan(), made)

    texts = [fold(asyncio.run(collect(api, finished))).message.text for _ in range(3)]

    assert texts == [ANSWERS["sunny"]] * 3
    del api
    gc.collect()
