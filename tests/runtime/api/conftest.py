from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agentkit_runtime.load_text import load_text
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.serving import Served, served_script

CALL_TEXT = (
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich", "days": 3}}\n</tool_call>'
)
ANSWERS = {
    "hello": "Hello, who are you?",
    "accents": "naïve — 東京 🙂\u2028 end",
    "novel": "Once...",
    "weather": CALL_TEXT,
    "sunny": "It is sunny.",
}


@pytest.fixture(scope="session", autouse=True)
def one_compute_thread() -> None:
    """The scripted model's tensors are too small to share out."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def smollm2_text(smollm2_gguf: Path) -> tuple[Tokenizer, ChatTemplate]:
    """The bundled model's tokenizer and chat template, without its weights."""
    return load_text(smollm2_gguf)


@pytest.fixture(scope="module")
def served(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> Iterator[Served]:
    """A server in front of a scripted model, under the real engine."""
    with served_script(smollm2_text, ANSWERS) as running:
        yield running
