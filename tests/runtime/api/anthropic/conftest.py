from __future__ import annotations

from collections.abc import Iterator

import anthropic
import pytest

from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.serving import Served, served_script


def call_text(city: str, days: int) -> str:
    """A call as the model writes it."""
    arguments = f'{{"city": "{city}", "days": {days}}}'
    return f'<tool_call>\n{{"name": "weather", "arguments": {arguments}}}\n</tool_call>'


ANSWERS = {
    "hello": "Hello, who are you?",
    "accents": "naïve — 東京 🙂\u2028 end",
    "novel": "Once...",
    "weather": call_text("Zürich", 3),
    "both": f"{call_text('Oslo', 1)}\n{call_text('Rome', 2)}",
    "look": f"Let me look.\n{call_text('Oslo', 1)}",
    "sunny": "It is sunny.",
    "form": '{"city": "Oslo", "days": 2}',
}


@pytest.fixture(scope="module")
def served(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> Iterator[Served]:
    """A server in front of a scripted model, under the real engine."""
    with served_script(smollm2_text, ANSWERS) as running:
        yield running


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=served.url, api_key="none", max_retries=0) as made:
        yield made
