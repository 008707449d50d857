"""A text stream for tests that compare ids."""

from __future__ import annotations

from agentkit_runtime.types import TextDelta


class NoText:
    """Shows nothing."""

    def push(self, token_id: int) -> TextDelta:
        return TextDelta("")

    def finish(self) -> str:
        return ""
