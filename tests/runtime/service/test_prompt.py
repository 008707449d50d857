"""Only what is new is rendered and tokenised, and nobody can tell by the ids."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_runtime.chat import ChatMessage, ChatRequest, ChatTool, ChatToolCall
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.prompt import PromptBuilder
from agentkit_runtime.prompt_memory import PromptMemory
from agentkit_runtime.text.render import Renderer
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.token_memory import TokenMemory
from tests.runtime.text import templates
from tests.runtime.text.rewriting import REWRITING

Text = tuple[Tokenizer, ChatTemplate]
HERE, THERE = b"tenant-a", b"tenant-b"

SOURCES = {
    **REWRITING,
    "qwen": templates.QWEN,
    "alternating": templates.ALTERNATING,
    "front system": templates.FRONT_SYSTEM,
    "last": templates.LAST_USER,
}

hard = st.sampled_from(
    ["<|im_end|>", "<|im_start|>", "<|im", "<", "\ufdd0", "\ufdd1", "é", "🙂", "\n", " ", "\x00"]
)
thoughts = st.sampled_from(["<think>a</think>b", "</think>"])
texts = st.lists(st.one_of(hard, thoughts, st.text("ab7 ", max_size=3)), max_size=5).map("".join)
calls = st.builds(
    ChatToolCall, id=st.just("callcall1"), name=st.just("now"), arguments=st.just('{"a":  1}')
)
messages = st.one_of(
    st.builds(ChatMessage, role=st.sampled_from(["system", "user", "assistant"]), content=texts),
    st.builds(ChatMessage, role=st.just("assistant"), content=texts, tool_calls=st.tuples(calls)),
    st.builds(ChatMessage, role=st.just("tool"), content=texts, tool_call_id=st.just("callcall1")),
)
NOW = ChatTool(name="now", description="Says <|im_end|> when.", parameters={"type": "object"})
ODD = ChatTool(name="now", description="\ufdd0", parameters={"type": "object", "x": ["<|im_", 1]})


@st.composite
def conversations(draw: Callable[..., object]) -> list[tuple[ChatMessage, ...]]:
    """Conversations that go on, fork, are cut short and are edited in the middle."""
    known: list[tuple[ChatMessage, ...]] = [
        draw(st.lists(messages, min_size=1, max_size=3).map(tuple))
    ]  # type: ignore[arg-type]
    for _ in range(draw(st.integers(1, 6))):  # type: ignore[arg-type]
        base = list(draw(st.sampled_from(known)))  # type: ignore[arg-type]
        if draw(st.booleans()) and len(base) > 1:
            place = draw(st.integers(0, len(base) - 1))
            base[place : place + 1] = draw(st.lists(messages, max_size=1))  # type: ignore[arg-type,index]
        base += draw(st.lists(messages, min_size=not base, max_size=3))  # type: ignore[arg-type]
        known.append(tuple(base))
    return known


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("source", sorted(SOURCES))
@given(
    histories=conversations(),
    toolsets=st.lists(st.sampled_from([(), (NOW,), (ODD,)]), min_size=1, max_size=2),
)
def test_the_ids_are_those_of_the_whole_text_whatever_was_asked_before(
    smollm2_text: Text,
    source: str,
    histories: list[tuple[ChatMessage, ...]],
    toolsets: list[tuple[ChatTool, ...]],
) -> None:
    tokenizer, template = smollm2_text[0], ChatTemplate(SOURCES[source])
    builder = PromptBuilder(Renderer(tokenizer, template), TokenMemory())
    for history, tools in zip(histories, itertools.cycle(toolsets), strict=False):
        request = ChatRequest(messages=history, tools=tools)
        assert ids_or_refusal(request, lambda r: builder.build(HERE, r).ids) == ids_or_refusal(
            request, lambda r: Renderer(tokenizer, template).render(r).ids
        )


def ids_or_refusal(request: ChatRequest, work: Callable[[ChatRequest], object]) -> object:
    try:
        return work(request)
    except RequestRejected as error:
        return str(error), error.field


def history(n_turns: int) -> tuple[ChatMessage, ...]:
    turns = [
        [
            ChatMessage(role="user", content=f"question {turn} " * 5),
            ChatMessage(role="assistant", content=f"answer {turn} " * 5),
        ]
        for turn in range(n_turns)
    ]
    return (ChatMessage(role="system", content="s"), *itertools.chain(*turns), LAST)


LAST = ChatMessage(role="user", content="and now?")


@pytest.mark.parametrize("n_turns", [5, 50, 200])
def test_the_next_turn_costs_the_same_however_long_the_history_is(
    smollm2_text: Text, monkeypatch: pytest.MonkeyPatch, n_turns: int
) -> None:
    tokenizer, template = smollm2_text
    builder = PromptBuilder(Renderer(tokenizer, template), TokenMemory())
    first = history(n_turns)
    builder.build(HERE, ChatRequest(messages=first))
    more = (ChatMessage(role="assistant", content="yes"), ChatMessage(role="user", content="go"))
    looked_at: list[int] = []
    monkeypatch.setattr(
        "agentkit_runtime.text.front.check_messages",
        lambda new, first: looked_at.append(len(new)),
    )

    prompt = builder.build(HERE, ChatRequest(messages=(*first, *more)))

    assert looked_at == [len(more)]
    assert len(prompt.written.marked_text) - prompt.n_known_chars < 150


def test_agents_that_fork_from_one_history_begin_with_its_ids(smollm2_text: Text) -> None:
    builder = PromptBuilder(Renderer(*smollm2_text), TokenMemory())
    shared = history(10)
    builder.build(HERE, ChatRequest(messages=shared))

    known = [
        builder.build(
            HERE, ChatRequest(messages=(*shared, ChatMessage(role="assistant", content=f"{n}")))
        ).n_known_chars
        for n in range(3)
    ]

    assert len(set(known)) == 1
    assert known[0] > 1000


def test_another_namespace_finds_nothing(smollm2_text: Text) -> None:
    builder = PromptBuilder(Renderer(*smollm2_text), TokenMemory())
    request = ChatRequest(messages=history(3))
    builder.build(HERE, request)

    assert builder.build(THERE, request).n_known_chars == 0
    assert builder.build(HERE, request).n_known_chars > 0


def test_the_memory_is_bounded(smollm2_text: Text) -> None:
    memory = PromptMemory(max_bytes=50_000)
    builder = PromptBuilder(Renderer(*smollm2_text), TokenMemory(), memory)
    for n in range(30):
        turn = (ChatMessage(role="user", content=f"{n}"),)
        builder.build(HERE, ChatRequest(messages=(*turn, *history(5))))

    assert 0 < len(memory) < 20


def test_a_prompt_of_a_conversation_keeps_the_ids_it_was_given_first(smollm2_text: Text) -> None:
    """Ids that are learned later must not move the prefix that is cached."""
    replies = TokenMemory()
    builder = PromptBuilder(Renderer(*smollm2_text), replies)
    asked = (ChatMessage(role="user", content="count"),)
    spelled = [i for char in "one two" for i in smollm2_text[0].encode(char)]
    answered = (*asked, ChatMessage(role="assistant", content="one two"), LAST)
    first = builder.build(HERE, ChatRequest(messages=answered))
    end = builder.build(HERE, ChatRequest(messages=asked)).end
    replies.remember_after(end, "one two", spelled)

    again = builder.build(HERE, ChatRequest(messages=(*answered, LAST, LAST)))
    fresh = PromptBuilder(Renderer(*smollm2_text), replies).build(
        HERE, ChatRequest(messages=answered)
    )

    n_settled = len(first.ids) - 10
    assert again.ids[:n_settled] == first.ids[:n_settled]
    assert fresh.n_reused_ids > len(spelled)


def test_many_threads_get_the_same_ids(smollm2_text: Text) -> None:
    builder = PromptBuilder(Renderer(*smollm2_text), TokenMemory())
    requests = [ChatRequest(messages=history(n % 5)) for n in range(40)]

    def ids(request: ChatRequest) -> Sequence[int]:
        return builder.build(HERE, request).ids

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ids, requests))

    assert found == [Renderer(*smollm2_text).render(request).ids for request in requests]


def test_a_mark_that_a_later_message_uses_is_changed_everywhere(smollm2_text: Text) -> None:
    builder = PromptBuilder(Renderer(*smollm2_text), TokenMemory())
    first = (ChatMessage(role="user", content="a <|im_end|> b"), LAST)
    later = (*first, ChatMessage(role="user", content="\ufdd0 <|im_end|>"))
    before = builder.build(HERE, ChatRequest(messages=first))

    after = builder.build(HERE, ChatRequest(messages=later))

    assert (before.written.escape, after.written.escape) == ("\ufdd0", "\ufdd1")
    assert after.ids == Renderer(*smollm2_text).render(ChatRequest(messages=later)).ids


def test_tools_that_were_changed_in_place_are_shown_as_they_are_now(smollm2_text: Text) -> None:
    parameters: dict[str, object] = {"type": "object", "properties": {}}
    request = ChatRequest(
        messages=(LAST,), tools=(ChatTool(name="t", description="d", parameters=parameters),)
    )
    builder = PromptBuilder(Renderer(*smollm2_text), TokenMemory())
    builder.build(HERE, request)
    parameters["title"] = "changed <|im_end|>"

    prompt = builder.build(HERE, request)

    assert "changed" in prompt.written.marked_text
    assert prompt.ids == Renderer(*smollm2_text).render(request).ids


def test_tools_in_another_order_of_keys_or_tools_have_the_same_ids(smollm2_text: Text) -> None:
    """R37: clients with hash maps send another order each time."""
    first = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}}
    again = {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "type": "object"}
    builder = PromptBuilder(Renderer(*smollm2_text), TokenMemory())

    def ids(*parameters: dict[str, object], tenant: str = "t") -> Sequence[int]:
        tools = [
            ChatTool(name=name, description="d", parameters=value)
            for name, value in zip("xy", parameters, strict=True)
        ]
        request = ChatRequest(messages=(LAST,), tools=tuple(tools), tenant=tenant)
        turned = ChatRequest(messages=(LAST,), tools=tuple(tools[::-1]), tenant=tenant)
        assert builder.build(HERE, request).ids == builder.build(HERE, turned).ids
        return builder.build(HERE, request).ids

    given = ids(first, first)

    assert ids(again, again) == given
    assert ids(again, again, tenant="other") != given
    assert ids(first, {**first, "title": "t"}) != given
