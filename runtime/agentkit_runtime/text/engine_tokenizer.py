"""A tokenizer as the grammar engine wants it."""

from __future__ import annotations

from llguidance import LLTokenizer, TokenizerWrapper

from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.tokenizer import Tokenizer


def engine_tokenizer(tokenizer: Tokenizer) -> LLTokenizer:
    """The grammar engine's view of `tokenizer`: control tokens are never spelt by plain text.

    It is not built from the tokenizer's JSON. That does not say that special tokens are plain text
    for us, so the engine would force the control token where a schema holds only its text.

    Raises:
        RequestRejected: the vocabulary names no token that ends a generation.
    """
    eos_ids = sorted(tokenizer.eos_ids)
    if not eos_ids:
        raise RequestRejected(
            "this model's vocabulary names no end token, so no grammar can come to an end; "
            "ask without tools and without response_schema"
        )
    wrapper = TokenizerWrapper(_EngineVocabulary(tokenizer, eos_ids[0]))
    return LLTokenizer(wrapper, n_vocab=tokenizer.vocab_size, eos_token=eos_ids)


class _EngineVocabulary:
    """What `TokenizerWrapper` reads. The names are llguidance's."""

    def __init__(self, tokenizer: Tokenizer, eos_id: int) -> None:
        every_id = range(tokenizer.vocab_size)
        self.eos_token_id = eos_id
        self.bos_token_id = None
        self.tokens = [tokenizer.token_bytes(token_id) for token_id in every_id]
        self.special_token_ids = [i for i in every_id if tokenizer.is_special(i)]
        self._tokenizer = tokenizer
        self._n_anchor_ids = len(tokenizer.encode_continuation(_ANCHOR))

    def __call__(self, text: str) -> list[int]:
        """Ids of text that continues a reply. Bytes are refused, so the wrapper passes text.

        Some vocabularies put a space in front of whatever they encode. An anchor takes it.
        """
        ids = self._tokenizer.encode_continuation(text)
        if self._read(ids) == text.encode():
            return ids
        anchored = self._tokenizer.encode_continuation(_ANCHOR + text)[self._n_anchor_ids :]
        # Ids that read otherwise would be forced although the grammar refuses them.
        return anchored if self._read(anchored) == text.encode() else []

    def _read(self, ids: list[int]) -> bytes:
        return b"".join(self.tokens[token_id] for token_id in ids)


_ANCHOR = "\x02"
"""Stands in no text of a grammar, and merges with nothing."""
