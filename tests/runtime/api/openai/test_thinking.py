"""Families that think before they answer: thinking is told apart, and stays in the ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.openai.cases import ARGUMENTS, FUNCTION
from tests.runtime.api.openai.strict import strictly, unknown_fields
from tests.runtime.api.serving import serving
from tests.runtime.service.scripted import Script, scripted_model
from tests.runtime.text.rewriting import QWEN3

THOUGHT, ANSWER = "It has no lungs.\nIt swims.", "It is a fish."
CALL = f'<tool_call>\n{{"name": "weather", "arguments": {ARGUMENTS}}}\n</tool_call>'
ANSWERS = {
    "riddle": f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}",
    "sunny": "<think>\n\n</think>\n\nIt is sunny.",
    "weather": f"<think>I look.</think>\n\n{CALL}",
    "forecast": f"<think>\n{THOUGHT}\n</think>\n\n{CALL}",
    "opened": f"{THOUGHT}\n</think>\n\n{CALL}",
}
ALWAYS = QWEN3.replace(
    "{{- '<|im_start|>assistant\\n' }}\n    {%- if enable",
    "{{- '<|im_start|>assistant\\n<think>\\n' }}\n    {%- if enable",
)
"""As DeepSeek R1's: the prompt begins the thinking."""
READING = QWEN3.replace(
    "{%- set said = message.content %}",
    "{%- set said = message.content %}{%- if message.reasoning_content %}{%- set said = "
    "'<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' + message.content %}"
    "{%- endif %}",
).replace("not loop.first or said", "not loop.first or message.content")
"""As Qwen3's own: the thinking of the last turn is read from a field of its own."""


class Thinker(Script):
    """Reads the prompt's own beginning of thinking as the end of the generation prompt."""

    def __call__(self, context: list[int]) -> int:
        """The next token."""
        begun = self._tokenizer.encode_rendered("<|im_start|>assistant\n<think>\n", None)
        places = [i for i in range(len(context)) if context[i : i + len(begun)] == begun]
        asks_opened = any(
            "opened" in self._tokenizer.decode(context[:place]) for place in places[-1:]
        )
        if asks_opened:
            start = places[-1] + len(begun)
            said = b"".join(map(self._tokenizer.token_bytes, context[start:]))
            return self._next(self._answers["opened"], said)
        return super().__call__(context)


@contextmanager
def thinking_client(tokenizer: Tokenizer, source: str) -> Iterator[openai.OpenAI]:
    template = ChatTemplate(source)
    with scripted_model(tokenizer, template, Thinker(tokenizer, ANSWERS)) as loaded:
        with serving(ChatService(loaded)) as (url, _):
            with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as made:
                yield made


@pytest.fixture(scope="module")
def client(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> Iterator[openai.OpenAI]:
    with thinking_client(smollm2_text[0], QWEN3) as made:
        yield made


@pytest.fixture(scope="module")
def reading(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> Iterator[openai.OpenAI]:
    with thinking_client(smollm2_text[0], READING) as made:
        yield made


@pytest.fixture(scope="module")
def always(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> Iterator[openai.OpenAI]:
    with thinking_client(smollm2_text[0], ALWAYS) as made:
        yield made


def chat(client: openai.OpenAI, *messages: Any, **fields: Any) -> Any:
    return client.chat.completions.create(model="scripted", messages=list(messages), **fields)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_a_chat_tells_thinking_beside_the_answer(client: openai.OpenAI) -> None:
    done = chat(client, user("riddle"))

    message = done.choices[0].message
    assert (message.reasoning_content, message.content) == (THOUGHT, ANSWER)
    n_thought = done.usage.completion_tokens_details.reasoning_tokens
    assert 0 < n_thought < done.usage.completion_tokens


def test_a_stream_tells_thinking_before_the_answer(client: openai.OpenAI) -> None:
    thought, answer = "", ""
    for chunk in chat(client, user("riddle"), stream=True):
        delta = chunk.choices[0].delta
        thought += getattr(delta, "reasoning_content", "") or ""
        answer += delta.content or ""
        assert not (answer and getattr(delta, "reasoning_content", ""))

    assert (thought, answer) == (THOUGHT, ANSWER)


def test_log_probabilities_are_those_of_the_answer(client: openai.OpenAI) -> None:
    (choice,) = chat(client, user("riddle"), logprobs=True).choices

    assert "".join(item.token for item in choice.logprobs.content).strip("\n") == ANSWER


def test_a_call_behind_thinking_is_a_call(client: openai.OpenAI) -> None:
    tools = [{"type": "function", "function": FUNCTION}]
    (choice,) = chat(client, user("weather"), tools=tools).choices

    assert choice.message.reasoning_content == "I look."
    assert choice.message.tool_calls[0].function.arguments == ARGUMENTS


def test_a_response_has_the_thinking_as_an_item(client: openai.OpenAI) -> None:
    raw = client.responses.with_raw_response.create(model="scripted", input="riddle")
    response = strictly(Response, raw.http_response.json())

    thought, message = response.output
    assert thought.type == "reasoning"
    assert [part.text for part in thought.content or ()] == [THOUGHT]
    assert message.type == "message"
    assert response.output_text == ANSWER


def test_a_stream_of_events_tells_thinking_in_its_own_item(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model="scripted", input="riddle", stream=True))

    assert not [field for event in events for field in unknown_fields(event)]
    told = [e.delta for e in events if e.type == "response.reasoning_text.delta"]
    assert "".join(told) == THOUGHT
    done = [e.item.type for e in events if e.type == "response.output_item.done"]
    assert done == ["reasoning", "message"]


def test_a_stored_conversation_keeps_the_ids_that_its_template_would_drop(
    client: openai.OpenAI,
) -> None:
    first = client.responses.create(model="scripted", input="riddle")
    n_known = first.usage.input_tokens + first.usage.output_tokens  # type: ignore[union-attr]

    told_again = client.responses.create(
        model="scripted",
        input=[user("riddle"), {"role": "assistant", "content": ANSWER}, user("sunny")],  # type: ignore[list-item, misc]
    )
    continued = client.responses.create(
        model="scripted", input="sunny", previous_response_id=first.id
    )

    assert continued.output_text == "It is sunny."
    cached = continued.usage.input_tokens_details.cached_tokens  # type: ignore[union-attr]
    assert cached in (n_known - 1, n_known)
    # Told as text, the thinking is gone, and with it the rest of the prefix.
    assert told_again.usage.input_tokens_details.cached_tokens < n_known - 5  # type: ignore[union-attr]


def test_a_stored_call_is_continued_by_its_result(client: openai.OpenAI) -> None:
    tools: Any = [{"type": "function", **FUNCTION}]
    first = client.responses.create(model="scripted", input="weather", tools=tools)
    call = first.output[-1]
    assert call.type == "function_call"

    second = client.responses.create(
        model="scripted",
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}],
        tools=tools,
        previous_response_id=first.id,
    )

    n_known = first.usage.input_tokens + first.usage.output_tokens  # type: ignore[union-attr]
    assert second.output_text == "It is sunny."
    assert second.usage.input_tokens_details.cached_tokens >= n_known - 1  # type: ignore[union-attr]


def test_an_effort_of_none_turns_thinking_off_in_the_prompt(client: openai.OpenAI) -> None:
    thinking = chat(client, user("riddle"), max_tokens=0).usage.prompt_tokens
    not_thinking = chat(client, user("riddle"), max_tokens=0, reasoning_effort="none")

    assert not_thinking.usage.prompt_tokens > thinking
    by_kwargs = {"chat_template_kwargs": {"enable_thinking": False}}
    again = chat(client, user("riddle"), max_tokens=0, extra_body=by_kwargs)
    assert again.usage.prompt_tokens == not_thinking.usage.prompt_tokens


def test_an_option_that_the_template_lacks_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="known: enable_thinking"):
        chat(client, user("riddle"), extra_body={"chat_template_kwargs": {"mood": "good"}})


def test_a_required_call_comes_behind_thinking_that_the_prompt_began(
    always: openai.OpenAI,
) -> None:
    tools = [{"type": "function", "function": FUNCTION}]
    (choice,) = chat(always, user("opened"), tools=tools, tool_choice="required").choices

    assert choice.message.reasoning_content == THOUGHT
    assert choice.message.tool_calls[0].function.arguments == ARGUMENTS
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize("keeps_content", [True, False])
def test_a_client_that_carries_thinking_sealed_keeps_its_prefix(
    reading: openai.OpenAI, keeps_content: bool
) -> None:
    tools: Any = [{"type": "function", **FUNCTION}]
    asked: list[Any] = [user(f"forecast {keeps_content}")]
    fields: Any = {"tools": tools, "store": False, "include": ["reasoning.encrypted_content"]}
    first = reading.responses.create(model="scripted", input=asked, **fields)
    thought, called = (item.to_dict() for item in first.output)
    assert thought["encrypted_content"]
    sent = thought if keeps_content else {**thought, "content": None}
    result = {"type": "function_call_output", "call_id": called["call_id"], "output": "sunny"}

    second = reading.responses.create(
        model="scripted", input=[*asked, sent, called, result], **fields
    )

    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.total_tokens - 1
