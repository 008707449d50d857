"""Token ids to text, one id at a time, never half a character."""

from __future__ import annotations

import codecs

from agentkit_runtime.text.tokenizer import Tokenizer

SHOWN_SPECIAL_TEXTS = frozenset(
    {
        *("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "<tool_call>", "</tool_call>"),
        *("<think>", "</think>", "[THINK]", "[/THINK]"),
        *("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        *("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
    }
)
"""Control tokens that belong to a reply's text in vocabularies that have them: they tell tool calls
and thinking from the answer."""


class IncrementalDetokenizer:
    """The text of one generation. All pushed and finished text together equals `decode` of the ids.

    Special tokens are left out, save those that write tool calls and thinking. The cost of a push
    does not depend on what was pushed before.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._characters = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._strips_space = tokenizer.strips_leading_space

    def push(self, token_id: int) -> str:
        """The text that is complete with this token; often empty.

        Bytes that can no longer become a character come out as U+FFFD.
        """
        return self._characters.decode(self._bytes(token_id))

    def finish(self) -> str:
        """What is left: U+FFFD for a character that was not completed."""
        return self._characters.decode(b"", final=True)

    def _bytes(self, token_id: int) -> bytes:
        data = self._tokenizer.token_bytes(token_id)
        if self._tokenizer.is_special(token_id):
            return data if data.decode("utf-8") in SHOWN_SPECIAL_TEXTS else b""
        if self._strips_space and data:
            self._strips_space = False
            data = data.removeprefix(b" ")
        return data
