"""The body of a webhook that reports changed documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentkit.knowledge.errors import KnowledgeError


class DocumentEvent(BaseModel):
    """One document has changed or is gone."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    uri: str = Field(min_length=1)
    kind: Literal["updated", "deleted"] = "updated"
    text: str | None = None
    """The new text. Without it the document is read again through the loader."""


class Payload(BaseModel):
    """What the entry point takes; other fields are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    events: tuple[DocumentEvent, ...] = Field(min_length=1)


def events_of(payload: Mapping[str, object]) -> tuple[DocumentEvent, ...]:
    """Return the events of a body: `{"events": [...]}`, or one event by itself.

    Raises:
        KnowledgeError: the body has another form. Nothing was changed then.
    """
    try:
        if "events" in payload:
            return Payload.model_validate(payload).events
        return (DocumentEvent.model_validate(payload),)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in error.errors()
        )
        raise KnowledgeError(
            f"the webhook's body does not fit ({problems}); it should be like "
            '{"events": [{"uri": "guide.md", "kind": "updated", "text": "..."}]}'
        ) from error
