"""What changed between two versions, and how a model is told. Nothing is dropped in silence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

from agentkit.blocks import ToolMessage, UserMessage
from agentkit.context import Context, Document
from agentkit.context.turns import delta, is_delta
from agentkit.knowledge.errors import KnowledgeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A document that was not there before."""

    uri: str
    text: str
    etag: str
    kind: Literal["added"] = field(default="added", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A document with another text than before."""

    uri: str
    text: str
    etag: str
    kind: Literal["changed"] = field(default="changed", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """A document that is not there any more."""

    uri: str
    kind: Literal["withdrawn"] = field(default="withdrawn", init=False)


Change: TypeAlias = Added | Changed | Withdrawn


def as_message(
    changes: Iterable[Change], *, has_more: bool = False, is_renewed: bool = False
) -> UserMessage:
    """Return the message that tells a model. Append it; what was sent before stays as it is.

    The same changes have the same bytes, in whichever order and whenever they are given.

    Args:
        changes: what is different.
        has_more: whether to say that there are documents that are found by a search only.
        is_renewed: whether to say that the conversation has a newer front than it was held with.

    Raises:
        KnowledgeError: there is nothing to say.
    """
    ordered = sorted(changes, key=lambda change: change.uri)
    if not ordered and not has_more and not is_renewed:
        raise KnowledgeError("there are no changes; append nothing")
    said = ((True, _CHANGED), (is_renewed, _RENEWED), (has_more, _MORE))
    heading = " ".join(text for is_so, text in said if is_so)
    # The heading comes first: what follows a document's text would look like a part of it.
    return delta("\n\n".join([heading, *map(sentence, ordered)]))


def is_told_of_more(context: Context) -> bool:
    """Return whether a conversation was told that there are documents that it has to search."""
    # Only a heading counts: a document may have the same words.
    return any(
        is_delta(message) and _MORE in message.text.split("\n\n", 2)[1]
        for message in context.messages
        if isinstance(message, UserMessage) and "\n\n" in message.text
    )


def document_uri(chunk_uri: str) -> str:
    """Return the URI of the document that a chunk is of."""
    return _CHUNK.sub("", chunk_uri)


def uris_in(context: Context) -> frozenset[str]:
    """Return the URIs of the documents that a context has shown: in its front or by a search."""
    return uris_in_front(context) | uris_found(context)


def uris_in_front(context: Context) -> frozenset[str]:
    """Return the URIs of the documents in a context's front."""
    contents = (segment.content for segment in context.front)
    return frozenset(
        document_uri(content.uri) for content in contents if isinstance(content, Document)
    )


def uris_found(context: Context) -> frozenset[str]:
    """Return the URIs of the documents that searches have shown, see `Knowledge.tool`."""
    messages = (each for each in context.messages if isinstance(each, ToolMessage))
    results = (result for message in messages for result in message.results)
    return frozenset(uri for result in results for uri in _HEADING.findall(result.content))


def sentence(change: Change) -> str:
    """Return how a change is told, see `as_message`."""
    match change:
        case Added():
            return f"Document {change.uri!r} is new. This is its text:\n{change.text}"
        case Changed():
            return f"Document {change.uri!r} changed. This is its new text:\n{change.text}"
        case Withdrawn():
            return f"Document {change.uri!r} was withdrawn: do not use what was said from it."
        case _:
            assert_never(change)


SEARCH_TOOL = "search_knowledge"
"""What a model calls the tool that searches, unless it is named otherwise."""

_CHANGED = "Documents have changed."
_RENEWED = (
    "Those at the beginning are the latest; what was said before from older texts may not hold."
)
_MORE = f"There are more documents than you are shown; {SEARCH_TOOL} finds them."
_CHUNK = re.compile(r"#\d{4,}$")
_HEADING = re.compile(r"^\[(.+)#\d{4,}\]$", re.MULTILINE)
