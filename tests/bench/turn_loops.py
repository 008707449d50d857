"""Three ways to run the agent: httpx2 alone, the vendor's client, and agentkit.

The first two are what one would write without a framework: the history is a list, and each request
has all of it. They run as many runs at once as they are told, on one client.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from turn_work import ABOUT, ANTHROPIC_MODEL, OPENAI_MODEL, RULES, Loop, Work, city, seen

from agentkit import Agent, tool
from agentkit.context.compaction_rule import CompactionRule
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.models.hosted.wire import Adapter

_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TOOL = {"name": "lookup", "description": ABOUT, "input_schema": _SCHEMA}
_FUNCTION = {"type": "function", "name": "lookup", "description": ABOUT, "parameters": _SCHEMA}
_MAX_TOKENS = 4_096

History = list[dict[str, Any]]


class Tourist(Agent):
    __doc__ = RULES

    max_turns = 10_000
    compaction = CompactionRule(trigger_tokens=100_000_000)  # looked at in every turn

    @tool
    async def lookup(self, city: str) -> str:
        """Look at a city."""
        return seen(city)


async def _all(work: Work, run: Callable[[History], Awaitable[None]]) -> float:
    """Run a loop for each run; returns the CPU seconds of all together."""
    histories = [
        [{"role": "user", "content": work.question(number)}] for number in range(work.n_runs)
    ]
    begun = time.process_time()
    await asyncio.gather(*map(run, histories))
    cost_s = time.process_time() - begun
    name = "tool_use_id" if work.api == "anthropic" else "function_call_output"
    for history in histories:
        assert json.dumps(history).count(f'"{name}"') == (work.n_turns - 1) * work.n_calls
    return cost_s


async def _bare(work: Work) -> float:
    async with httpx2.AsyncClient(timeout=600, limits=httpx2.Limits(max_connections=1_000)) as http:
        run = _bare_messages if work.api == "anthropic" else _bare_responses
        return await _all(work, lambda history: run(http, work, history))


async def _bare_messages(http: httpx2.AsyncClient, work: Work, history: History) -> None:
    for _ in range(work.n_turns):
        body = {
            "model": ANTHROPIC_MODEL,
            "max_tokens": _MAX_TOKENS,
            "stream": True,
            "system": RULES,
            "tools": [_TOOL],
            "messages": history,
        }
        content: History = []
        async for event in _events(http, f"{work.url}/v1/messages", body):
            match event["type"]:
                case "content_block_start":
                    content.append({**event["content_block"], "input": ""})
                case "content_block_delta" if event["delta"]["type"] == "text_delta":
                    content[-1]["text"] += event["delta"]["text"]
                case "content_block_delta":
                    content[-1]["input"] += event["delta"]["partial_json"]
        _answer(history, content)


async def _bare_responses(http: httpx2.AsyncClient, work: Work, history: History) -> None:
    for _ in range(work.n_turns):
        body = {
            "model": OPENAI_MODEL,
            "store": False,
            "stream": True,
            "instructions": RULES,
            "tools": [_FUNCTION],
            "input": history,
        }
        async for event in _events(http, f"{work.url}/v1/responses", body):
            if event["type"] == "response.completed":
                output = event["response"]["output"]
        history += output
        for item in output:
            if item["type"] == "function_call":
                history.append(_output(item["call_id"], item["arguments"]))


async def _events(
    http: httpx2.AsyncClient, url: str, body: Mapping[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    content = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    async with http.stream("POST", url, content=content, headers=headers) as response:
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                yield json.loads(line[5:])


def _answer(history: History, content: History) -> None:
    """Append the turn and the results of its calls."""
    results = []
    for block in content:
        arguments = block.pop("input")
        if block["type"] == "tool_use":
            block["input"] = json.loads(arguments)
            result = seen(block["input"]["city"])
            results.append({"type": "tool_result", "tool_use_id": block["id"], "content": result})
    history.append({"role": "assistant", "content": content})
    if results:
        history.append({"role": "user", "content": results})


def _output(call_id: str, arguments: str) -> dict[str, Any]:
    result = seen(json.loads(arguments)["city"])
    return {"type": "function_call_output", "call_id": call_id, "output": result}


async def _sdk(work: Work) -> float:
    if work.api == "anthropic":
        async with _anthropic(work) as anthropic:
            return await _all(work, lambda history: _sdk_messages(anthropic, work, history))
    async with _openai(work) as openai:
        return await _all(work, lambda history: _sdk_responses(openai, work, history))


async def _sdk_messages(client: AsyncAnthropic, work: Work, history: History) -> None:
    tools: Any = [_TOOL]
    for _ in range(work.n_turns):
        messages: Any = history
        stream: Any = await client.messages.create(
            model=ANTHROPIC_MODEL,
            max_tokens=_MAX_TOKENS,
            stream=True,
            system=RULES,
            tools=tools,
            messages=messages,
        )
        content: History = []
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
        _answer(history, content)


async def _sdk_responses(client: AsyncOpenAI, work: Work, history: History) -> None:
    tools: Any = [_FUNCTION]
    for _ in range(work.n_turns):
        items: Any = history
        stream = await client.responses.create(
            model=OPENAI_MODEL,
            store=False,
            stream=True,
            instructions=RULES,
            tools=tools,
            input=items,
        )
        async for event in stream:
            if event.type == "response.completed":
                output = event.response.output
        for item in output:
            history.append(item.to_dict())
            if item.type == "function_call":
                history.append(_output(item.call_id, item.arguments))


async def _ours(work: Work) -> float:
    if work.api == "anthropic":
        async with _anthropic(work) as anthropic:
            return await _agent(AnthropicAdapter(ANTHROPIC_MODEL, client=anthropic), work)
    async with _openai(work) as openai:
        return await _agent(ResponsesAdapter(OPENAI_MODEL, client=openai), work)


async def _agent(adapter: Adapter[Any], work: Work) -> float:
    agent = Tourist(model=HostedModel(adapter))
    begun = time.process_time()
    results = await asyncio.gather(
        *(agent.run(work.question(number)) for number in range(work.n_runs))
    )
    cost_s = time.process_time() - begun
    last = city((work.n_turns - 1) * work.n_calls - 1)
    for result in results:
        assert len(result.requests) == work.n_turns
        assert last in result.messages[-2].results[-1].content  # type: ignore[union-attr]
    return cost_s


def _anthropic(work: Work) -> AsyncAnthropic:
    return AsyncAnthropic(api_key="bench", base_url=work.url, max_retries=0)


def _openai(work: Work) -> AsyncOpenAI:
    return AsyncOpenAI(api_key="bench", base_url=f"{work.url}/v1", max_retries=0)


LOOPS: Mapping[str, Loop] = {"bare": _bare, "SDK": _sdk, "ours": _ours}
