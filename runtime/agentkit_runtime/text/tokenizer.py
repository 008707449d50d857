"""Text to token ids and back, for one vocabulary."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agentkit_runtime.text.folder_vocabulary import folder_vocabulary
from agentkit_runtime.text.gguf_vocabulary import gguf_vocabulary
from agentkit_runtime.text.piece_cache import PieceCache
from agentkit_runtime.text.token_bytes import DECODERS, byte_alphabet
from agentkit_runtime.text.trust import Marker
from agentkit_runtime.text.vocabulary import Vocabulary

_CACHED_CHARS = 8_000_000
"""How much text of rendered pieces is remembered with its ids, in characters."""


@dataclass(frozen=True, slots=True)
class RenderedPiece:
    """Characters `start` to `end` of a rendered text and their ids."""

    start: int
    end: int
    ids: tuple[int, ...]
    is_special: bool


class Tokenizer:
    """Encodes and decodes. Can be shared between threads.

    Special tokens are the vocabulary's control tokens. Only `encode_rendered` recognises them: in
    `encode` their texts are plain text. BOS is never added unless `encode_prompt` is asked. Bytes
    that the vocabulary has no token for have no ids; `loses_text` tells.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.backend = vocabulary.backend
        self.backend.encode_special_tokens = True
        self._continuation = vocabulary.continuation or vocabulary.backend
        self._continuation.encode_special_tokens = True
        self._vocabulary = vocabulary
        self._piece_bytes = DECODERS[vocabulary.bytes_style]
        self._added = dict(self.backend.get_added_tokens_decoder())
        self._special_ids = {
            token.content: token_id for token_id, token in self._added.items() if token.special
        }
        # A mark cannot be put inside one character, so such a token is never taken from text.
        self.special_texts: tuple[str, ...] = tuple(
            sorted(text for text in self._special_ids if len(text) > 1)
        )
        self.marker = Marker(self.special_texts)
        self._special_pattern = self._compile_special_pattern()
        self._first_pieces = PieceCache(
            lambda text: tuple(self._encode_piece(text, starts_text=True)),
            max_chars=_CACHED_CHARS // 8,
        )
        self._later_pieces = PieceCache(
            lambda text: tuple(self._encode_piece(text, starts_text=False)),
            max_chars=_CACHED_CHARS,
        )

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object]) -> Tokenizer:
        """Build from GGUF metadata. `UnsupportedModel` for vocabularies that are not known."""
        return cls(gguf_vocabulary(metadata))

    @classmethod
    def from_folder(cls, folder: Path) -> Tokenizer:
        """Build from `tokenizer.json` and its companions in a model folder."""
        return cls(folder_vocabulary(folder))

    def encode(self, text: str) -> list[int]:
        """Ids of plain text. The texts of special tokens stay plain text."""
        return self._encode_piece(text, starts_text=True)

    def encode_continuation(self, text: str) -> list[int]:
        """Ids of plain text that stands behind other text: no space is put in front."""
        return self._encode_piece(text, starts_text=False)

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a prompt without a template: BOS, where the model wants it, and plain text."""
        bos = self._special_ids.get(self.bos_text or "") if self._vocabulary.adds_bos else None
        ids = self.encode(text)
        return ids if bos is None else [bos, *ids]

    def encode_rendered(self, text: str, escape: str | None, *, tenant: str = "") -> list[int]:
        """Ids of a chat template's output: special tokens are recognised.

        `escape` is the mark that `trust` put into strings from outside; it is dropped from the
        plain pieces. None: nothing was marked. Pieces are remembered for `tenant` alone.
        """
        pieces = self.split_rendered(text, escape, tenant=tenant)
        return [token_id for piece in pieces for token_id in piece.ids]

    def split_rendered(
        self, text: str, escape: str | None, *, tenant: str = "", start: int = 0
    ) -> Iterator[RenderedPiece]:
        """The pieces of a template's output, in order. Each special token is a piece of its own.

        The ids of a piece depend on that piece alone (and on whether it starts the text), so a cut
        between pieces is a cut between ids. `start` skips the text before it, and must be 0 or
        the start of a special piece of it; see `longest_special`.
        """
        position = start
        for match in self._special_pattern.finditer(text, start) if self._special_pattern else ():
            if match.start() > position:
                yield self._plain_piece(text, position, match.start(), escape, tenant)
            matched = match[0] if match[0] in self._special_ids else match[0].strip()
            special = (self._special_ids[matched],)
            yield RenderedPiece(match.start(), match.end(), special, is_special=True)
            position = match.end()
        if position < len(text):
            yield self._plain_piece(text, position, len(text), escape, tenant)

    @cached_property
    def longest_special(self) -> int:
        """Characters of the longest special token's text.

        A special piece at `start` is one in every text that agrees up to `start + longest_special`:
        more text can only change the pieces of a place where a longer special token could still
        become complete.
        """
        return max(map(len, self.special_texts), default=0)

    def loses_text(self, text: str) -> bool:
        """Whether `text` holds bytes that the vocabulary cannot write (rare control characters)."""
        return self._unwritable is not None and bool(self._unwritable.search(text.encode("utf-8")))

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """Text of `ids`; bytes that are not UTF-8 become U+FFFD, ids without a token nothing."""
        data = b"".join(self._bytes_of(ids, skip_special))
        if self._vocabulary.strips_leading_space:
            data = data.removeprefix(b" ")
        return data.decode("utf-8", errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes a token stands for: its text for an added token, b"" for an id without one."""
        if token_id < 0:
            raise ValueError(f"token ids are not negative, got {token_id!r}")
        if token_id in self._added:
            return self._added[token_id].content.encode("utf-8")
        piece = self.backend.id_to_token(token_id)
        return b"" if piece is None else self._piece_bytes(piece)

    def is_special(self, token_id: int) -> bool:
        """Whether the id is a control token."""
        token = self._added.get(token_id)
        return token is not None and token.special

    @cached_property
    def vocab_size(self) -> int:
        """Highest id that has a token, plus one. A model's logits may be wider (padding)."""
        return max(self.backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @cached_property
    def longest_token_bytes(self) -> int:
        """How many bytes one token can stand for; at least 1."""
        return max([1, *(len(self.token_bytes(i)) for i in range(self.vocab_size))])

    @property
    def eos_ids(self) -> frozenset[int]:
        """Tokens that end a generation."""
        return self._vocabulary.eos_ids

    @property
    def bos_text(self) -> str:
        """What templates know as `bos_token`; empty if there is none."""
        return self._vocabulary.bos_text or ""

    @property
    def eos_text(self) -> str:
        """What templates know as `eos_token`; empty if there is none."""
        return self._vocabulary.eos_text or ""

    @property
    def strips_leading_space(self) -> bool:
        """Whether decoded text starts with a space that is not part of it (SentencePiece)."""
        return self._vocabulary.strips_leading_space

    @cached_property
    def fingerprint(self) -> str:
        """Hex SHA-256 over all that decides which ids a text has."""
        own = [self.bos_text, self.eos_text, sorted(self.eos_ids), self._vocabulary.adds_bos]
        digest = hashlib.sha256(b"agentkit-tokenizer-v1")
        digest.update(json.dumps(own).encode())
        digest.update(self.backend.to_str().encode())
        return digest.hexdigest()

    @cached_property
    def _unwritable(self) -> re.Pattern[bytes] | None:
        """Matches bytes without a token; None if every byte has one."""
        if self._vocabulary.bytes_style != "byte-level":
            return None
        missing = [
            byte
            for piece, byte in byte_alphabet().items()
            if self.backend.token_to_id(piece) is None
        ]
        return (
            re.compile(b"|".join(re.escape(bytes([byte])) for byte in missing)) if missing else None
        )

    def _plain_piece(
        self, text: str, start: int, end: int, escape: str | None, tenant: str
    ) -> RenderedPiece:
        piece = text[start:end]
        if escape is not None:
            piece = piece.replace(escape, "")
        ids = (self._first_pieces if start == 0 else self._later_pieces)(tenant, piece)
        return RenderedPiece(start, end, ids, is_special=False)

    def _encode_piece(self, text: str, *, starts_text: bool) -> list[int]:
        backend = self.backend if starts_text else self._continuation
        # The batch call gives up the GIL, `encode` does not: a long text would stop every stream.
        (encoding,) = backend.encode_batch_fast([text], add_special_tokens=False)
        ids: list[int] = encoding.ids
        return ids

    def _bytes_of(self, ids: Iterable[int], skip_special: bool) -> Iterator[bytes]:
        for token_id in ids:
            if not (skip_special and self.is_special(token_id)):
                yield self.token_bytes(token_id)

    def _compile_special_pattern(self) -> re.Pattern[str] | None:
        """Leftmost-longest over the special texts; some swallow the white space beside them."""
        if not self.special_texts:
            return None
        by_length = sorted(self.special_texts, key=len, reverse=True)
        return re.compile("|".join(self._one_special(text) for text in by_length))

    def _one_special(self, text: str) -> str:
        token = self._added[self._special_ids[text]]
        before = r"\s*" if token.lstrip else ""
        after = r"\s*" if token.rstrip else ""
        return before + re.escape(text) + after
