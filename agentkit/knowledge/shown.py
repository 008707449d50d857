"""What a conversation has been shown, read from its own text: for those that were put away.

A running conversation is told by versions, see `Knowledge.changes`. One that comes back from a
database knows no version, but says in its front, its messages and its search results what it knows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from agentkit.blocks import Message, ToolMessage, UserMessage
from agentkit.context import Context, Document
from agentkit.context.turns import is_delta
from agentkit.knowledge.changes import Added, Change, Changed, Withdrawn, sentence, uris_in
from agentkit.knowledge.knowledge import Knowledge


def shown_uris(context: Context) -> frozenset[str]:
    """Return the URIs of all documents that a context has shown, in its front or later."""
    return uris_in(context) | told_uris(context.messages)


def told_uris(messages: Iterable[Message]) -> frozenset[str]:
    """Return the URIs of the documents of whose changes messages speak."""
    return frozenset(uri for message in messages for uri, _ in _told(message))


def unknown(knowledge: Knowledge, version: int, known: Collection[str]) -> tuple[Added, ...]:
    """Return the documents of a version whose URIs are not among the known, sorted by URI."""
    now = _Edition.of(knowledge, version)
    return tuple(
        Added(uri=uri, text=text, etag=now.etags[uri])
        for uri, text in sorted(now.texts.items())
        if uri not in known
    )


def outdated(
    context: Context, knowledge: Knowledge, version: int, *, everything: bool
) -> tuple[Change, ...]:
    """Return what a conversation has to be told, sorted by URI. What it was told last counts.

    Args:
        context: the conversation.
        knowledge: where its documents come from.
        version: what is true now.
        everything: whether it has to know all documents, also those that it was never shown.

    Raises:
        KnowledgeError: there is no such version.
    """
    if not everything and not shown_uris(context):
        return ()
    now = _Edition.of(knowledge, version)
    states = _states(context, knowledge, now)
    uris = states.keys() | now.texts.keys() if everything else states.keys()
    found: list[Change] = []
    for uri in sorted(uris):
        text, state = now.texts.get(uri), states.get(uri, _UNKNOWN)
        if text is None:
            if state.is_there:
                found.append(Withdrawn(uri=uri))
        elif not state.is_there:
            found.append(Added(uri=uri, text=text, etag=now.etags[uri]))
        elif not state.is_current:
            found.append(Changed(uri=uri, text=text, etag=now.etags[uri]))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _State:
    """What a conversation believes of a document."""

    is_there: bool
    is_current: bool
    """Whether what it was shown is in the latest text, word for word."""


_UNKNOWN = _State(is_there=False, is_current=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edition:
    """A version in the forms in which conversations show it."""

    chunks: Mapping[str, str]
    """Texts by `uri#index`."""
    texts: Mapping[str, str]
    etags: Mapping[str, str]

    @classmethod
    def of(cls, knowledge: Knowledge, version: int) -> _Edition:
        documents = knowledge.snapshot(version).documents
        return cls(
            chunks={document.uri: document.text for document in documents},
            texts=_joined(documents),
            etags=knowledge.etags(version),
        )


def _states(context: Context, knowledge: Knowledge, now: _Edition) -> dict[str, _State]:
    front = (segment.content for segment in context.front)
    shown = _joined(tuple(each for each in front if isinstance(each, Document)))
    states = {uri: _State(True, text == now.texts.get(uri)) for uri, text in shown.items()}
    for message in context.messages:
        for uri, is_there in _told(message):
            states[uri] = _State(is_there, _says(message, uri, now))
        for uri, is_current in _searched(message, now).items():
            # Other tools' results may look alike.
            if uri not in states and not knowledge.has_known(uri):
                continue
            before = states.get(uri, _UNKNOWN)
            # Another passage of it may be older, and was not taken back since.
            states[uri] = _State(True, is_current and (before.is_current or not before.is_there))
    return states


def _told(message: Message) -> Iterator[tuple[str, bool]]:
    """Yield the documents that a message speaks of, and whether it says that they exist."""
    if isinstance(message, UserMessage) and is_delta(message):
        for uri, what in _SENTENCE.findall(message.text):
            yield str(ast.literal_eval(uri)), not what.startswith("was")


def _says(message: Message, uri: str, now: _Edition) -> bool:
    """Whether a message of ours has the latest text of a document."""
    text = now.texts.get(uri)
    if text is None or not isinstance(message, UserMessage):
        return False
    said = message.text
    ways = (make(uri=uri, text=text, etag="") for make in (Added, Changed))
    return any(_has(said, sentence(change), _NEXT_SENTENCE) for change in ways)


def _searched(message: Message, now: _Edition) -> dict[str, bool]:
    """Return the documents of which a message has search results, and whether all are current."""
    found: dict[str, bool] = {}
    if isinstance(message, ToolMessage):
        for result in message.results:
            for uri, index in _HEADING.findall(result.content):
                chunk = now.chunks.get(f"{uri}#{index}")
                block = f"[{uri}#{index}]\n{chunk}"
                is_current = chunk is not None and _has(result.content, block, _NEXT_RESULT)
                found[uri] = found.get(uri, True) and is_current
    return found


def _has(text: str, piece: str, following: re.Pattern[str]) -> bool:
    """Whether a text has a piece that ends there, or before what may follow."""
    at = text.find(piece)
    while at >= 0:
        end = at + len(piece)
        if end == len(text) or following.match(text, end):
            return True
        at = text.find(piece, at + 1)
    return False


def _joined(documents: tuple[Document, ...]) -> dict[str, str]:
    """Return whole texts by URI; chunks together are the text."""
    parts: dict[str, list[tuple[int, str]]] = {}
    for document in documents:
        match = _CHUNK.fullmatch(document.uri)
        uri, index = (match[1], int(match[2])) if match else (document.uri, 0)
        parts.setdefault(uri, []).append((index, document.text))
    return {uri: "".join(text for _, text in sorted(chunks)) for uri, chunks in parts.items()}


_CHUNK = re.compile(r"(.+)#(\d{4,})", re.DOTALL)
_HEADING = re.compile(r"^\[(.+)#(\d{4,})\]$", re.MULTILINE)
_SAID = (
    r"""Document ('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*") """
    r"(is new\.|changed\.|was withdrawn:)"
)
_SENTENCE = re.compile(f"^{_SAID}", re.MULTILINE)
_NEXT_SENTENCE = re.compile(f"\n\n{_SAID}")
_NEXT_RESULT = re.compile(r"\n\n\[.+#\d{4,}\]\n")
