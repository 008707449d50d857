"""The Messages API: Anthropic's own client reads what a cache of its rules would say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic as sdk
import httpx2
import pytest
from anthropic import AsyncAnthropic

from agentkit.caching.simulate import MissReason, RefusalReason, Refused, Served
from agentkit.caching.times import VirtualTime
from agentkit.fake import FakeProvider

MODEL = "claude-sonnet-5-5"
MARK = {"type": "ephemeral"}
RULES = {"type": "text", "text": "Follow the rules. " * 400}
TOOL = {
    "name": "look",
    "description": "Look something up.",
    "input_schema": {
        "type": "object",
        "properties": {"z": {"type": "string"}, "a": {"type": "integer"}},
        "required": ["z", "a"],
    },
}


def ask(text: str, **changes: Any) -> dict[str, Any]:
    return {
        "model": MODEL,
        "max_tokens": 200,
        "system": [{**RULES, "cache_control": MARK}],
        "messages": [{"role": "user", "content": text}],
        **changes,
    }


async def test_a_marked_prefix_is_written_once_and_read_by_the_next_request(
    anthropic: AsyncAnthropic,
) -> None:
    first = (await anthropic.messages.create(**ask("one"))).usage
    second = (await anthropic.messages.create(**ask("two"))).usage
    assert (first.cache_read_input_tokens, second.cache_creation_input_tokens) == (0, 0)
    assert second.cache_read_input_tokens == first.cache_creation_input_tokens
    assert first.cache_creation is not None
    assert first.cache_creation.ephemeral_5m_input_tokens == first.cache_creation_input_tokens


async def test_tokens_are_a_quarter_of_the_bytes_of_the_compact_json(
    anthropic: AsyncAnthropic,
) -> None:
    usage = (await anthropic.messages.create(**ask("one"))).usage
    size = len(json.dumps(RULES, separators=(",", ":")))
    assert usage.cache_creation_input_tokens == -(-size // 4)
    assert usage.input_tokens == -(-len('{"type":"text","text":"one"}') // 4)


async def test_an_entry_is_gone_after_five_minutes_without_use(
    anthropic: AsyncAnthropic, fake: FakeProvider, time: VirtualTime
) -> None:
    for seconds in (0, 299, 299, 301):
        await time.advance(seconds)
        await anthropic.messages.create(**ask("one"))
    served = [each for each in fake.served if isinstance(each, Served)]
    assert [each.read > 0 for each in served] == [False, True, True, False]
    assert served[-1].miss_reason is MissReason.EXPIRED


async def test_each_turn_of_a_conversation_reads_the_turns_before(
    anthropic: AsyncAnthropic,
) -> None:
    """A reply that is sent back as the client got it extends the prefix."""
    messages: list[Any] = []
    read, total = [], []
    for turn in range(4):
        text = f'/think step {turn}\n/call look {{"z": "q{turn}", "a": {turn}}}'
        results: list[Any] = [
            {"type": "tool_result", "tool_use_id": call.id, "content": "found"}
            for call in (messages[-1]["content"] if messages else [])
            if call.type == "tool_use"
        ]
        question = {"type": "text", "text": text, "cache_control": MARK}
        messages.append({"role": "user", "content": [*results, question]})
        reply = await anthropic.messages.create(**ask("", messages=messages, tools=[TOOL]))
        assert [block.type for block in reply.content] == ["thinking", "tool_use"]
        assert reply.stop_reason == "tool_use"
        for message in messages:  # marks move on; they are no part of what is cached
            message["content"][-1].pop("cache_control", None) if message["role"] == "user" else 0
        messages.append({"role": "assistant", "content": reply.content})
        read.append(reply.usage.cache_read_input_tokens)
        total.append(read[-1] + (reply.usage.cache_creation_input_tokens or 0))
    assert read[0] == 0
    assert read[1:] == total[:-1]


async def test_a_stream_ends_in_the_same_usage_as_a_whole_response(
    anthropic_of: Callable[[str], AsyncAnthropic],
) -> None:
    text = (
        '/think well\n/say some words that need more than one delta\n/call look {"z": "ü", "a": 1}'
    )
    request = ask(text, tools=[TOOL])
    whole = await anthropic_of("a").messages.create(**request)
    async with anthropic_of("b").messages.stream(**request) as stream:
        streamed = await stream.get_final_message()
    assert streamed.usage.cache_creation == whole.usage.cache_creation
    assert streamed.usage.output_tokens == whole.usage.output_tokens > 0
    assert [block.type for block in streamed.content] == ["thinking", "text", "tool_use"]
    assert [
        b.model_dump(exclude={"id", "signature", "parsed_output"}) for b in streamed.content
    ] == [b.model_dump(exclude={"id", "signature"}) for b in whole.content]


async def test_the_last_event_of_a_stream_repeats_the_counts_without_the_split(
    http: httpx2.AsyncClient,
) -> None:
    body = {**ask("one"), "stream": True}
    response = await http.post("/v1/messages", json=body, headers={"x-api-key": "key"})
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line[:5] == "data:"]
    assert [event["type"] for event in events] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    start, end = events[0]["message"]["usage"], events[-2]["usage"]
    assert start["cache_creation"]["ephemeral_5m_input_tokens"] > 0
    assert "cache_creation" not in end
    assert end["cache_creation_input_tokens"] == start["cache_creation_input_tokens"]


async def test_max_tokens_0_fills_the_cache_and_says_nothing(anthropic: AsyncAnthropic) -> None:
    warm = await anthropic.messages.create(**ask("x", max_tokens=0))
    assert (warm.content, warm.stop_reason, warm.usage.output_tokens) == ([], "max_tokens", 0)
    after = await anthropic.messages.create(**ask("one"))
    assert after.usage.cache_read_input_tokens == warm.usage.cache_creation_input_tokens


async def test_counting_tokens_agrees_with_the_bill_and_caches_nothing(
    anthropic: AsyncAnthropic,
) -> None:
    request = ask("one", tools=[TOOL])
    del request["max_tokens"]
    counted = await anthropic.messages.count_tokens(**request)
    usage = (await anthropic.messages.create(**ask("one", tools=[TOOL]))).usage
    assert usage.cache_read_input_tokens == 0
    assert counted.input_tokens == usage.input_tokens + (usage.cache_creation_input_tokens or 0)


async def test_api_keys_do_not_share_a_cache(
    anthropic_of: Callable[[str], AsyncAnthropic],
) -> None:
    await anthropic_of("mine").messages.create(**ask("one"))
    usage = (await anthropic_of("yours").messages.create(**ask("one"))).usage
    assert usage.cache_read_input_tokens == 0


async def test_the_order_of_the_keys_of_a_schema_matters_and_that_of_a_tool_does_not(
    anthropic: AsyncAnthropic,
) -> None:
    async def read(tool: Any) -> int | None:
        marked = {**tool, "cache_control": MARK}
        usage = (await anthropic.messages.create(**ask("x", tools=[marked], system=[RULES]))).usage
        return usage.cache_read_input_tokens

    big = {**TOOL, "description": "Look. " * 500}
    assert await read(big) == 0
    assert await read(dict(reversed(big.items())))
    schema = dict(reversed(TOOL["input_schema"].items()))  # type: ignore[attr-defined]
    assert await read({**big, "input_schema": schema}) == 0


async def test_a_string_and_one_block_of_text_are_the_same_prompt(
    anthropic: AsyncAnthropic,
) -> None:
    mark = {"cache_control": MARK}
    await anthropic.messages.create(**ask("x", system=RULES["text"], **mark))
    usage = (await anthropic.messages.create(**ask("x", system=[RULES], **mark))).usage
    assert usage.cache_read_input_tokens


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"tools": [{**TOOL, "name": f"t{i}", "cache_control": MARK} for i in range(4)]},
            RefusalReason.TOO_MANY_MARKS,
        ),
        (
            {
                "tools": [{**TOOL, "cache_control": {**MARK, "ttl": "5m"}}],
                "system": [{**RULES, "cache_control": {**MARK, "ttl": "1h"}}],
            },
            RefusalReason.TTL_ORDER,
        ),
        (
            {"system": [{**RULES, "cache_control": {**MARK, "ttl": "12h"}}]},
            RefusalReason.UNKNOWN_TTL,
        ),
        (
            {"max_tokens": 0, "tools": [TOOL], "tool_choice": {"type": "any"}},
            RefusalReason.PREWARM_CONFLICT,
        ),
    ],
)
async def test_refused_marks_raise_the_client_s_own_error(
    anthropic: AsyncAnthropic, fake: FakeProvider, change: dict[str, Any], reason: RefusalReason
) -> None:
    with pytest.raises(sdk.BadRequestError) as caught:
        await anthropic.messages.create(**ask("one", **change))
    assert caught.value.type == "invalid_request_error"
    (refused,) = fake.served
    assert isinstance(refused, Refused)
    assert refused.reason is reason


CALL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "found"}


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "at least one message"),
        ([{"role": "assistant", "content": "hi"}], "first message must use"),
        ([{"role": "robot", "content": "hi"}], "Input should be 'user'"),
        ([{"role": "user", "content": ""}], "must be non-empty"),
        ([{"role": "user", "content": [RESULT]}], "unexpected `tool_use_id`"),
        (
            [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": [CALL]},
                {"role": "user", "content": "y"},
            ],
            "without `tool_result` blocks immediately after",
        ),
        (
            [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": [CALL]},
                {"role": "user", "content": [{"type": "text", "text": "y"}, RESULT]},
            ],
            "must come first",
        ),
        (
            [
                {"role": "user", "content": "x"},
                {"role": "system", "content": "y"},
                {"role": "user", "content": "z"},
            ],
            "a system message must follow",
        ),
        (
            [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "thinking",
                            "thinking": "x",
                            "signature": "y",
                            "cache_control": MARK,
                        }
                    ],
                }
            ],
            "not permitted",
        ),
    ],
)
async def test_conversations_that_the_api_refuses_are_refused(
    anthropic: AsyncAnthropic, messages: Any, says: str
) -> None:
    with pytest.raises(sdk.BadRequestError, match=says):
        await anthropic.messages.create(**ask("", messages=messages))


async def test_results_in_several_user_messages_are_one_turn(anthropic: AsyncAnthropic) -> None:
    second = {**CALL, "id": "toolu_2"}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [CALL, second]},
        {"role": "user", "content": [RESULT]},
        {"role": "user", "content": [{**RESULT, "tool_use_id": "toolu_2"}]},
        {"role": "user", "content": "and now?"},
    ]
    reply = await anthropic.messages.create(**ask("", messages=messages, tools=[TOOL]))
    assert reply.stop_reason == "end_turn"


async def test_thinking_behind_another_prefix_is_refused(anthropic: AsyncAnthropic) -> None:
    first = await anthropic.messages.create(**ask("/think hm"))
    messages = [
        {"role": "user", "content": "/think hm, edited"},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": "go on"},
    ]
    with pytest.raises(sdk.BadRequestError, match="bound to a different conversation"):
        await anthropic.messages.create(**ask("", messages=messages))
    messages[0]["content"] = "/think hm"
    assert await anthropic.messages.create(**ask("", messages=messages))


@pytest.mark.parametrize(
    ("status", "error"),
    [(429, sdk.RateLimitError), (529, sdk.OverloadedError), (500, sdk.InternalServerError)],
)
async def test_failures_raise_the_client_s_own_errors_and_write_nothing(
    anthropic: AsyncAnthropic, fake: FakeProvider, status: int, error: type[sdk.APIStatusError]
) -> None:
    with pytest.raises(error) as caught:
        await anthropic.messages.create(**ask(f"/fail {status} 7"))
    assert caught.value.response.headers["retry-after"] == "7"
    assert fake.served == []
    usage = (await anthropic.messages.create(**ask("one"))).usage
    assert usage.cache_read_input_tokens == 0


async def test_no_key_and_unknown_models_are_refused(
    anthropic: AsyncAnthropic, http: httpx2.AsyncClient
) -> None:
    assert (await http.post("/v1/messages", json=ask("one"))).status_code == 401
    with pytest.raises(sdk.NotFoundError, match="claude-nobody"):
        await anthropic.messages.create(**ask("one", model="claude-nobody"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": "claude-opus-5-5"}, "model_changed"),
        ({"tools": [TOOL]}, "tools_changed"),
        ({"system": [{**RULES, "text": "Other rules. " * 500}]}, "system_changed"),
        ({"messages": [{"role": "user", "content": "else"}]}, "messages_changed"),
        ({"output_config": {"effort": "low"}}, "unavailable"),
    ],
)
async def test_diagnostics_name_what_changed(
    anthropic: AsyncAnthropic, change: dict[str, Any], reason: str
) -> None:
    first = await anthropic.messages.create(**ask("one", diagnostics={"previous_message_id": None}))
    assert first.diagnostics is None
    named = {"diagnostics": {"previous_message_id": first.id}}
    async with anthropic.messages.stream(**ask("one", **named, **change)) as stream:
        changed = await stream.get_final_message()
    assert changed.diagnostics is not None
    assert changed.diagnostics.cache_miss_reason is not None
    assert changed.diagnostics.cache_miss_reason.type == reason
    same = await anthropic.messages.create(**ask("one", **named))
    assert same.diagnostics is None


async def test_diagnostics_of_an_unknown_message_say_so(anthropic: AsyncAnthropic) -> None:
    named = {"diagnostics": {"previous_message_id": "msg_nobody"}}
    reply = await anthropic.messages.create(**ask("one", **named))
    assert reply.diagnostics is not None
    assert reply.diagnostics.cache_miss_reason is not None
    assert reply.diagnostics.cache_miss_reason.type == "previous_message_not_found"


async def test_a_reply_is_cut_at_max_tokens(anthropic: AsyncAnthropic) -> None:
    reply = await anthropic.messages.create(**ask("/say " + "word " * 100, max_tokens=5))
    assert reply.stop_reason == "max_tokens"
    assert reply.content[0].type == "text"
    assert len(reply.content[0].text) == 20
