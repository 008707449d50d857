"""Events about a response and its items, numbered in their order."""

from __future__ import annotations

import copy
from typing import Literal

from agentkit_runtime.api.openai.responses.wire import (
    OutputItem,
    ResponseDocument,
    StreamEvent,
    TextPart,
    ThoughtPart,
)


class EventMaker:
    """Makes the events of one response."""

    def __init__(self, response: ResponseDocument) -> None:
        self.response = response
        """The document as it stands."""
        self._n_events = 0
        self._open: OutputItem | None = None
        """The item that grows: the last of the output."""

    def _event(self, kind: str) -> StreamEvent:
        self._n_events += 1
        return {"type": kind, "sequence_number": self._n_events - 1}

    def _whole(
        self,
        kind: Literal[
            "response.created",
            "response.queued",
            "response.in_progress",
            "response.completed",
            "response.incomplete",
            "response.failed",
        ],
    ) -> StreamEvent:
        event = self._event(kind)
        event["response"] = copy.deepcopy(self.response)
        return event

    def _item(self, kind: str) -> StreamEvent:
        assert self._open is not None, "an item is open"
        event = self._event(kind)
        event["output_index"] = len(self.response["output"]) - 1
        event["item"] = copy.deepcopy(self._open)
        return event

    def _in_item(self, kind: str) -> StreamEvent:
        assert self._open is not None, "an item is open"
        event = self._event(kind)
        event["item_id"] = self._open["id"]
        event["output_index"] = len(self.response["output"]) - 1
        return event

    def _in_part(self, kind: str) -> StreamEvent:
        event = self._in_item(kind)
        event["content_index"] = 0
        return event

    def _part(self, kind: str, part: TextPart | ThoughtPart) -> StreamEvent:
        event = self._in_part(kind)
        event["part"] = copy.deepcopy(part)
        return event
