"""Tokens in, tokens out, for any text: what the model said is never tokenised again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agentkit_runtime.chat import ChatMessage, ChatRequest, ContentDelta
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.service.scripted import Script, scripted_model

# What could go wrong at a cut: special tokens as text, their beginnings, the marks that keep them
# text, characters of several tokens, white space that a template could swallow.
hard = st.sampled_from(
    ["<|im_end|>", "<|im_start|>", "<|im", "<", "\ufdd0", "\ufdd1", "é", "🙂", "東", "\n", " ", "7"]
)
texts = st.lists(
    st.one_of(hard, st.text(st.characters(codec="utf-8"), max_size=3)), max_size=8
).map("".join)


class Talker:
    """A service whose model says `replies[n]`, letter by letter, when asked `#n#`."""

    def __init__(self, service: ChatService, answers: dict[str, str]) -> None:
        self.service = service
        self._answers = answers
        self._n_asked = 0

    def ask(self, question: str, reply: str) -> tuple[ChatMessage, list[ChatMessage]]:
        """Make the model say `reply`; the question, and the two messages as history."""
        self._n_asked += 1
        marker = f"#{self._n_asked}#"
        self._answers.clear()
        self._answers[marker] = reply
        asked = ChatMessage(role="user", content=question + marker)
        events = asyncio.run(self._collect(ChatRequest(messages=(asked,))))
        said = "".join(event.text for event in events if isinstance(event, ContentDelta))
        assert said == reply
        return asked, [asked, ChatMessage(role="assistant", content=said)]

    async def _collect(self, request: ChatRequest) -> list[object]:
        return [event async for event in self.service.stream(request)]


@pytest.fixture(scope="module")
def talker(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> Iterator[Talker]:
    answers: dict[str, str] = {}
    script = Script(smollm2_text[0], answers, by_character=True)
    with scripted_model(*smollm2_text, script) as loaded:
        yield Talker(ChatService(loaded), answers)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(question=texts, reply=texts.filter(lambda text: text and not text.endswith("...")))
def test_the_next_prompt_begins_with_the_prompt_and_the_generated_ids(
    talker: Talker, smollm2_text: tuple[Tokenizer, ChatTemplate], question: str, reply: str
) -> None:
    tokenizer = smollm2_text[0]
    spelled = [token for char in reply for token in tokenizer.encode(char)]
    assume(tokenizer.decode(spelled) == reply)  # some bytes of rare characters have no token
    asked, history = talker.ask(question, reply)

    before = talker.service.prepare(ChatRequest(messages=(asked,))).generate.prompt
    after = talker.service.prepare(ChatRequest(messages=(*history, asked))).generate.prompt

    assert after[: len(before) + len(spelled)] == (*before, *spelled)
