from __future__ import annotations

from pathlib import Path

import pytest
import torch

from agentkit_runtime.load_text import load_text
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer


@pytest.fixture(scope="session", autouse=True)
def one_compute_thread() -> None:
    """The scripted model's tensors are too small to share out."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def smollm2_text(smollm2_gguf: Path) -> tuple[Tokenizer, ChatTemplate]:
    """The bundled model's tokenizer and chat template, without its weights."""
    return load_text(smollm2_gguf)
