"""Prompts that begin with ids, and not with a text that has to be tokenised.

A conversation whose ids are known goes on from them: only what comes behind the model's reply is
rendered. So the next prompt begins with exactly what the model has read and said, also where the
template would drop thinking or say a call otherwise.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Sequence

from agentkit_runtime.chat import ChatMessage, ChatRequest, History
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.front import NO_FRONT
from agentkit_runtime.text.render import Renderer, Written
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.token_memory import Piece, PromptIds


def add_given(prompt: PromptIds, given: tuple[int, ...], tokenizer: Tokenizer) -> Written:
    """Make the prompt of the caller's own ids. Raises `RequestRejected` for ids of no token."""
    if not given:
        raise RequestRejected("the prompt is empty; give at least one token", field="prompt_ids")
    for place, token_id in enumerate(given):
        if not 0 <= token_id < tokenizer.vocab_size:
            raise RequestRejected(
                f"prompt_ids[{place}] is {token_id}; this model's ids are 0 to "
                f"{tokenizer.vocab_size - 1}",
                field="prompt_ids",
            )
    prompt.add(Piece("", given, is_special=True))
    return Written(marked_text="", escape=None, front=NO_FRONT, warnings=())


def add_continued(
    prompt: PromptIds, request: ChatRequest, history: History, renderer: Renderer
) -> Written | None:
    """Make the prompt of the history's ids and of the text behind its reply.

    None, and nothing is added, where the template does not let that text be told: it has to show
    where the reply ends its turn.
    """
    written = _behind_reply(request, history, renderer)
    if written is None:
        return None
    pieces = [
        Piece(_plain(written, piece.start, piece.end), piece.ids, piece.is_special)
        for piece in renderer.tokenizer.split_rendered(
            written.marked_text, written.escape, tenant=request.tenant
        )
    ]
    if history.ids[-1] in renderer.tokenizer.eos_ids:
        pieces = pieces[1:]  # the model ended its turn by itself
    prompt.add(Piece("", history.ids, is_special=True))
    for piece in pieces:
        prompt.add(piece)
    return written


def _plain(written: Written, start: int, end: int) -> str:
    text = written.marked_text[start:end]
    return text if written.escape is None else text.replace(written.escape, "")


def _behind_reply(request: ChatRequest, history: History, renderer: Renderer) -> Written | None:
    """The rendered text from the token on that ends the reply's turn."""
    n, new = history.n_messages, request.messages[history.n_messages :]
    moves = _has_system(new) and not renderer.traits.supports_mid_system
    if moves or not new or not history.ids:
        return None
    mark = f"x{secrets.token_hex(12)}"
    reply = _marked(request.messages[n - 1], mark)
    messages = (*request.messages[: n - 1], reply, *new)
    try:
        whole = renderer.write(dataclasses.replace(request, messages=messages))
    except RequestRejected:
        return None  # the request as it is will be refused, or not, by itself
    text = whole.marked_text
    at = text.find(mark)
    ends = [text.find(end, at) for end in _turn_ends(renderer.tokenizer)]
    found = [end for end in ends if end >= 0]
    if at < 0 or not found:
        return None
    return dataclasses.replace(whole, marked_text=text[min(found) :])


def _marked(reply: ChatMessage, mark: str) -> ChatMessage:
    """The reply with `mark` as the last thing that it says."""
    if not reply.tool_calls:
        return dataclasses.replace(reply, content=mark)
    *first, last = reply.tool_calls
    last = dataclasses.replace(last, arguments=json.dumps({"mark": mark}))
    return dataclasses.replace(reply, tool_calls=(*first, last))


def _turn_ends(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.token_bytes(token_id).decode("utf-8") for token_id in tokenizer.eos_ids]


def _has_system(messages: Sequence[ChatMessage]) -> bool:
    return any(message.role == "system" for message in messages)
