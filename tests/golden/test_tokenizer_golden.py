"""Our tokenizer against llama.cpp's ids of the same GGUF file (made by make_tokens.py)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentkit_runtime.loading.gguf_file import GgufFile
from agentkit_runtime.text.tokenizer import Tokenizer

HERE = Path(__file__).parent
BYTES_WITHOUT_A_TOKEN = frozenset(b"\x04\x06\x13\x14\x16\x1d\xf1\xf2")
"""Of the bytes that valid UTF-8 can have, those that SmolLM2's vocabulary lacks."""


@pytest.fixture(scope="module")
def tokenizer(smollm2_gguf: Path) -> Tokenizer:
    return Tokenizer.from_gguf(GgufFile(smollm2_gguf).metadata)


def _mismatches(
    encode: Callable[[str], list[int]], expected: list[tuple[str, list[int]]]
) -> list[str]:
    return [
        f"{text!r}: llama.cpp {ids}, ours {ours}"
        for text, ids in expected
        if (ours := encode(text)) != ids
    ]


def test_plain_text_has_the_ids_of_llama_cpp(
    tokenizer: Tokenizer, golden_tokens: dict[str, Any]
) -> None:
    expected = [(entry["text"], entry["plain"]) for entry in golden_tokens["strings"]]
    assert _mismatches(tokenizer.encode, expected) == []


def test_rendered_text_has_the_ids_of_llama_cpp(
    tokenizer: Tokenizer, golden_tokens: dict[str, Any]
) -> None:
    expected = [(entry["text"], entry["special"]) for entry in golden_tokens["strings"]]
    assert _mismatches(lambda text: tokenizer.encode_rendered(text, None), expected) == []


def test_whole_chat_prompts_have_the_ids_of_llama_cpp(
    tokenizer: Tokenizer, golden_tokens: dict[str, Any]
) -> None:
    expected = [(prompt["text"], prompt["ids"]) for prompt in golden_tokens["prompts"]]
    assert _mismatches(lambda text: tokenizer.encode_rendered(text, None), expected) == []


def test_golden_ids_decode_to_their_text(
    tokenizer: Tokenizer, golden_tokens: dict[str, Any]
) -> None:
    different = [
        (entry["text"], way)
        for entry in golden_tokens["strings"]
        if not BYTES_WITHOUT_A_TOKEN & frozenset(entry["text"].encode())
        for way in ("plain", "special")
        if tokenizer.decode(entry[way], skip_special=False) != entry["text"]
    ]
    assert different == []


def test_bytes_without_a_token_have_no_ids_in_llama_cpp_either(
    golden_tokens: dict[str, Any],
) -> None:
    """A fact of this vocabulary, pinned because it is the only way in which text gets lost."""
    ids = {entry["text"]: entry["plain"] for entry in golden_tokens["strings"]}
    assert ids["\x04\x06\x13\x14\x16\x1d"] == []
    assert ids["a\x04b"] == ids["a"] + ids["b"]


def test_no_golden_plain_ids_contain_a_special_token(
    tokenizer: Tokenizer, golden_tokens: dict[str, Any]
) -> None:
    """The injection guard rests on this: plain encoding can't produce a control token."""
    reached = [
        entry["text"]
        for entry in golden_tokens["strings"]
        if any(tokenizer.is_special(token) for token in entry["plain"])
    ]
    assert reached == []


def test_committed_ids_belong_to_the_committed_strings(golden_tokens: dict[str, Any]) -> None:
    """Editing token_strings.py or prompts/ without running make_tokens.py again must not pass."""
    spec = importlib.util.spec_from_file_location("token_strings", HERE / "token_strings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    strings = [entry["text"] for entry in golden_tokens["strings"]]
    assert strings == module.golden_strings()
    assert len(strings) >= 250
    prompts = {prompt["name"]: prompt["text"] for prompt in golden_tokens["prompts"]}
    files = sorted((HERE / "prompts").glob("*.txt"))
    assert prompts == {path.stem: path.read_bytes().decode("utf-8") for path in files}
