"""The adapters of vendors' APIs at a server of ours, by its address alone: agents with a tool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agentkit import Agent, Settings, tool
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.resolve import make_model
from agentkit_runtime.load_text import load_text
from tests.agentkit.models.own_server import Own, own_server

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
ANSWERS = {"How is it": CALL, "sunny": "It is sunny — 7 °C."}
STRINGS = (
    "openai-chat:{url}/v1#gpt-6-sol",
    "vllm:{url}/v1#small",
    "openai:gpt-6-sol",
    "anthropic:small",
)
"""The rules of OpenAI's caches go by the model's generation, so the server has such a name, too."""


@tool
def weather(city: str) -> str:
    """Say the weather."""
    return "sunny"


class Clerk(Agent[None, str]):
    """You know the weather of all cities."""

    instructions = "Be honest. " * 300  # longer than what vendors cache at least
    tools = (weather,)
    settings = Settings(max_tokens=60)
    max_retries = 0


@pytest.fixture(scope="module")
def own(smollm2_gguf: Path) -> Iterator[Own]:
    torch.set_num_threads(1)
    with own_server(load_text(smollm2_gguf), ANSWERS) as server:
        yield server


@pytest.mark.parametrize("string", STRINGS)
async def test_an_agent_with_a_tool_reads_its_first_turn_from_the_servers_tree(
    own: Own, string: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{own.url}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", own.url)
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, "any")
    prefix, _, rest = string.format(url=own.url).partition(":")
    model = make_model(prefix, rest)
    assert isinstance(model, HostedModel)
    own.seen.asked_.clear()

    result = await Clerk(model=model).run("How is it in Zürich?")
    await model.aclose()

    assert result.text == ANSWERS["sunny"]
    first, second = own.asked
    ids = own.ids(first)
    assert own.ids(second)[: len(ids)] == ids
    told = result.requests[1].usage.cache_read_tokens
    assert told is not None
    assert told >= len(ids)
    assert 0.4 < result.cache.hit_ratio <= 1
