"""Tokenizers and templates for the text tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from agentkit_runtime.loading.gguf_file import GgufFile
from agentkit_runtime.text.grammar import GrammarCompiler
from agentkit_runtime.text.render import Renderer
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.text.vocabularies import tiny_metadata


@pytest.fixture(scope="session")
def smollm2_metadata(smollm2_gguf: Path) -> Mapping[str, object]:
    return GgufFile(smollm2_gguf).metadata


@pytest.fixture(scope="session")
def smollm2(smollm2_metadata: Mapping[str, object]) -> Tokenizer:
    return Tokenizer.from_gguf(smollm2_metadata)


@pytest.fixture(scope="session")
def smollm2_template(smollm2_metadata: Mapping[str, object], smollm2: Tokenizer) -> ChatTemplate:
    source = smollm2_metadata["tokenizer.chat_template"]
    assert isinstance(source, str)
    return ChatTemplate(source, bos_text=smollm2.bos_text, eos_text=smollm2.eos_text)


@pytest.fixture(scope="session")
def smollm2_renderer(smollm2: Tokenizer, smollm2_template: ChatTemplate) -> Renderer:
    return Renderer(smollm2, smollm2_template)


@pytest.fixture(scope="session")
def smollm2_compiler(smollm2: Tokenizer) -> GrammarCompiler:
    return GrammarCompiler(smollm2)


@pytest.fixture(scope="session")
def tiny() -> Tokenizer:
    return Tokenizer.from_gguf(tiny_metadata())


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread() -> None:
    torch.set_num_threads(1)
