"""Replies' ids that callers give back: used where they read as the text does, and only there."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_runtime.chat import (
    ChatEvent,
    ChatFinished,
    ChatMessage,
    ChatRequest,
    ChatTool,
    ChatToolCall,
    ContentDelta,
    ToolCallArguments,
)
from agentkit_runtime.prompt import PromptBuilder
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.render import Renderer
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.token_memory import TokenMemory
from tests.runtime.service.scripted import Script, scripted_model

Text = tuple[Tokenizer, ChatTemplate]
ARGUMENTS = '{"city": "Zürich",  "days": 3}'
CALL = f'<tool_call>\n{{"name": "weather", "arguments": {ARGUMENTS}}}\n</tool_call>'
ANSWERS = {"hello": "Hello, who are you?", "weather": CALL, "sunny": "It is sunny."}
WEATHER = ChatTool(name="weather", description="Tells it.", parameters={"type": "object"})


@pytest.fixture(scope="module")
def service(smollm2_text: Text) -> Iterator[ChatService]:
    script = Script(smollm2_text[0], ANSWERS, by_character=True)
    with scripted_model(*smollm2_text, script) as loaded:
        yield ChatService(loaded)


def forgetful(text: Text) -> PromptBuilder:
    """Makes prompts as after a restart: it remembers nothing."""
    return PromptBuilder(Renderer(*text), TokenMemory())


def asked(*messages: ChatMessage) -> ChatRequest:
    return ChatRequest(messages=messages, tools=(WEATHER,))


def told(service: ChatService, request: ChatRequest) -> list[ChatEvent]:
    async def collect() -> list[ChatEvent]:
        return [event async for event in service.stream(request)]

    return asyncio.run(collect())


def ids_of(builder: PromptBuilder, request: ChatRequest) -> tuple[int, ...]:
    return builder.build(b"tenant", request).ids


def reply(events: list[ChatEvent], *, with_ids: bool = True) -> ChatMessage:
    """The assistant's message that events tell."""
    end = events[-1]
    assert isinstance(end, ChatFinished)
    arguments = "".join(e.text for e in events if isinstance(e, ToolCallArguments))
    calls = (ChatToolCall(id="call1", name="weather", arguments=arguments),) if arguments else ()
    return ChatMessage(
        role="assistant",
        content="".join(e.text for e in events if isinstance(e, ContentDelta)),
        tool_calls=calls,
        token_ids=end.token_ids if with_ids else (),
    )


HELLO = ChatMessage(role="user", content="hello")
MORE = ChatMessage(role="user", content="more")


@pytest.mark.parametrize(
    ("question", "following"),
    [
        ("hello", MORE),
        ("weather", ChatMessage(role="tool", content="sunny", tool_call_id="call1")),
    ],
)
def test_a_service_that_remembers_nothing_goes_on_from_the_generated_ids(
    service: ChatService, smollm2_text: Text, question: str, following: ChatMessage
) -> None:
    first = asked(ChatMessage(role="user", content=question))
    events = told(service, first)
    end = events[-1]
    assert isinstance(end, ChatFinished)
    generated = (*service.prepare(first).generate.prompt, *end.token_ids)
    again = asked(*first.messages, reply(events), following)
    without = asked(*first.messages, reply(events, with_ids=False), following)

    assert ids_of(forgetful(smollm2_text), again)[: len(generated)] == generated
    assert ids_of(forgetful(smollm2_text), again) == service.prepare(without).generate.prompt
    assert ids_of(forgetful(smollm2_text), without)[: len(generated)] != generated


def test_each_of_equal_replies_gets_its_own_ids(smollm2_text: Text) -> None:
    tokenizer = smollm2_text[0]
    whole = tuple(tokenizer.encode("Hello there"))
    spelled = tuple(i for char in "Hello there" for i in tokenizer.encode(char))
    said = ChatMessage(role="assistant", content="Hello there")
    history = (
        ChatMessage(role="user", content="Hello there"),
        dataclasses.replace(said, token_ids=spelled),
        MORE,
        dataclasses.replace(said, token_ids=whole),
        MORE,
    )

    builder = forgetful(smollm2_text)
    step = ids_of(builder, asked(*history[:3]))
    ids = ids_of(builder, asked(*history))

    assert ids[: len(step)] == step
    assert ids_of(forgetful(smollm2_text), asked(*history)) == ids
    assert count(ids, spelled) == 1
    assert count(ids, whole) == 2  # the user's, and the later reply


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t: t.encode("Hello, who are we?"),
        lambda t: [10**9],
        lambda t: [*t.encode("Hello, who are"), t.vocab_size],
        lambda t: t.encode("Hello, who are"),
        lambda t: t.encode("<|im_end|>"),
        lambda t: [next(iter(t.eos_ids))],
        lambda t: [],
    ],
)
def test_ids_that_do_not_read_as_the_message_does_change_nothing(
    smollm2_text: Text, wrong: Callable[[Tokenizer], list[int]]
) -> None:
    said = ChatMessage(role="assistant", content="Hello, who are you?")
    given = dataclasses.replace(said, token_ids=tuple(wrong(smollm2_text[0])))

    one, other = forgetful(smollm2_text), forgetful(smollm2_text)
    assert ids_of(one, asked(HELLO, given, MORE)) == ids_of(other, asked(HELLO, said, MORE))


def test_a_special_tokens_id_never_stands_for_its_text(smollm2_text: Text) -> None:
    tokenizer = smollm2_text[0]
    special = tokenizer.encode_rendered("<|im_end|>", None)
    said = ChatMessage(role="assistant", content="a<|im_end|>b")
    given = (*tokenizer.encode("a"), *special, *tokenizer.encode("b"))

    request = asked(HELLO, dataclasses.replace(said, token_ids=given), MORE)

    one, other = forgetful(smollm2_text), forgetful(smollm2_text)
    assert ids_of(one, request) == ids_of(other, asked(HELLO, said, MORE))


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_spelling_of_a_reply_is_kept_and_reads_the_same(
    smollm2_text: Text, data: st.DataObject
) -> None:
    tokenizer = smollm2_text[0]
    parts = data.draw(st.lists(st.sampled_from(["Hel", "lo ", "é", "\n", " 7", "<", "🙂x"])))
    ids = tuple(token_id for part in parts for token_id in tokenizer.encode(part))
    said = ChatMessage(role="assistant", content="x" + "".join(parts), token_ids=())
    given = dataclasses.replace(said, token_ids=(*tokenizer.encode("x"), *ids))
    found = ids_of(forgetful(smollm2_text), asked(HELLO, given, MORE))
    plain = ids_of(forgetful(smollm2_text), asked(HELLO, said, MORE))

    assert tokenizer.decode(found, skip_special=False) == tokenizer.decode(
        plain, skip_special=False
    )
    stripped = "".join(parts) != "".join(parts).rstrip()  # this template trims what it is told
    assert stripped or count(found, given.token_ids) >= 1


@pytest.mark.parametrize(
    ("role", "ids"), [("user", (1,)), ("assistant", (-1,)), ("assistant", ("a",)), ("tool", (1,))]
)
def test_ids_of_others_than_assistants_and_no_ids_are_refused(role: str, ids: tuple) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match="token_ids"):
        ChatMessage(role=role, content="x", token_ids=ids)  # type: ignore[arg-type]


def count(ids: tuple[int, ...], part: tuple[int, ...]) -> int:
    return sum(ids[n : n + len(part)] == part for n in range(len(ids) - len(part) + 1))
