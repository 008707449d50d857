"""GGUF metadata -> `Vocabulary`. Byte-level BPE only (`tokenizer.ggml.model` = `gpt2`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from tokenizers import AddedToken, Tokenizer, decoders, models

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.text.pretokenizers import split_rule
from agentkit_runtime.text.vocabulary import Vocabulary, end_of_turn_ids

_PREFIX = "tokenizer.ggml."
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def gguf_vocabulary(metadata: Mapping[str, object]) -> Vocabulary:
    """Rebuild the tokenizer that the model was trained with.

    Raises `UnsupportedModel` for other tokenizer models, pre-tokenizers that are not known, and
    incomplete metadata.
    """
    reader = _Reader(metadata)
    model = reader.raw("model")
    if model != "gpt2":
        raise UnsupportedModel(
            f"the tokenizer model {model!r} (tokenizer.ggml.model) is not implemented for GGUF; "
            "known is 'gpt2' (byte-level BPE); a folder with tokenizer.json may work"
        )
    tokens = reader.list_of("tokens", str)
    types = reader.list_of("token_type", int, default=[int(TokenType.NORMAL)] * len(tokens))
    if len(types) != len(tokens):
        raise UnsupportedModel(f"there are {len(tokens)} tokens but {len(types)} token types")
    control = {text: i for i, text in enumerate(tokens) if types[i] in _SPECIAL_TYPES}
    bos = reader.token_text("bos_token_id", tokens)
    return Vocabulary(
        backend=_backend(reader, tokens, types),
        bytes_style="byte-level",
        bos_text=bos,
        eos_text=reader.token_text("eos_token_id", tokens),
        eos_ids=frozenset(reader.ids(_END_KEYS)) | end_of_turn_ids(control),
        adds_bos=bos is not None and reader.raw("add_bos_token") is True,
    )


_SPECIAL_TYPES = (TokenType.CONTROL, TokenType.UNKNOWN)
_Item = TypeVar("_Item", str, int)


def _backend(reader: _Reader, tokens: list[str], types: list[int]) -> Tokenizer:
    vocabulary = {text: token_id for token_id, text in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise UnsupportedModel(f"{len(tokens) - len(vocabulary)} tokens occur more than once")
    rule = split_rule(reader.raw("pre"))
    merges = [_pair(merge) for merge in reader.list_of("merges", str)]
    backend = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, ignore_merges=rule.ignore_merges)
    )
    backend.pre_tokenizer = rule.build()
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(
        [
            AddedToken(text, normalized=False, special=True)
            for text, kind in zip(tokens, types, strict=True)
            if kind in _SPECIAL_TYPES
        ]
    )
    backend.add_tokens(
        [
            AddedToken(text, normalized=False, special=False)
            for text, kind in zip(tokens, types, strict=True)
            if kind == TokenType.USER_DEFINED
        ]
    )
    return backend


def _pair(merge: str) -> tuple[str, str]:
    left, separator, right = merge.partition(" ")
    if not separator:
        raise UnsupportedModel(f"the merge {merge!r} is not two pieces")
    return left, right


@dataclass(frozen=True, slots=True)
class _Reader:
    """Typed access to `tokenizer.ggml.*`."""

    metadata: Mapping[str, object]

    def raw(self, name: str) -> object:
        return self.metadata.get(_PREFIX + name)

    def list_of(
        self, name: str, kind: type[_Item], default: list[_Item] | None = None
    ) -> list[_Item]:
        value = self.raw(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
            raise UnsupportedModel(f"{_PREFIX}{name} is missing or not a list of {kind.__name__}")
        return value

    def ids(self, names: Iterable[str]) -> list[int]:
        return [value for name in names if isinstance(value := self.raw(name), int)]

    def token_text(self, name: str, tokens: list[str]) -> str | None:
        token_id = self.raw(name)
        if token_id is None:
            return None
        if not isinstance(token_id, int) or not 0 <= token_id < len(tokens):
            raise UnsupportedModel(f"{_PREFIX}{name} is {token_id!r} of {len(tokens)} tokens")
        return tokens[token_id]
