"""The Responses API: OpenAI's own client reads what a cache of its rules would say."""

from __future__ import annotations

from typing import Any

import openai as sdk
import pytest
from openai import AsyncOpenAI

from agentkit.caching.simulate import MissReason, Served
from agentkit.caching.times import VirtualTime
from agentkit.fake import FakeProvider

MODEL = "gpt-6-sol"
RULES = {
    "role": "developer",
    "content": [{"type": "input_text", "text": "Follow the rules. " * 400}],
}
TOOL = {
    "type": "function",
    "name": "look",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {"z": {"type": "string"}},
        "required": ["z"],
    },
}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


def marked(item: dict[str, Any], **mark: str) -> dict[str, Any]:
    part = {**item["content"][0], "prompt_cache_breakpoint": {"mode": "explicit", **mark}}
    return {**item, "content": [part]}


def ask(*items: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"model": MODEL, "input": list(items), "store": False, **changes}


async def test_the_implicit_mode_reads_the_developer_block_again(openai: AsyncOpenAI) -> None:
    first = (await openai.responses.create(**ask(RULES, user("one")))).usage
    second = (await openai.responses.create(**ask(RULES, user("one")))).usage
    assert first is not None
    assert second is not None
    assert first.input_tokens_details.cached_tokens == 0
    assert first.input_tokens_details.cache_write_tokens == first.input_tokens
    assert second.input_tokens_details.cached_tokens == second.input_tokens == first.input_tokens
    assert second.input_tokens_details.cache_write_tokens_details is not None


async def test_explicit_breakpoints_are_written_and_read_exactly(openai: AsyncOpenAI) -> None:
    options = {"prompt_cache_options": {"mode": "explicit"}}
    rules = marked(RULES, ttl="12h")
    first = (await openai.responses.create(**ask(rules, user("one"), **options))).usage
    second = (await openai.responses.create(**ask(rules, user("two"), **options))).usage
    assert first is not None
    assert second is not None
    split = first.input_tokens_details.cache_write_tokens_details
    assert split is not None
    assert (split.ttl_12h_tokens > 1024, split.ttl_30m_tokens) == (True, 0)
    assert second.input_tokens_details.cached_tokens == split.ttl_12h_tokens


async def test_explicit_mode_without_a_breakpoint_caches_nothing(
    openai: AsyncOpenAI, fake: FakeProvider
) -> None:
    for _ in range(2):
        await openai.responses.create(
            **ask(RULES, user("one"), prompt_cache_options={"mode": "explicit"})
        )
    served = [each for each in fake.served if isinstance(each, Served)]
    assert [(each.read, each.split.written) for each in served] == [(0, 0)] * 2
    assert served[-1].miss_reason is MissReason.NO_MARKS


async def test_each_turn_of_a_conversation_reads_the_turns_before(openai: AsyncOpenAI) -> None:
    items: list[Any] = [RULES]
    read, total = [], []
    for turn in range(4):
        items.append(user(f'/think hm\n/call look {{"z": "{turn}"}}'))
        reply = await openai.responses.create(**ask(*items, tools=[TOOL]))
        assert [item.type for item in reply.output] == ["reasoning", "function_call"]
        assert reply.usage is not None
        read.append(reply.usage.input_tokens_details.cached_tokens)
        total.append(reply.usage.input_tokens)
        items += [item.model_dump(exclude_none=True) for item in reply.output]
        call_id = reply.output[-1].call_id  # type: ignore[union-attr]
        items.append({"type": "function_call_output", "call_id": call_id, "output": "found"})
    assert read[0] == 0
    assert read[1:] == total[:-1]


async def test_a_stored_response_can_be_continued_by_its_id(openai: AsyncOpenAI) -> None:
    first = await openai.responses.create(model=MODEL, input=[RULES, user("/say one")])  # type: ignore[list-item]
    second = await openai.responses.create(
        model=MODEL, input="/say two", previous_response_id=first.id
    )
    third = await openai.responses.create(model=MODEL, input="x", previous_response_id=second.id)
    for before, after in ((first, second), (second, third)):
        assert before.usage is not None
        assert after.usage is not None
        assert after.usage.input_tokens_details.cached_tokens == before.usage.input_tokens
    unstored = await openai.responses.create(model=MODEL, input="x", store=False)
    for name in (unstored.id, "resp_nobody"):
        with pytest.raises(sdk.BadRequestError, match="not found"):
            await openai.responses.create(model=MODEL, input="x", previous_response_id=name)


async def test_a_string_and_a_list_of_one_text_are_the_same_result(openai: AsyncOpenAI) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "found"}
    parts = {**result, "output": [{"type": "input_text", "text": "found"}]}
    await openai.responses.create(**ask(RULES, user("x"), call, result))
    usage = (await openai.responses.create(**ask(RULES, user("x"), call, parts))).usage
    assert usage is not None
    assert usage.input_tokens_details.cache_write_tokens == 0


async def test_a_stream_ends_in_the_same_response(openai: AsyncOpenAI) -> None:
    request = ask(user('/think hm\n/say one two three four five\n/call look {"z": "ü"}'))
    request["tools"] = [TOOL]
    whole = await openai.responses.create(**request)
    async with openai.responses.stream(**request) as stream:
        kinds = [event.type async for event in stream]
        streamed = await stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert streamed.output_text == whole.output_text
    assert streamed.usage == whole.usage
    assert streamed.output[2].arguments == '{"z": "ü"}'  # type: ignore[union-attr]


async def test_the_tool_choice_keeps_the_prefix_and_the_effort_loses_it(
    openai: AsyncOpenAI,
) -> None:
    async def read(**changes: Any) -> int:
        request = ask(RULES, user("x"), tools=[TOOL], **changes)
        usage = (await openai.responses.create(**request)).usage
        assert usage is not None
        return usage.input_tokens_details.cached_tokens

    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "look"}]}
    assert await read() == 0
    assert await read(tool_choice="none")
    assert await read(tool_choice=allowed)
    assert await read(reasoning={"effort": "low"}) == 0


async def test_prewarm_writes_and_says_nothing(openai: AsyncOpenAI) -> None:
    warm = await openai.responses.create(
        **ask(marked(RULES), user("x"), extra_body={"prompt_cache_options": {"prewarm": True}})
    )
    assert warm.output == []
    assert warm.usage is not None
    assert warm.usage.output_tokens == 0
    usage = (await openai.responses.create(**ask(marked(RULES), user("y")))).usage
    assert usage is not None
    assert usage.input_tokens_details.cached_tokens > 1024


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([{"type": "function_call_output", "call_id": "c", "output": "x"}], "No tool call found"),
        (
            [{"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}],
            "No tool output found",
        ),
        ([{"role": "robot", "content": "x"}], "Supported values"),
        ([user("x"), marked(user("y"), ttl="1h")], "is not accepted"),
    ],
)
async def test_refusals_raise_the_client_s_own_error(
    openai: AsyncOpenAI, items: list[Any], says: str
) -> None:
    with pytest.raises(sdk.BadRequestError, match=says) as caught:
        await openai.responses.create(**ask(*items))
    assert caught.value.type == "invalid_request_error"


async def test_failures_raise_the_client_s_own_errors(openai: AsyncOpenAI) -> None:
    with pytest.raises(sdk.RateLimitError) as caught:
        await openai.responses.create(**ask(user("/fail 429 3")))
    assert caught.value.response.headers["retry-after"] == "3"
    with pytest.raises(sdk.InternalServerError):
        await openai.responses.create(**ask(user("/fail 503")))
    with pytest.raises(sdk.NotFoundError):
        await openai.responses.create(**ask(user("x"), model="nobody"))


async def test_diagnostics_name_what_changed(openai: AsyncOpenAI) -> None:
    first = await openai.responses.create(**ask(RULES, user("x")))

    async def diagnosis(*items: dict[str, Any], with_id: str = first.id, **changes: Any) -> Any:
        options = {"prompt_cache_options": {"comparison_response_id": with_id}}
        reply = await openai.responses.create(**ask(*items, extra_body=options, **changes))
        return reply.prompt_cache_diagnostics

    assert (await diagnosis(RULES, user("x"), user("y"))).type == "cache_hit"
    changed = await diagnosis(RULES, user("z"))
    assert (changed.reason, changed.comparison_reusable_tokens > 1024) == ("input_changed", True)
    assert (await diagnosis(RULES, user("x"), prompt_cache_key="k")).reason == (
        "prompt_cache_key_changed"
    )
    assert (await diagnosis(RULES, user("x"), tools=[TOOL])).reason == "tools_changed"
    missing = await diagnosis(RULES, user("x"), with_id="resp_nobody")
    assert missing.type == "comparison_response_not_found"


async def test_earlier_models_report_whole_intervals_and_no_writes(
    openai: AsyncOpenAI, time: VirtualTime
) -> None:
    for _ in range(2):
        reply = await openai.responses.create(**ask(RULES, user("x"), model="gpt-5.4"))
    assert reply.usage is not None
    assert reply.usage.input_tokens_details.cached_tokens % 128 == 0
    assert reply.usage.input_tokens_details.cached_tokens >= 1024
    assert "cache_write_tokens" not in reply.usage.input_tokens_details.model_fields_set
