"""A request in Gemini's cache order: tools, system instruction, contents.

The order of tools and system instruction in the prompt is not documented; both lie ahead of the
contents. Gemini has no marks: what a user marked is read like everything else, or kept in a
cached-content object where that pays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial

from agentkit.blocks import AssistantMessage, ToolMessage, ToolsMessage, UserMessage
from agentkit.caching.request import CacheRequest, Identity, Message, Messages, Role
from agentkit.context import SystemPart, Tier
from agentkit.errors import RequestRefused
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.gemini.encode import (
    Content,
    contents,
    system_blocks,
    text_block,
    tool_block,
)
from agentkit.models.hosted.gemini.encoded import Encoded
from agentkit.models.hosted.gemini.options import GeminiOptions
from agentkit.models.hosted.gemini.vendor import VENDOR
from agentkit.models.hosted.later import later_by_segment
from agentkit.models.hosted.shared import choice_name, shared_prefixes
from agentkit.models.hosted.wire import Layout, WireBlock
from agentkit.toolset import ToolSpec
from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.later import later_specs


def lay_out(
    request: ModelRequest, *, model: str, options: GeminiOptions, encoded: Encoded
) -> Layout:
    """Return the request's pieces.

    Raises:
        RequestRefused: it has no contents, which the API demands.
    """
    later = later_by_segment(request.context)
    tools = (*_tools(request, encoded), *_later_tools(later, encoded))
    rules, system = _system(request, encoded)
    found = list(_history(request, model, encoded))
    stable = [content for content, _ in found]
    volatile = _volatile(request)
    if not stable and not volatile:
        raise RequestRefused(
            f"{VENDOR}:{model} needs something to answer: the request has no message with content"
        )
    blocks = (*tools, *system, *_blocks(stable), *_blocks(volatile))
    n_volatile = sum(1 for _ in _blocks(volatile))
    n_front = len(tools) + len(system)
    return Layout(
        blocks=blocks,
        cache_request=CacheRequest(
            identity=_identity(request, model, options),
            tools=tuple(wire.block for wire in tools),
            system=tuple(wire.block for wire in system),
            messages=Messages(_message(content) for content in (*stable, *volatile)),
            stream=True,
        ),
        shared=shared_prefixes(
            request.reuse,
            # What begins with tools that only this conversation has is nobody else's.
            organization=0 if later else len(tools) + rules,
            agent=0 if later else n_front,
            run=[*_turn_starts(found, n_front), len(blocks) - n_volatile],
        ),
        n_volatile=n_volatile,
    )


def _tools(request: ModelRequest, encoded: Encoded) -> tuple[WireBlock, ...]:
    segments = request.context.front.segments
    at = next((i for i, segment in enumerate(segments) if segment.tier is Tier.TOOLS), None)
    return _once(
        encoded,
        ("tools", request.toolset.digest, at),
        partial(_tool_blocks, request.toolset.specs, at),
    )


def _later_tools(later: Mapping[int, tuple[str, ...]], encoded: Encoded) -> Iterator[WireBlock]:
    """Yield the tools that came behind the front: the last of the list."""
    for index, texts in later.items():
        specs = later_specs(texts)
        make = partial(_tool_blocks, specs, index)
        yield from _once(encoded, ("tools", texts, index), make)


def _tool_blocks(specs: Sequence[ToolSpec], segment: int | None) -> tuple[WireBlock, ...]:
    return tuple(tool_block(spec, segment) for spec in specs)


def _system(request: ModelRequest, encoded: Encoded) -> tuple[int, tuple[WireBlock, ...]]:
    """Return how many blocks the organisation's rules are, and all blocks of the system."""
    n_rules, blocks = 0, list[WireBlock]()
    for index, segment in enumerate(request.context.front.segments):
        key = ("system", segment.digest, index)
        made = _once(encoded, key, partial(system_blocks, segment, index))
        blocks += made
        if segment.part is SystemPart.RULES:
            n_rules = len(made)
    return n_rules, tuple(blocks)


def _history(request: ModelRequest, model: str, encoded: Encoded) -> Iterator[tuple[Content, bool]]:
    """Yield the contents of the history, and of each whether it is an assistant's."""
    for index, segment in enumerate(request.context.segments):
        message = segment.content
        if not isinstance(message, UserMessage | AssistantMessage | ToolMessage | ToolsMessage):
            continue
        key = ("history", segment.digest, index)
        make = partial(contents, message, index, model=model)
        for content in encoded.get(key, make):
            yield content, isinstance(message, AssistantMessage)


def _once(
    encoded: Encoded, key: Hashable, make: Callable[[], tuple[WireBlock, ...]]
) -> tuple[WireBlock, ...]:
    (front,) = encoded.get(key, lambda: (Content(role=Role.DEVELOPER, blocks=make()),))
    return front.blocks


def _volatile(request: ModelRequest) -> list[Content]:
    # A content of its own: beside function responses in one content the API counts it as one.
    text = request.context.volatile
    return [Content(role=Role.USER, blocks=(text_block(text, None),))] if text else []


def _turn_starts(found: list[tuple[Content, bool]], n_front: int) -> Iterator[int]:
    """Yield where each turn of the model begins, which is where the request for it ended."""
    at = n_front
    for content, is_turn in found:
        if is_turn:
            yield at
        at += len(content.blocks)


def _identity(request: ModelRequest, model: str, options: GeminiOptions) -> Identity:
    schema = request.output_schema
    return Identity(
        model=model,
        tool_choice=choice_name(request),
        thinking=options.thinking,
        output_format=None
        if schema is None
        else hashlib.blake2b(canonical_json(schema), digest_size=8).hexdigest(),
    )


def _message(content: Content) -> Message:
    return Message(content.role, tuple(wire.block for wire in content.blocks))


def _blocks(contents: list[Content]) -> Iterator[WireBlock]:
    return (wire for content in contents for wire in content.blocks)
