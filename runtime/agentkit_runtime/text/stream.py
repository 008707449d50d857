"""What the engine needs to turn a generation's ids into visible text."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit_runtime.text.detok import IncrementalDetokenizer
from agentkit_runtime.text.stop import StopScanner
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.types import TextDelta


class GenerationText:
    """Implements `types.TextStream`: whole characters only, cut exactly before a stop string."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str] = ()) -> None:
        self._detokenizer = IncrementalDetokenizer(tokenizer)
        self._scanner = StopScanner(stops)

    def push(self, token_id: int) -> TextDelta:
        """Add a token; returns the text that is now safe to show."""
        scanned = self._scanner.push(self._detokenizer.push(token_id))
        return TextDelta(scanned.text, scanned.stopped, self._scanner.found)

    def finish(self) -> str:
        """Return what was held back."""
        last = self._scanner.push(self._detokenizer.finish())
        return last.text + self._scanner.finish()
