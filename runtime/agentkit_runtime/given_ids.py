"""Ids that callers send back with the replies that they were (`ChatMessage.token_ids`).

`token_memory` knows the replies of this process. After a restart, or at another worker, nobody does
but the caller. What the caller says is never trusted: ids take a reply's place in the prompt only
where their bytes are exactly those of the rendered text there, piece by piece, and no id of a
special token stands for plain text. So the prompt reads the same with and without them.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from agentkit_runtime.chat import ChatMessage, ChatRequest
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.render import Renderer, Written
from agentkit_runtime.text.tokenizer import RenderedPiece, Tokenizer

TemplateOptions = Mapping[str, bool | str]


def without_ids(request: ChatRequest) -> ChatRequest:
    """The request without its replies' ids: what is remembered of it must not hold them."""
    if not any(message.token_ids for message in request.messages):
        return request
    messages = tuple(
        dataclasses.replace(message, token_ids=()) if message.token_ids else message
        for message in request.messages
    )
    return dataclasses.replace(request, messages=messages)


def reply_places(
    renderer: Renderer, request: ChatRequest, written: Written, *, add_generation_prompt: bool
) -> dict[int, tuple[int, ...]]:
    """Where in the marked text the replies begin whose ids are given, and these ids.

    A reply begins behind what the template says when it is the model's turn. Empty where the text
    does not have that once for each of the assistant's messages: then nobody can say which is which
    (templates without such words, or which leave messages out).
    """
    replies = [message for message in request.messages if message.role == "assistant"]
    if not any(message.token_ids for message in replies):
        return {}
    opening = _opening(renderer, request.template_options)
    ends = [*_ends(written.marked_text, opening)] if opening else []
    if len(ends) != len(replies) + add_generation_prompt:
        return {}
    return {
        end: reply.token_ids for end, reply in zip(ends, replies, strict=False) if reply.token_ids
    }


class GivenIds:
    """Puts given ids in the place of those that tokenising gives, piece by piece, in order."""

    def __init__(
        self, places: Mapping[int, Sequence[int]], written: Written, tokenizer: Tokenizer
    ) -> None:
        """`places` are those of `reply_places`."""
        self._places = places
        self._begins = sorted(places)
        self._text = written.marked_text
        self._escape = written.escape
        self._tokenizer = tokenizer
        self._rest: Iterator[int] = iter(())
        """What is left of the ids of the reply that is being read."""

    def __call__(self, piece: RenderedPiece) -> RenderedPiece:
        """The next piece of the text, with its given ids where there are any that read it."""
        if not self._places:
            return piece
        begin = self._begin_in(piece)
        if begin is not None:
            self._rest = iter(self._places[begin])
        if piece.is_special:
            if next(self._rest, None) != piece.ids[0]:
                self._rest = iter(())
            return piece
        start = piece.start if begin is None else begin
        found = self._reading(self._plain(start, piece.end))
        if found is None:
            self._rest = iter(())
            return piece
        return dataclasses.replace(piece, ids=(*self._head(piece.start, start), *found))

    def _begin_in(self, piece: RenderedPiece) -> int | None:
        rank = bisect.bisect_left(self._begins, piece.start)
        begin = self._begins[rank] if rank < len(self._begins) else piece.end
        return begin if begin < piece.end else None

    def _reading(self, text: bytes) -> list[int] | None:
        """The next ids if they read exactly `text`."""
        found: list[int] = []
        n_read = 0
        while n_read < len(text):
            token_id = next(self._rest, None)
            if token_id is None or not self._is_plain(token_id):
                return None
            said = self._tokenizer.token_bytes(token_id)
            if not said or text[n_read : n_read + len(said)] != said:
                return None
            found.append(token_id)
            n_read += len(said)
        return found

    def _is_plain(self, token_id: int) -> bool:
        return token_id < self._tokenizer.vocab_size and not self._tokenizer.is_special(token_id)

    def _head(self, start: int, end: int) -> tuple[int, ...]:
        """The ids of the text in front of the reply, as they were when it was generated."""
        if start == end:
            return ()
        pieces = self._tokenizer.split_rendered(self._text[:end], self._escape, start=start)
        return tuple(token_id for piece in pieces for token_id in piece.ids)

    def _plain(self, start: int, end: int) -> bytes:
        text = self._text[start:end]
        plain = text if self._escape is None else text.replace(self._escape, "")
        return plain.encode("utf-8", "surrogatepass")


def _opening(renderer: Renderer, options: TemplateOptions) -> str:
    """What the template says when it is the model's turn; empty where that cannot be told."""
    asked: Iterable[ChatMessage] = (ChatMessage(role="user", content="x"),)
    request = ChatRequest(messages=tuple(asked), template_options=options)
    try:
        shut = renderer.write(request, add_generation_prompt=False).marked_text
        opened = renderer.write(request).marked_text
    except RequestRejected:
        return ""
    return opened[len(shut) :] if opened.startswith(shut) else ""


def _ends(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at + len(part)
        at = text.find(part, at + len(part))
