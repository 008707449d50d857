"""What a tokenizer is made of, whatever file it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tokenizers

from agentkit_runtime.text.token_bytes import BytesStyle

END_OF_TURN_TEXTS = frozenset(
    {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|end|>"}
)
"""Control tokens that end a turn by their name, whatever the metadata forgot to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What a tokenizer is made of; built by `gguf_vocabulary` or `folder_vocabulary`."""

    backend: tokenizers.Tokenizer
    bytes_style: BytesStyle
    bos_text: str | None
    eos_text: str | None
    eos_ids: frozenset[int]
    """Tokens that end a generation: end of sequence, of turn, of message."""
    adds_bos: bool
    """Whether text without a chat template starts with the BOS token."""
    strips_leading_space: bool = False
    """Whether the first space of decoded text belongs to the vocabulary and not to the text."""
    continuation: tokenizers.Tokenizer | None = None
    """Encodes pieces that do not start the text, where that differs (`prepend_scheme: first`)."""


def end_of_turn_ids(special_ids: Mapping[str, int]) -> frozenset[int]:
    """Ids of the special tokens that end a turn by their name."""
    return frozenset(special_ids[text] for text in END_OF_TURN_TEXTS if text in special_ids)
