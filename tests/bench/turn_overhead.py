"""What a turn costs the machine that asks: process CPU time, beside two loops without a framework.

All talk to the same provider that does no work (`turn_replies.py`), over HTTP, in a process of its
own. The agent has one small tool, which it calls in every turn but the last.

    bare   httpx2 alone: `json.dumps` of the whole history, `json.loads` of each event
    SDK    the vendor's client: `create(stream=True)` with the whole history
    ours   an Agent with a HostedModel: context, plan, adapter, verdict, report

    python tests/bench/turn_overhead.py [--turns 10 100 400] [--rounds 5] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from results import Result, write_benchmarks
from rich.console import Console
from rich.table import Table
from turn_replies import city

from agentkit import Agent, tool
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.models.hosted.wire import Adapter

BENCHMARKS = Path(__file__).parents[2] / "docs" / "benchmarks.json"

Run = Callable[[str, int], Awaitable[float]]
"""Takes the provider's address and the number of turns; returns CPU seconds, without the client's
own beginning."""

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
    def lookup(self, city: str) -> str:
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
            stream = await client.messages.create(
                model="claude-sonnet-5-5",
                max_tokens=4_096,
                stream=True,
                system=_RULES,
                tools=tools,
                messages=history,  # type: ignore[arg-type]
            )
            content: list[dict[str, Any]] = []
            async for event in stream:
                if event.type == "content_block_start":
                    block: Any = event.content_block
                    named = {"id": block.id, "name": block.name} if block.type == "tool_use" else {}
                    text = {"text": ""} if block.type == "text" else {}
                    content.append({"type": block.type, **named, **text, "input": ""})
                elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                    content[-1]["text"] += event.delta.text
                elif event.type == "content_block_delta":
                    delta: Any = event.delta
                    content[-1]["input"] += delta.partial_json
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU milliseconds of one turn, round by round; the rounds take turns."""

    api: Api
    n_turns: int
    bare: list[float]
    sdk: list[float]
    ours: list[float]

    @property
    def ratio(self) -> float:
        """Ours by the bare loop's, the median of the rounds: a busy machine slows both."""
        pairs = zip(self.ours, self.bare, strict=True)
        return statistics.median(ours / bare for ours, bare in pairs)


def measure(api: Api, n_turns: int, *, address: str, rounds: int) -> Cost:
    """Run all three loops, once for warming up and then `rounds` times."""
    cost = Cost(api=api, n_turns=n_turns, bare=[], sdk=[], ours=[])
    loops = ((api.bare, cost.bare), (api.sdk, cost.sdk), (api.ours, cost.ours))
    for run, _ in loops:
        asyncio.run(run(f"{address}/3", 3))
    for _ in range(rounds):
        for run, found in loops:
            cost_s = asyncio.run(run(f"{address}/{n_turns}", n_turns))
            found.append(cost_s * 1_000 / n_turns)
    return cost


@contextmanager
def provider() -> Iterator[str]:
    """The address of a provider that answers while this is open."""
    command = [sys.executable, str(Path(__file__).with_name("turn_replies.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


def show(costs: list[Cost]) -> None:
    """Print the table."""
    table = Table(title="CPU ms per turn (median), one small tool")
    for name in ("API", "turns", "bare httpx2", "SDK", "ours", "ours / bare", "ours / SDK"):
        table.add_column(name, justify="left" if name == "API" else "right")
    for each in costs:
        bare, sdk, ours = map(statistics.median, (each.bare, each.sdk, each.ours))
        table.add_row(
            each.api.name,
            str(each.n_turns),
            *(f"{value:.2f}" for value in (bare, sdk, ours, each.ratio, ours / sdk)),
        )
    Console(width=100).print(table)


def _results(costs: list[Cost]) -> Iterator[Result]:
    for each in costs:
        yield Result(
            name=f"turn_overhead_{each.api.name}_{each.n_turns}_turns_over_bare_httpx2",
            value=round(each.ratio, 3),
            unit="ratio",
            note=f"process CPU per turn, median of {len(each.ours)}; "
            f"ours {statistics.median(each.ours):.2f} ms, "
            f"bare {statistics.median(each.bare):.2f} ms, SDK {statistics.median(each.sdk):.2f} ms",
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=[10, 100, 400])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--api", default="", help="one of the APIs")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.json")
    given = parser.parse_args()
    with provider() as address:
        costs = [
            measure(api, n_turns, address=address, rounds=given.rounds)
            for api in APIS
            if given.api in api.name
            for n_turns in given.turns
        ]
    show(costs)
    if given.write:
        write_benchmarks(BENCHMARKS, _results(costs))


if __name__ == "__main__":
    main()
