"""A request in Gemini's cache order: tools, system instruction, contents.

The order of tools and system instruction in the prompt is not documented; both lie ahead of the
contents. Gemini has no marks: what a user marked is read like everything else, or kept in a
cached-content object where that pays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from agentkit.blocks import AssistantMessage, ToolMessage, ToolsMessage, UserMessage
from agentkit.caching.plan.draft import SharedPrefix
from agentkit.caching.request import Block, CacheRequest, Identity, Message, Role
from agentkit.context import Segment, SystemPart, Tier
from agentkit.errors import RequestRefused
from agentkit.models.base import ModelRequest, Reuse
from agentkit.models.hosted.begun import Begun
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
from agentkit.models.hosted.growing import GrowingMessages
from agentkit.models.hosted.later import later_by_segment
from agentkit.models.hosted.shared import choice_name, shared_prefixes
from agentkit.models.hosted.wire import Layout, WireBlock
from agentkit.toolset import ToolSpec
from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.later import later_specs


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiLayout(Layout):
    """A `Layout` that knows what Gemini has no place for."""

    has_marks: bool
    """Whether the user has set breakpoints."""


def lay_out(
    request: ModelRequest,
    *,
    model: str,
    options: GeminiOptions,
    encoded: Encoded,
    begun: Begun[Sheet],
) -> GeminiLayout:
    """Return the request's pieces. What `begun` knows of an earlier one is not laid out again.

    Raises:
        RequestRefused: it has no contents, which the API demands.
    """
    known, behind = begun.longest(request.context)
    later = later_by_segment(request.context)
    key = (request.toolset.digest, *(text for texts in later.values() for text in texts))
    is_history = not behind or behind[0].tier is Tier.HISTORY  # the front is laid out as one
    if known is None or known.tools_key != key or not is_history:
        sheet, behind = _front(request, key, later, encoded), request.context.segments
    else:
        sheet = known.copy()
    for index, segment in enumerate(behind, len(request.context) - len(behind)):
        sheet.add_segment(segment, index, encoded, model)
    begun.keep(request.context, sheet)
    shared, n_stable = sheet.shared(request.reuse), len(sheet.blocks)
    if request.context.volatile:
        sheet = sheet.copy()
        # A content of its own: beside function responses in one content the API counts it as one.
        block = text_block(request.context.volatile, None)
        sheet.add(Content(role=Role.USER, blocks=(block,)))
    if not sheet.messages:
        raise RequestRefused(
            f"{VENDOR}:{model} needs something to answer: the request has no message with content"
        )
    return GeminiLayout(
        blocks=tuple(sheet.blocks),
        cache_request=CacheRequest(
            identity=_identity(request, model, options),
            tools=sheet.tools,
            system=sheet.system,
            messages=sheet.messages.all(),
            stream=True,
        ),
        shared=shared,
        n_volatile=len(sheet.blocks) - n_stable,
        has_marks=sheet.has_marks,
    )


@dataclass(slots=True, kw_only=True)
class Sheet:
    """A layout while it is written; what was kept goes on as a copy."""

    tools_key: tuple[str, ...]
    """Names the tools in front."""
    is_own: bool
    """Whether some of them are this conversation's alone."""
    tools: tuple[Block, ...]
    system: tuple[Block, ...]
    n_rules: int
    """Blocks of the system that are the organisation's rules."""
    blocks: list[WireBlock]
    messages: GrowingMessages = field(default_factory=GrowingMessages)
    ends: list[int] = field(default_factory=list)
    """Where earlier requests of the run ended: before each turn of the model."""
    has_marks: bool = False
    """Whether the user has set breakpoints."""

    def copy(self) -> Sheet:
        """Return a sheet that can go on without changing this one."""
        return replace(
            self,
            blocks=list(self.blocks),
            messages=self.messages.copy(),
            ends=list(self.ends),
        )

    def add_segment(self, segment: Segment, index: int, encoded: Encoded, model: str) -> None:
        """Add a segment of the history, which has this index in the context."""
        message = segment.content
        if not isinstance(message, UserMessage | AssistantMessage | ToolMessage | ToolsMessage):
            return  # the front
        self.has_marks = self.has_marks or _has_mark(message)
        key = ("history", segment.digest, index)
        for content in encoded.get(key, partial(contents, message, index, model=model)):
            if isinstance(message, AssistantMessage):
                self.ends.append(len(self.blocks))
            self.add(content)

    def add(self, content: Content) -> None:
        """Add a content."""
        self.blocks += content.blocks
        message = Message(content.role, tuple(wire.block for wire in content.blocks))
        self.messages.add((message,))

    def shared(self, reuse: Reuse) -> tuple[SharedPrefix, ...]:
        """Return the prefixes that other requests have, too."""
        return shared_prefixes(
            reuse,
            # What begins with tools that only this conversation has is nobody else's.
            organization=0 if self.is_own else len(self.tools) + self.n_rules,
            agent=0 if self.is_own else len(self.tools) + len(self.system),
            run=(*self.ends, len(self.blocks)),
        )


def _front(
    request: ModelRequest,
    key: tuple[str, ...],
    later: Mapping[int, tuple[str, ...]],
    encoded: Encoded,
) -> Sheet:
    """Return a sheet with tools and system text; `later` are the tools that are the last."""
    tools = (*_tools(request, encoded), *_later_tools(later, encoded))
    n_rules, system = _system(request, encoded)
    return Sheet(
        tools_key=key,
        is_own=bool(later),
        tools=tuple(wire.block for wire in tools),
        system=tuple(wire.block for wire in system),
        n_rules=n_rules,
        blocks=[*tools, *system],
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


def _has_mark(message: UserMessage | AssistantMessage | ToolMessage | ToolsMessage) -> bool:
    parts = () if isinstance(message, ToolMessage | ToolsMessage) else message.blocks
    return any(getattr(part, "breakpoint", None) is not None for part in parts)


def _once(
    encoded: Encoded, key: Hashable, make: Callable[[], tuple[WireBlock, ...]]
) -> tuple[WireBlock, ...]:
    (front,) = encoded.get(key, lambda: (Content(role=Role.DEVELOPER, blocks=make()),))
    return front.blocks


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
