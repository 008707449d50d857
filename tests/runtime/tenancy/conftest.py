from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agentkit_runtime.load_text import load_text
from tests.runtime.tenancy.house import House, Text, open_house


@pytest.fixture(scope="session", autouse=True)
def one_compute_thread() -> None:
    """The scripted model's tensors are too small to share out."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def smollm2_text(smollm2_gguf: Path) -> Text:
    """The bundled model's tokenizer and chat template, without its weights."""
    return load_text(smollm2_gguf)


@pytest.fixture(scope="module")
def house(smollm2_text: Text, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server with keys, shared by the tests of a module."""
    with open_house(smollm2_text, tmp_path_factory.mktemp("house")) as house:
        yield house
