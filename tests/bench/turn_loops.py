"""Three ways to run one agent for some turns: httpx2 alone, the vendor's client, and agentkit.

Each loop returns the CPU seconds of its process, without the beginning of its client.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from turn_replies import city

from agentkit import Agent, tool
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.models.hosted.wire import Adapter

Run = Callable[[str, int], Awaitable[float]]
"""Takes the provider's address and the number of turns; returns CPU seconds."""

_RULES = " ".join(f"Rule {number}: look at the city and say what you see." for number in range(160))
_QUESTION = "Look at all cities of the list."
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_ABOUT = "Look at a city."


def _seen(name: str) -> str:
    return f"{name} has a river, a bridge, two markets and a station in the north."


class Tourist(Agent):
    __doc__ = _RULES

    max_turns = 10_000

    @tool
    async def lookup(self, city: str) -> str:
        """Look at a city."""
        return _seen(city)


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One provider's API, and three ways to talk to it."""

    name: str
    bare: Run
    sdk: Run
    ours: Run


async def _bare_messages(url: str, n_turns: int) -> float:
    history: list[dict[str, Any]] = [{"role": "user", "content": _QUESTION}]
    async with httpx2.AsyncClient(timeout=600) as http:
        begun = time.process_time()
        while True:
            body = {
                "model": "claude-sonnet-5-5",
                "max_tokens": 4_096,
                "stream": True,
                "system": _RULES,
                "tools": [{"name": "lookup", "description": _ABOUT, "input_schema": _SCHEMA}],
                "messages": history,
            }
            content: list[dict[str, Any]] = []
            async for event in _events(http, f"{url}/v1/messages", body):
                match event["type"]:
                    case "content_block_start":
                        content.append({**event["content_block"], "input": ""})
                    case "content_block_delta" if event["delta"]["type"] == "text_delta":
                        content[-1]["text"] += event["delta"]["text"]
                    case "content_block_delta":
                        content[-1]["input"] += event["delta"]["partial_json"]
            if not _answer(history, content):
                assert len(history) == 2 * n_turns
                return time.process_time() - begun


def _answer(history: list[dict[str, Any]], content: list[dict[str, Any]]) -> bool:
    """Append the turn and the results of its calls; return whether there were calls."""
    results = []
    for block in content:
        arguments = block.pop("input")
        if block["type"] == "tool_use":
            block["input"] = json.loads(arguments)
            seen = _seen(block["input"]["city"])
            results.append({"type": "tool_result", "tool_use_id": block["id"], "content": seen})
    history.append({"role": "assistant", "content": content})
    if results:
        history.append({"role": "user", "content": results})
    return bool(results)


async def _sdk_messages(url: str, n_turns: int) -> float:
    history: list[dict[str, Any]] = [{"role": "user", "content": _QUESTION}]
    tools: Any = [{"name": "lookup", "description": _ABOUT, "input_schema": _SCHEMA}]
    async with AsyncAnthropic(api_key="bench", base_url=url, max_retries=0) as client:
        begun = time.process_time()
        while True:
            stream: Any = await client.messages.create(
                model="claude-sonnet-5-5",
                max_tokens=4_096,
                stream=True,
                system=_RULES,
                tools=tools,
                messages=history,  # type: ignore[arg-type]
            )
            content: list[dict[str, Any]] = []
            event: Any
            async for event in stream:
                if event.type == "content_block_start":
                    block = event.content_block
                    named = {"id": block.id, "name": block.name} if block.type == "tool_use" else {}
                    text = {"text": ""} if block.type == "text" else {}
                    content.append({"type": block.type, **named, **text, "input": ""})
                elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                    content[-1]["text"] += event.delta.text
                elif event.type == "content_block_delta":
                    content[-1]["input"] += event.delta.partial_json
            if not _answer(history, content):
                assert len(history) == 2 * n_turns
                return time.process_time() - begun


async def _bare_responses(url: str, n_turns: int) -> float:
    history: list[dict[str, Any]] = [{"role": "user", "content": _QUESTION}]
    async with httpx2.AsyncClient(timeout=600) as http:
        begun = time.process_time()
        for _ in range(n_turns):
            body = {
                "model": "gpt-6.1-sol",
                "store": False,
                "stream": True,
                "instructions": _RULES,
                "tools": [_FUNCTION],
                "input": history,
            }
            async for event in _events(http, f"{url}/v1/responses", body):
                if event["type"] == "response.completed":
                    output = event["response"]["output"]
            history += output
            for item in output:
                if item["type"] == "function_call":
                    history.append(_output(item["call_id"], item["arguments"]))
        assert len(history) == 3 * n_turns - 1
        return time.process_time() - begun


async def _sdk_responses(url: str, n_turns: int) -> float:
    history: list[Any] = [{"role": "user", "content": _QUESTION}]
    tools: Any = [_FUNCTION]
    base = f"{url}/v1"
    async with AsyncOpenAI(api_key="bench", base_url=base, max_retries=0) as client:
        begun = time.process_time()
        for _ in range(n_turns):
            stream = await client.responses.create(
                model="gpt-6.1-sol",
                store=False,
                stream=True,
                instructions=_RULES,
                tools=tools,
                input=history,
            )
            async for event in stream:
                if event.type == "response.completed":
                    output = event.response.output
            history += output
            for item in output:
                if item.type == "function_call":
                    history.append(_output(item.call_id, item.arguments))
        assert len(history) == 3 * n_turns - 1
        return time.process_time() - begun


_FUNCTION = {"type": "function", "name": "lookup", "description": _ABOUT, "parameters": _SCHEMA}


def _output(call_id: str, arguments: str) -> dict[str, Any]:
    seen = _seen(json.loads(arguments)["city"])
    return {"type": "function_call_output", "call_id": call_id, "output": seen}


async def _events(http: httpx2.AsyncClient, url: str, body: Mapping[str, Any]) -> Any:
    content = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    async with http.stream("POST", url, content=content, headers=headers) as response:
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                yield json.loads(line[5:])


async def _ours_messages(url: str, n_turns: int) -> float:
    async with AsyncAnthropic(api_key="bench", base_url=url, max_retries=0) as client:
        return await _ours(AnthropicAdapter("claude-sonnet-5-5", client=client), n_turns)


async def _ours_responses(url: str, n_turns: int) -> float:
    base = f"{url}/v1"
    async with AsyncOpenAI(api_key="bench", base_url=base, max_retries=0) as client:
        return await _ours(ResponsesAdapter("gpt-6.1-sol", client=client), n_turns)


async def _ours(adapter: Adapter[Any], n_turns: int) -> float:
    agent = Tourist(model=HostedModel(adapter))
    begun = time.process_time()
    result = await agent.run(_QUESTION)
    cost_s = time.process_time() - begun
    assert len(result.requests) == n_turns
    assert city(n_turns - 2) in result.messages[-2].results[0].content  # type: ignore[union-attr]
    return cost_s


APIS = (
    Api(name="anthropic", bare=_bare_messages, sdk=_sdk_messages, ours=_ours_messages),
    Api(name="responses", bare=_bare_responses, sdk=_sdk_responses, ours=_ours_responses),
)
