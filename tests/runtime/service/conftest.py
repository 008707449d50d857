from __future__ import annotations

from pathlib import Path

import pytest

from agentkit_runtime.load_text import load_text
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def smollm2_text(smollm2_gguf: Path) -> tuple[Tokenizer, ChatTemplate]:
    """The bundled model's tokenizer and chat template, without its weights."""
    return load_text(smollm2_gguf)
