"""A response that is being generated, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit_runtime.api.answer import Answer
from agentkit_runtime.api.openai.responses.decode import Decoded
from agentkit_runtime.api.openai.responses.output import ResponseOutput
from agentkit_runtime.api.openai.responses.store import StoredResponse
from agentkit_runtime.api.openai.responses.wire import ItemDocument, ResponseDocument
from agentkit_runtime.api.openai.unserved import unserved_header

FINISHED = ("completed", "incomplete")
"""States of responses that others can go on from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A response that is being generated."""

    tenant: str
    decoded: Decoded
    output: ResponseOutput
    input_items: tuple[ItemDocument, ...]

    @property
    def id(self) -> str:
        """The response's."""
        return self.document["id"]

    @property
    def document(self) -> ResponseDocument:
        """The response as it stands."""
        return self.output.response

    @property
    def headers(self) -> dict[str, str]:
        """Of the answer that tells it."""
        return unserved_header(self.decoded.unserved)

    @property
    def is_finished(self) -> bool:
        """Whether it came to an end of its own."""
        return self.document["status"] in FINISHED

    def stored(self, answer: Answer, events: tuple[bytes, ...] = ()) -> StoredResponse:
        """It, for later; `events` are those of its stream, where they can be asked for."""
        conversation = self.decoded.conversation
        if self.is_finished:
            conversation = conversation.answered(self.output.reply, answer.streams[0].ids)
        return StoredResponse(
            document=self.document,
            input_items=self.input_items,
            conversation=conversation,
            events=events,
        )
