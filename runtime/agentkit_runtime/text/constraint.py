"""Grammars at work: one instance per generation, implementing `types.Grammar`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer

from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokenizer as we and as llguidance know it."""

    tokenizer: Tokenizer
    engine: LLTokenizer


class AlwaysConstrained:
    """The grammar holds from the first token."""

    def __init__(self, vocabulary: Vocabulary, matcher: LLMatcher) -> None:
        self._eos_ids = sorted(vocabulary.tokenizer.eos_ids)
        self._matcher = matcher
        self._ended = False

    def apply(self, logits: torch.Tensor) -> None:
        """Set the logits [vocab] of forbidden tokens to -inf; once done, only the end remains."""
        if self.done:
            allowed = torch.zeros(logits.shape[-1], dtype=torch.bool)
            allowed[self._eos_ids] = True
        else:
            allowed = self._allowed(logits.shape[-1])
        logits.masked_fill_(~allowed.to(logits.device), float("-inf"))

    def accept(self, token_id: int) -> None:
        """Advance by one token. Raises `RuntimeFault` for a token that the grammar forbids."""
        if token_id in self._eos_ids and (self.done or self._matcher.is_accepting()):
            self._ended = True
        elif self.done or not self._matcher.consume_token(token_id):
            reason = self._matcher.get_error() or "the grammar was complete"
            raise RuntimeFault(f"the grammar refused token {token_id}: {_first_line(reason)}")

    def forced(self) -> list[int]:
        """Tokens that must come next, whatever the model says."""
        return [] if self.done else list(self._matcher.compute_ff_tokens())

    def acceptable(self, token_ids: Sequence[int]) -> int:
        """How many of these tokens fit, one after the other. Changes nothing."""
        return 0 if self.done else int(self._matcher.validate_tokens(list(token_ids)))

    @property
    def done(self) -> bool:
        """Whether nothing but the end may follow."""
        return self._ended or (self._matcher.is_stopped() and not self._matcher.is_error())

    def _allowed(self, width: int) -> torch.Tensor:
        """[width] bool; ids past the vocabulary (padding of the logits) are never allowed."""
        mask = self._matcher.compute_bitmask()
        if self._matcher.is_error():
            error = _first_line(self._matcher.get_error())
            raise RuntimeFault(f"the grammar engine failed: {error}")
        bits = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")[:width]
        allowed = torch.from_numpy(bits).bool()
        return torch.nn.functional.pad(allowed, (0, width - len(allowed)))


class ConstrainedAfterTrigger:
    """Free text; from the place where one of `triggers` appears the grammar holds, it included.

    While the text is free nothing is masked and nothing is forced. With `only_at_start` a trigger
    counts only as the very first text. Bytes that a token has behind the trigger must fit the
    grammar; if they do not, it was no call, and the text stays free.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        matcher: LLMatcher,
        *,
        triggers: Sequence[bytes],
        only_at_start: bool,
    ) -> None:
        self._vocabulary = vocabulary
        self._matcher = matcher
        self._triggers = tuple(triggers)
        self._n_kept = max(map(len, triggers)) - 1
        self._only_at_start = only_at_start
        self._tail: list[tuple[int, bytes]] = []
        """The latest tokens, as far back as a trigger that is being written can begin."""
        self._constrained: AlwaysConstrained | None = None
        self._is_hopeless = False
        self._ended = False

    def apply(self, logits: torch.Tensor) -> None:
        """Mask `logits` [vocab] if the trigger has appeared, else leave them."""
        if self._constrained is not None:
            self._constrained.apply(logits)

    def accept(self, token_id: int) -> None:
        """Advance by one token. Raises `RuntimeFault` for a token that the grammar forbids."""
        if self._constrained is not None:
            self._constrained.accept(token_id)
        elif token_id in self._vocabulary.tokenizer.eos_ids:
            self._ended = True
        elif not self._is_hopeless:
            self._watch(token_id)

    def forced(self) -> list[int]:
        """Tokens that must come next; none while the text is free."""
        return [] if self._constrained is None else self._constrained.forced()

    def acceptable(self, token_ids: Sequence[int]) -> int:
        """How many of these tokens fit; all of them while the text is free."""
        return (
            len(token_ids) if self._constrained is None else self._constrained.acceptable(token_ids)
        )

    @property
    def done(self) -> bool:
        """Whether nothing but the end may follow."""
        return self._ended or (self._constrained is not None and self._constrained.done)

    def _watch(self, token_id: int) -> None:
        self._tail.append((token_id, self._vocabulary.tokenizer.token_bytes(token_id)))
        text = b"".join(data for _, data in self._tail)
        if self._only_at_start:
            self._watch_start(text)
            return
        found = [at for trigger in self._triggers if (at := text.find(trigger)) >= 0]
        if not (found and self._begin(text, min(found))):
            self._forget(self._n_kept)

    def _watch_start(self, text: bytes) -> None:
        if any(map(text.startswith, self._triggers)):
            self._is_hopeless = not self._begin(text, 0)
        else:
            self._is_hopeless = not any(trigger.startswith(text) for trigger in self._triggers)

    def _begin(self, text: bytes, at: int) -> bool:
        """Put the grammar in force, from the trigger at `at` on; False if the text does not fit."""
        for ids in self._spellings(text, at):
            if ids and self._matcher.validate_tokens(ids) == len(ids):
                self._matcher.consume_tokens(ids)
                self._constrained = AlwaysConstrained(self._vocabulary, self._matcher)
                return True
        return False

    def _spellings(self, text: bytes, at: int) -> Iterator[list[int]]:
        """Ids for the text from byte `at` on: the generated ones, then those it usually has.

        The two differ where a token reaches across `at`, or spells out a tag that is a token.
        """
        offset = 0
        for i, (_, data) in enumerate(self._tail):
            if offset == at:
                yield [token_id for token_id, _ in self._tail[i:]]
            offset += len(data)
        behind = text[at:].decode("utf-8", errors="ignore")
        if behind.encode() == text[at:]:
            yield self._vocabulary.tokenizer.encode_rendered(behind, None)

    def _forget(self, n_bytes: int) -> None:
        """Drop tokens that end before the last `n_bytes`."""
        n_kept = 0
        for i in range(len(self._tail) - 1, -1, -1):
            if n_kept >= n_bytes:
                self._tail = self._tail[i + 1 :]
                return
            n_kept += len(self._tail[i][1])


def _first_line(message: str) -> str:
    return (message.strip().splitlines() or ["no message"])[0]
