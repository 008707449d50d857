"""`ChatRequest`s and `ChatEvent`s as JSON: what agentkit and our server say to each other.

    POST /v1/agentkit/chat     ChatBody  ->  server-sent events, each one `EventDocument`
    POST /v1/agentkit/warm     WarmBody  ->  WarmedDocument
    GET  /v1/agentkit/info               ->  InfoDocument

Both ends use this one module, so a field cannot be said by one and missed by the other. The fields
are those of the dataclasses; defaults are left out. Fields of a request that are not known are
refused, and so is another version: an older server must not answer without what it was asked for.
Of events, what is not known is ignored.

A request's tenant is the key's and its history the server's own; a body cannot say either.
Nothing here imports torch or a web framework.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypedDict, assert_never

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentkit_runtime.chat import (
    DEFAULT_TENANT,
    ChatEvent,
    ChatFinished,
    ChatRequest,
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStart,
)

VERSION: Literal[1] = 1
"""Of what is sent. It changes when an older server would misread a newer request."""

CHAT_PATH = "/v1/agentkit/chat"
WARM_PATH = "/v1/agentkit/warm"
HINTS_PATH = "/v1/agentkit/hints"
INFO_PATH = "/v1/agentkit/info"

MAX_LABEL_CHARS = 256
"""Of a session, a tag and a pin's name."""

MAX_TAGS = 16

Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_CHARS)]


class ChatBody(BaseModel):
    """What is asked, and by which version of this module."""

    # As url-safe base64: log-probabilities tell bytes that are no text.
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        ser_json_inf_nan="constants",  # so that they are refused, and not sent as null
    )

    version: Literal[1]
    model: str = ""
    """A name that the server goes by; empty is whatever it serves."""
    request: ChatRequest

    # Behind the fields: a validator before them would make JSON's lists Python's, no tuples.
    @model_validator(mode="after")
    def _only_what_callers_say(self) -> Self:
        for name, owner in NOT_SAID.items():
            if getattr(self.request, name) != _UNSAID[name]:
                raise ValueError(f"request.{name} cannot be said: {owner}; leave it out")
        return self

    @model_validator(mode="after")
    def _labels_are_short(self) -> Self:
        session, tags = self.request.session, self.request.tags
        if len(tags) > MAX_TAGS:
            raise ValueError(f"request.tags has {len(tags)} tags, at most {MAX_TAGS} are taken")
        for name, label in (("session", session or ""), *(("tags", tag) for tag in tags)):
            if len(label) > MAX_LABEL_CHARS:
                raise ValueError(
                    f"request.{name} has a label of {len(label)} characters, at most "
                    f"{MAX_LABEL_CHARS} are taken"
                )
        return self


class WarmBody(ChatBody):
    """What requests will begin with, and how it is kept."""

    pin: bool = False
    ttl_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The pin ends so many seconds after its last use; None is never."""
    name: Label | None = None
    """Of the pin, for lists."""

    @model_validator(mode="after")
    def _pin_or_not(self) -> Self:
        if not self.pin and (self.ttl_s is not None or self.name is not None):
            raise ValueError("ttl_s and name are a pin's: they do nothing without pin: true")
        return self


class EventDocument(BaseModel):
    """One event of an answer: just one of the fields is there, and `finished` is the last."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    content: ContentDelta | None = None
    reasoning: ReasoningDelta | None = None
    call: ToolCallStart | None = None
    arguments: ToolCallArguments | None = None
    finished: ChatFinished | None = None


class WarmedDocument(TypedDict):
    """What a warm-up found."""

    tokens: int
    """Of the prefix."""
    cached_tokens: int
    """Of these, what was there already."""


class InfoDocument(TypedDict):
    """What a server is."""

    version: int
    """The `VERSION` that it speaks."""
    release: str
    """Of the package."""
    model: str
    models: list[str]
    """All names that requests may use."""
    context_tokens: int
    """The most tokens of a prompt and its answer together."""


class WireError(ValueError):
    """A document that this module cannot have written."""


def chat_json(request: ChatRequest, *, model: str = "") -> bytes:
    """The body of a request. Its tenant is left out.

    Raises:
        WireError: the request has a history, or holds what is no JSON.
    """
    return _json(ChatBody.model_construct(version=VERSION, model=model, request=_said(request)))


def warm_json(
    request: ChatRequest,
    *,
    model: str = "",
    pin: bool = False,
    ttl_s: float | None = None,
    name: str | None = None,
) -> bytes:
    """The body of a warm-up. Raises as `chat_json`."""
    return _json(
        WarmBody.model_construct(
            version=VERSION, model=model, request=_said(request), pin=pin, ttl_s=ttl_s, name=name
        )
    )


def event_document(event: ChatEvent) -> dict[str, object]:
    """An event as a JSON object."""
    match event:
        case ContentDelta():
            document = EventDocument(content=event)
        case ReasoningDelta():
            document = EventDocument(reasoning=event)
        case ToolCallStart():
            document = EventDocument(call=event)
        case ToolCallArguments():
            document = EventDocument(arguments=event)
        case ChatFinished():
            document = EventDocument(finished=event)
        case _:
            assert_never(event)
    return document.model_dump(mode="json", exclude_defaults=True)


def event_from_json(text: str | bytes) -> ChatEvent | None:
    """The event; None for one of a kind that is not known here.

    Raises:
        WireError: the text is no event.
    """
    try:
        found = EventDocument.model_validate_json(text)
    except ValidationError as error:
        raise WireError(f"not an event of an answer: {error}") from error
    return found.content or found.reasoning or found.call or found.arguments or found.finished


def _said(request: ChatRequest) -> ChatRequest:
    if request.history is not None:
        raise WireError("a request's history stays where it is: send the replies' token_ids")
    return request


def _json(body: ChatBody) -> bytes:
    try:
        # Without warnings: that a mapping is no dict is seen to.
        document = body.model_dump(
            mode="json", exclude_defaults=True, fallback=_as_dict, warnings=False
        )
        document["version"] = VERSION
        document["request"].pop("tenant", None)
        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, TypeError) as error:
        raise WireError(f"the request has no JSON form: {error}") from error


def _as_dict(value: object) -> object:
    """Mappings that are no dict, such as read-only ones."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


NOT_SAID: Mapping[str, str] = {
    "tenant": f"it is the key's ({DEFAULT_TENANT!r} without keys)",
    "history": "the server knows its own",
}
"""Fields of a request that no body has, and whose they are."""

_UNSAID: Mapping[str, object] = {"tenant": DEFAULT_TENANT, "history": None}
