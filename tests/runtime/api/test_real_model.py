"""The official client against a server with the bundled model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionMessageParam,
    ChatCompletionToolParam,
)

from agentkit_runtime.local import LocalRuntime
from tests.runtime.api.serving import serving
from tests.runtime.service.scripted import wait_until

RULES = "You are a careful assistant. Answer in one short sentence and use plain words. " * 4
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 12},
                "unit": {"enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def runtime(smollm2_gguf: Path) -> Iterator[LocalRuntime]:
    with LocalRuntime.load(str(smollm2_gguf), max_slots=4096, threads=1) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def base_url(runtime: LocalRuntime) -> Iterator[str]:
    with serving(runtime.service) as (url, _):
        yield f"{url}/v1"


@pytest.fixture
def client(base_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture
def model(runtime: LocalRuntime) -> str:
    return runtime.model_label


def conversation(*texts: str) -> list[ChatCompletionMessageParam]:
    """The rules, then user and assistant in turn."""
    messages: list[ChatCompletionMessageParam] = [{"role": "system", "content": RULES}]
    for index, text in enumerate(texts):
        role = "assistant" if index % 2 else "user"
        messages.append({"role": role, "content": text})  # type: ignore[misc,arg-type]
    return messages


def tokens(answer: ChatCompletion) -> tuple[int, int, int]:
    """Prompt, cached and completion tokens."""
    usage = answer.usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    cached = usage.prompt_tokens_details.cached_tokens
    assert cached is not None
    return usage.prompt_tokens, cached, usage.completion_tokens


def test_it_knows_a_capital_and_reads_a_repeated_prompt_from_the_cache(
    client: openai.OpenAI, model: str
) -> None:
    def ask() -> ChatCompletion:
        return client.chat.completions.create(
            model=model,
            messages=conversation("What is the capital of France?"),
            max_completion_tokens=24,
        )

    first, again = ask(), ask()

    assert "Paris" in (first.choices[0].message.content or "")
    assert again.choices[0].message == first.choices[0].message
    n_prompt, cached_again, _ = tokens(again)
    assert tokens(first)[1] < n_prompt // 2
    assert cached_again == n_prompt - 1


def test_the_next_turn_reads_the_whole_turn_before_from_the_cache(
    client: openai.OpenAI, model: str
) -> None:
    question = "Name one colour of the rainbow."
    first = client.chat.completions.create(
        model=model, messages=conversation(question), max_completion_tokens=16
    )
    reply = first.choices[0].message.content or ""

    second = client.chat.completions.create(
        model=model, messages=conversation(question, reply, "Another one?"), max_tokens=4
    )

    n_prompt, _, n_reply = tokens(first)
    # The last token of the reply was never run through the model: nothing came after it.
    assert tokens(second)[1] >= n_prompt + n_reply - 1


def test_a_forced_call_is_valid_and_the_same_streamed_and_whole(
    client: openai.OpenAI, model: str
) -> None:
    def ask(stream: bool) -> str:
        made = client.chat.completions.create(
            model=model,
            messages=conversation("What is the weather in Oslo?"),
            tools=[WEATHER],
            tool_choice={"type": "function", "function": {"name": "get_weather"}},
            parallel_tool_calls=False,
            max_tokens=60,
            stream=stream,
        )
        if isinstance(made, ChatCompletion):
            (call,) = made.choices[0].message.tool_calls or ()
            assert call.type == "function"
            assert made.choices[0].finish_reason == "tool_calls"
            return call.function.arguments
        chunks = list(made)
        assert chunks[-1].choices[0].finish_reason == "tool_calls"
        pieces = [piece for c in chunks for piece in c.choices[0].delta.tool_calls or ()]
        return "".join(piece.function.arguments or "" for piece in pieces if piece.function)

    whole, streamed = ask(False), ask(True)

    assert whole == streamed
    arguments = json.loads(whole)
    assert set(arguments) == {"city", "unit"}
    assert arguments["unit"] in {"celsius", "fahrenheit"}


def test_a_response_schema_is_kept(client: openai.OpenAI, model: str) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"enum": ["yes", "no"]}, "score": {"type": "integer"}},
        "required": ["answer", "score"],
        "additionalProperties": False,
    }
    answer = client.chat.completions.create(
        model=model,
        messages=conversation("Is water wet?"),
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "verdict", "schema": schema},
        },
        max_tokens=60,
    )

    assert answer.choices[0].finish_reason == "stop"
    verdict = json.loads(answer.choices[0].message.content or "")
    assert verdict["answer"] in {"yes", "no"}
    assert isinstance(verdict["score"], int)


async def test_clients_at_the_same_time_get_their_own_answers(base_url: str, model: str) -> None:
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:

        async def ask(country: str) -> ChatCompletion:
            return await client.chat.completions.create(
                model=model,
                messages=conversation(f"What is the capital of {country}?"),
                max_tokens=16,
            )

        answers = await asyncio.gather(*map(ask, ("France", "Japan", "Italy")))

    texts = [answer.choices[0].message.content or "" for answer in answers]
    for text, capital in zip(texts, ("Paris", "Tokyo", "Rome"), strict=True):
        assert capital in text
    assert len({answer.id for answer in answers}) == 3


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_vanishes_gives_its_slots_back(
    runtime: LocalRuntime, base_url: str, model: str, stream: bool
) -> None:
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        asked = asyncio.ensure_future(
            client.chat.completions.create(
                model=model, messages=conversation("Tell a long story."), stream=stream
            )
        )
        await asyncio.to_thread(wait_until, lambda: runtime.stats().running == 1)
        if stream:
            chunks = await asked
            assert not isinstance(chunks, ChatCompletion)
            await anext(aiter(chunks))
            await chunks.close()
        else:
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        before = runtime.stats().steps
        await asyncio.to_thread(wait_until, lambda: runtime.stats().held_slots == 0)

    assert runtime.stats().running == 0
    assert runtime.stats().steps - before < 40, "the story came to its own end"
