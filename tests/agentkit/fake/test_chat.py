"""Chat completions: OpenAI, DeepSeek, and a gateway to Claude, through OpenAI's client."""

from __future__ import annotations

from typing import Any

import httpx2
import openai as sdk
import pytest
from openai import AsyncOpenAI

from agentkit.caching.simulate import MissReason, Served
from agentkit.caching.times import VirtualTime
from agentkit.fake import FakeProvider

RULES = {"role": "system", "content": "Follow the rules. " * 400}
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"z": {"type": "string"}},
            "required": ["z"],
        },
    },
}


def ask(model: str, *messages: Any, **changes: Any) -> dict[str, Any]:
    return {"model": model, "messages": list(messages), **changes}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def run(
    client: AsyncOpenAI, model: str, *, turns: int, time: VirtualTime, rules: Any = RULES
) -> list[Any]:
    """A run with a tool call in each turn, a minute apart; return the usage of each turn."""
    messages: list[Any] = [rules]
    found = []
    for turn in range(turns):
        messages.append(user(f'/call look {{"z": "{turn}"}}'))
        reply = await client.chat.completions.create(**ask(model, *messages, tools=[TOOL]))
        message = reply.choices[0].message
        assert reply.choices[0].finish_reason == "tool_calls"
        assert message.tool_calls
        found.append(reply.usage)
        messages.append(message.model_dump(exclude_none=True))
        messages.append(
            {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "found"}
        )
        await time.advance(60)
    return found


async def test_each_turn_at_openai_reads_the_turns_before(
    openai: AsyncOpenAI, time: VirtualTime
) -> None:
    usage = await run(openai, "gpt-6-sol", turns=4, time=time)
    read = [each.prompt_tokens_details.cached_tokens for each in usage]
    assert read[0] == 0
    assert read[1:] == [each.prompt_tokens for each in usage[:-1]]
    assert usage[0].prompt_tokens_details.cache_write_tokens == usage[0].prompt_tokens


async def test_a_turn_at_deepseek_reads_the_whole_unit_that_the_last_one_left(
    deepseek: AsyncOpenAI, time: VirtualTime
) -> None:
    """Its unit goes to the end of the reply, so more is read than was sent before."""
    usage = await run(deepseek, "deepseek-flash", turns=4, time=time)
    hits = [each.prompt_cache_hit_tokens for each in usage]
    assert hits[0] == 0
    for before, hit in zip(usage, hits[1:], strict=False):
        assert hit == before.prompt_tokens + before.completion_tokens
    for each in usage:
        assert each.prompt_cache_hit_tokens + each.prompt_cache_miss_tokens == each.prompt_tokens


async def test_users_of_deepseek_share_nothing(deepseek: AsyncOpenAI, time: VirtualTime) -> None:
    for name in ("a", "a", "b"):
        reply = await deepseek.chat.completions.create(
            **ask("deepseek-flash", RULES, user("x"), extra_body={"user_id": name})
        )
        await time.advance(60)
        assert reply.usage is not None
        last = reply.usage.prompt_tokens_details
    assert last is not None
    assert last.cached_tokens == 0


async def test_thinking_of_deepseek_comes_beside_the_text(deepseek: AsyncOpenAI) -> None:
    request = ask("deepseek-flash", user("/think hm\n/say hello"))
    whole = (await deepseek.chat.completions.create(**request)).choices[0].message
    assert (whole.content, whole.model_extra) == ("hello", {"reasoning_content": "hm"})
    stream = await deepseek.chat.completions.create(**request, stream=True)
    deltas = [chunk.choices[0].delta.model_extra or {} async for chunk in stream]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "hm"


async def test_the_usage_of_a_stream_comes_in_a_chunk_without_choices(
    openai: AsyncOpenAI,
) -> None:
    request = ask("gpt-6-sol", RULES, user('/say one two three four\n/call look {"z": "ü"}'))
    request |= {"tools": [TOOL], "stream": True, "stream_options": {"include_usage": True}}
    chunks = [chunk async for chunk in await openai.chat.completions.create(**request)]
    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].choices == []
    deltas = [chunk.choices[0].delta for chunk in chunks[:-1]]
    assert "".join(delta.content or "" for delta in deltas) == "one two three four"
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert "".join(call.function.arguments for call in calls) == '{"z": "ü"}'
    assert chunks[-2].choices[0].finish_reason == "tool_calls"


async def test_a_stream_that_was_not_asked_for_usage_has_none(openai: AsyncOpenAI) -> None:
    request = ask("gpt-6-sol", user("x"), stream=True)
    chunks = [chunk async for chunk in await openai.chat.completions.create(**request)]
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)


@pytest.mark.parametrize("marked", [False, True])
async def test_claude_behind_a_gateway_is_cached_where_parts_are_marked_and_nowhere_else(
    openai: AsyncOpenAI, fake: FakeProvider, time: VirtualTime, marked: bool
) -> None:
    """C89: a client that sends no marks through a gateway pays in full, and the ledger shows it."""
    part = {"type": "text", "text": RULES["content"]}
    if marked:
        part["cache_control"] = {"type": "ephemeral"}  # type: ignore[assignment]
    rules = {"role": "system", "content": [part]}
    usage = await run(openai, "anthropic/claude-sonnet-5-5", turns=3, time=time, rules=rules)
    read = [each.prompt_tokens_details.cached_tokens for each in usage]
    wrote = [each.prompt_tokens_details.cache_write_tokens for each in usage]
    (total,) = fake.ledger()["totals"]
    if marked:
        assert read[0] == 0
        assert read[1:] == [wrote[0]] * 2
        assert float(total["cost"]) < float(total["uncached_cost"])
    else:
        assert read == wrote == [0, 0, 0]
        assert total["misses"] == {"no_marks": 3}
        assert total["cost"] == total["uncached_cost"]


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "empty array"),
        ([{"role": "robot", "content": "x"}], "Supported values"),
        ([{"role": "tool", "tool_call_id": "c", "content": "x"}], "must be a response to"),
        (
            [
                user("x"),
                {
                    "role": "assistant",
                    "tool_calls": [
                        {
                            "id": "c",
                            "type": "function",
                            "function": {"name": "look", "arguments": "{}"},
                        }
                    ],
                },
                user("y"),
            ],
            "must be followed by tool messages",
        ),
    ],
)
async def test_refusals_raise_the_client_s_own_error(
    openai: AsyncOpenAI, messages: list[Any], says: str
) -> None:
    with pytest.raises(sdk.BadRequestError, match=says):
        await openai.chat.completions.create(**ask("gpt-6-sol", *messages))


async def test_twelve_hours_are_refused_on_chat(openai: AsyncOpenAI) -> None:
    mark = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
    message = {"role": "user", "content": [{"type": "text", "text": "x", **mark}]}
    with pytest.raises(sdk.BadRequestError, match="12h"):
        await openai.chat.completions.create(**ask("gpt-6-sol", message))


async def test_unmarked_prefixes_of_deepseek_become_a_unit_when_they_are_seen_twice(
    deepseek: AsyncOpenAI, fake: FakeProvider, time: VirtualTime
) -> None:
    """Documented: A+B, then A+C misses and makes A a unit, then A+D reads A."""
    for text in ("B", "C", "D"):
        await deepseek.chat.completions.create(**ask("deepseek-flash", RULES, user(text)))
        await time.advance(60)
    served = [each for each in fake.served if isinstance(each, Served)]
    assert [each.read > 1_000 for each in served] == [False, False, True]
    assert served[1].miss_reason is not None
    assert served[1].miss_reason is not MissReason.NO_MARKS


async def test_a_server_of_one_s_own_reads_whole_blocks_and_keeps_salts_apart(
    http: httpx2.AsyncClient, fake: FakeProvider
) -> None:
    vllm = AsyncOpenAI(
        api_key="any", base_url="http://fake/vllm/v1", max_retries=0, http_client=http
    )

    async def read(salt: str) -> int:
        request = ask("org/own-model", RULES, user("x"), extra_body={"cache_salt": salt})
        usage = (await vllm.chat.completions.create(**request)).usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        return usage.prompt_tokens_details.cached_tokens or 0

    assert await read("a") == 0
    assert await read("b") == 0
    again = await read("a")
    assert again > 1_000
    assert again % 16 == 0
    assert fake.records[0].model == "org/own-model"


async def test_models_are_listed_for_each_client(openai: AsyncOpenAI) -> None:
    names = [model.id async for model in openai.models.list()]
    assert "gpt-6-sol" in names
