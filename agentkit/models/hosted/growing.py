"""The messages of a layout that is being written."""

from __future__ import annotations

from collections.abc import Iterable

from agentkit.caching.request import Message, Messages


class GrowingMessages:
    """Messages that are added one by one. What is known of those before is not found again."""

    __slots__ = ("_added", "_before")

    def __init__(self, before: Messages | None = None) -> None:
        self._before = before or Messages()
        self._added: list[Message] = []
        """Messages behind these."""

    def __bool__(self) -> bool:
        return bool(self._before or self._added)

    def add(self, messages: Iterable[Message]) -> None:
        """Add messages at the end."""
        self._added += messages

    def all(self) -> Messages:
        """Return all of them."""
        if self._added:
            self._before = self._before.continued(len(self._before), self._added)
            self._added = []
        return self._before

    def copy(self) -> GrowingMessages:
        """Return messages that can go on without changing these."""
        return GrowingMessages(self.all())
