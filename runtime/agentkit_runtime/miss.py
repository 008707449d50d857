"""Why a prompt is not cached, in words: what the tree says, and where in the request that lies."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.kv.missed import Cause
from agentkit_runtime.kv.tokens import unpack
from agentkit_runtime.kv.walk import Walk
from agentkit_runtime.text.common import n_common

if TYPE_CHECKING:
    from agentkit_runtime.prompt import Prompt
    from agentkit_runtime.text.render import Renderer

_SHOWN_TOKENS = 24
"""Tokens of text on each side of the place where prompt and cache part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissReport:
    """How much of a prompt is cached, and why not more."""

    prompt_tokens: int
    cached_tokens: int
    """Leading tokens that are cached now. A request computes its last token in any case."""
    public_tokens: int
    """Of them, those of a prefix that the operator published."""
    cause: Cause
    detail: str
    """The cause as a sentence."""
    place: str | None
    """Where the first token that is not cached lies: `messages[3]`, `tools`, or
    `generation prompt`. None when all are cached."""
    role: str | None
    """Role of that message."""
    before: str
    """Text up to there, the last tokens of it."""
    asked: str
    """What the prompt says from there on."""
    cached: str
    """What the cache has in its place, on the branch used last; empty if nothing goes on there."""


def explain_walk(
    walk: Walk, prompt: Prompt, request: ChatRequest, renderer: Renderer, known: Sequence[int]
) -> MissReport:
    """Say in words where `prompt` leaves the cache.

    `known` are ids of an earlier prompt of these messages; what is in it was once computed.
    """
    tokenizer, ids, at = renderer.tokenizer, prompt.ids, walk.matched
    before, asked, cached = (
        tokenizer.decode(part, skip_special=False)
        for part in (
            ids[max(0, at - _SHOWN_TOKENS) : at],
            ids[at : at + _SHOWN_TOKENS],
            unpack(walk.branch)[:_SHOWN_TOKENS],
        )
    )
    place, role = (None, None) if walk.asked is None else _place(at, prompt, request, renderer)
    cause = _cause(walk, ids, known)
    return MissReport(
        prompt_tokens=walk.n_tokens,
        cached_tokens=at,
        public_tokens=walk.public,
        cause=cause,
        detail=_detail(cause, walk, place, asked, cached),
        place=place,
        role=role,
        before=before,
        asked=asked,
        cached=cached,
    )


def _cause(walk: Walk, ids: Sequence[int], known: Sequence[int]) -> Cause:
    if walk.asked is None:
        return "cached"
    if tuple(known[: walk.matched + 1]) == tuple(ids[: walk.matched + 1]):
        return "evicted"
    return "never seen" if walk.cached is None else "diverged"


def _detail(cause: Cause, walk: Walk, place: str | None, asked: str, cached: str) -> str:
    front = f"{walk.matched} of {walk.n_tokens} tokens are cached"
    match cause:
        case "cached":
            return f"all {walk.n_tokens} tokens are cached"
        case "evicted":
            return (
                f"{front}; the rest, from {place} on, was part of an earlier prompt and is not "
                "there any more (evicted, pruned, or not yet computed): pin it, or give more slots"
            )
        case "never seen":
            return f"{front}; nothing that was computed goes on as {place} does"
        case "diverged":
            return (
                f"{front}; in {place} the prompt says {_shortened(asked)!r} where the cache has "
                f"{_shortened(cached)!r}: keep what comes earlier byte for byte the same"
            )


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."


def _place(
    n_ids: int, prompt: Prompt, request: ChatRequest, renderer: Renderer
) -> tuple[str, str | None]:
    """The part of the request that token `n_ids` of its prompt comes from."""
    if request.prompt_ids is not None:
        return "prompt_ids", None
    position = len(renderer.tokenizer.decode(prompt.ids[:n_ids], skip_special=False))
    whole = prompt.written.marked_text
    if prompt.written.escape is not None:
        whole = whole.replace(prompt.written.escape, "")
    if request.tools and _in_tools(position, whole, request, renderer):
        return "tools", None
    low, high = 1, len(request.messages) + 1
    while low < high:
        middle = (low + high) // 2
        if _end(middle, request, renderer) > position:
            high = middle
        else:
            low = middle + 1
    if low > len(request.messages):
        return "the generation prompt", None
    return f"messages[{low - 1}]", request.messages[low - 1].role


def _end(n_messages: int, request: ChatRequest, renderer: Renderer) -> int:
    """Characters of the prompt of the first messages; 0 where the template refuses them."""
    try:
        return len(_text(request, renderer, n_messages))
    except RequestRejected:
        return 0


def _in_tools(position: int, whole: str, request: ChatRequest, renderer: Renderer) -> bool:
    """Whether what is there disappears with the tools."""
    bare = dataclasses.replace(request, tools=(), allowed_tools=None, tool_choice="auto")
    try:
        without = _text(bare, renderer, None)
    except RequestRejected:
        return False
    n_front = n_common(whole, without)
    n_behind = n_common(whole[::-1], without[::-1])
    return n_front <= position < len(whole) - n_behind


def _text(request: ChatRequest, renderer: Renderer, n_messages: int | None) -> str:
    """The text of the first messages, or of the whole prompt."""
    part = dataclasses.replace(request, messages=request.messages[:n_messages])
    written = renderer.write(part, add_generation_prompt=n_messages is None)
    text = written.marked_text
    return text if written.escape is None else text.replace(written.escape, "")
