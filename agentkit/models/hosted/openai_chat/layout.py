"""A request in the order in which an OpenAI-compatible server caches it.

tools      sorted, pinned           the whole team
system     rules                    the whole team
system     role, examples, documents one agent's runs
...        the history              grows
user       volatile text            this request only
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from agentkit.blocks import AssistantMessage, ToolMessage, ToolsMessage, UserMessage
from agentkit.caching.plan.draft import SharedPrefix
from agentkit.caching.request import Block, CacheRequest, Identity, OpenAiOptions
from agentkit.context import Document, Segment, SystemPart, SystemText, Tier, ToolList
from agentkit.models.base import ModelRequest, Reuse
from agentkit.models.hosted.begun import Begun
from agentkit.models.hosted.call_ids import NOT_RENAMED, CallLog, Renamed
from agentkit.models.hosted.growing import GrowingMessages
from agentkit.models.hosted.later import later_by_segment
from agentkit.models.hosted.openai_chat.encode import Encoder
from agentkit.models.hosted.openai_chat.options import ChatOptions
from agentkit.models.hosted.openai_chat.pieces import Encoded, Piece
from agentkit.models.hosted.openai_chat.profiles import Profile
from agentkit.models.hosted.shared import choice_name, shared_prefixes
from agentkit.models.hosted.wire import Layout
from agentkit.models.hosted.wire_json import compact_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLayout(Layout):
    """A request's pieces: tools, then messages."""

    blocks: tuple[Piece, ...]
    n_tools: int


def lay_out(
    request: ModelRequest,
    encoder: Encoder,
    begun: Begun[Sheet],
    *,
    model: str,
    profile: Profile,
    options: ChatOptions,
    one_system_message: bool,
) -> ChatLayout:
    """Return the layout. The same segments always give the same bytes, in the same order.

    What `begun` knows of an earlier request of the run is not laid out again.

    Raises:
        RequestRefused: the server cannot be shown a part of the context.
    """
    known, behind = begun.longest(request.context)
    later = later_by_segment(request.context)
    texts = (text for each in later.values() for text in each)
    key = (one_system_message, request.toolset.digest, *texts)
    is_history = not behind or behind[0].tier is Tier.HISTORY  # the front is laid out as one
    if known is None or known.front_key != key or not is_history:
        sheet = _front(request, key, later, encoder, profile, one_message=one_system_message)
        behind = request.context.segments
    else:
        sheet = known.copy()
    for index, segment in enumerate(behind, len(request.context) - len(behind)):
        sheet.add_segment(segment, index, encoder)
    begun.keep(request.context, sheet)
    shared = sheet.shared(request.reuse)
    n_stable = len(sheet.pieces)
    text = volatile_text(request, profile)
    if text:
        sheet = sheet.copy()
        sheet.add(encoder.volatile(text))
    return ChatLayout(
        blocks=tuple(sheet.pieces),
        cache_request=CacheRequest(
            identity=_identity(request, model, profile, options),
            tools=sheet.tools,
            system=sheet.system,
            messages=sheet.messages.all(),
            terms=options.terms,
            stream=True,
            openai=OpenAiOptions(api="chat", retention=options.retention),
        ),
        shared=shared,
        n_volatile=len(sheet.pieces) - n_stable,
        n_tools=len(sheet.tools),
    )


def _front(
    request: ModelRequest,
    key: tuple[object, ...],
    later: Mapping[int, tuple[str, ...]],
    encoder: Encoder,
    profile: Profile,
    *,
    one_message: bool,
) -> Sheet:
    """Return a sheet with tools and system messages; `later` are the tools that are the last."""
    segments = request.context.front.segments
    system_segments = [
        (index, segment) for index, segment in enumerate(segments) if segment.tier is not Tier.TOOLS
    ]
    tools = encoder.tools(request.toolset, _index_of_tools(segments)) + encoder.later_tools(later)
    system = encoder.front(system_segments, one_message=one_message)
    has_rules = bool(segments) and segments[0].part is SystemPart.RULES
    return Sheet(
        front_key=key,
        is_own=bool(later),
        tools=tuple(piece.block for piece in tools),
        system=tuple(piece.block for piece in system),
        has_rules=has_rules,
        pieces=[*tools, *system],
        log=CallLog(profile.call_ids),
    )


@dataclass(slots=True, kw_only=True)
class Sheet:
    """A layout while it is written; what was kept goes on as a copy."""

    front_key: tuple[object, ...]
    """Names the tools, and the form of the system text."""
    is_own: bool
    """Whether some of the tools are this conversation's alone."""
    tools: tuple[Block, ...]
    system: tuple[Block, ...]
    has_rules: bool
    """Whether the system messages begin with the organisation's rules."""
    pieces: list[Piece]
    log: CallLog
    renamed: Renamed = NOT_RENAMED
    messages: GrowingMessages = field(default_factory=GrowingMessages)
    ends: list[int] = field(default_factory=list)
    """Where earlier requests of the run ended."""

    def copy(self) -> Sheet:
        """Return a sheet that can go on without changing this one."""
        return replace(
            self,
            pieces=list(self.pieces),
            log=self.log.copy(),
            messages=self.messages.copy(),
            ends=list(self.ends),
        )

    def add_segment(self, segment: Segment, index: int, encoder: Encoder) -> None:
        """Add a segment of the history, which has this index in the context."""
        match segment.content:
            case SystemText() | ToolList() | Document():
                return  # the front
            case AssistantMessage() as message:
                self.ends.append(len(self.pieces))  # what it was asked with
                self.renamed = self.log.turn(message)
                self.add(encoder.history(segment, message, index, self.renamed))
            case UserMessage() | ToolMessage() | ToolsMessage() as message:
                self.add(encoder.history(segment, message, index, self.renamed))
            case _:
                assert_never(segment.content)

    def add(self, encoded: Encoded) -> None:
        """Add messages."""
        self.pieces += encoded.pieces
        self.messages.add(encoded.messages)

    def shared(self, reuse: Reuse) -> tuple[SharedPrefix, ...]:
        """Return the prefixes that other requests have, too."""
        team = len(self.tools) + (1 if self.has_rules else 0)
        return shared_prefixes(
            reuse,
            # What begins with tools that only this conversation has is nobody else's.
            organization=0 if self.is_own else team,
            agent=0 if self.is_own else len(self.tools) + len(self.system),
            run=(*self.ends, len(self.pieces)),
        )


def volatile_text(request: ModelRequest, profile: Profile) -> str:
    """Return what is said at the very end: the volatile text, and a schema that has no field."""
    said = request.context.volatile or ""
    if request.output_schema is None or profile.json_schema:
        return said
    schema = compact_json(request.output_schema).decode()
    asked = f"Give your final answer as JSON alone, fitting this JSON schema: {schema}"
    return f"{said}\n\n{asked}" if said else asked


def _index_of_tools(segments: Sequence[Segment]) -> int | None:
    found = (index for index, segment in enumerate(segments) if segment.tier is Tier.TOOLS)
    return next(found, None)


def _identity(
    request: ModelRequest, model: str, profile: Profile, options: ChatOptions
) -> Identity:
    schema = request.output_schema if profile.json_schema else None
    return Identity(
        model=model,
        service_tier=options.service_tier,
        tool_choice=choice_name(request),
        parallel_tools=options.parallel_tool_calls is not False,
        effort=options.reasoning_effort,
        verbosity=options.verbosity,
        output_format=None
        if schema is None
        else hashlib.sha256(compact_json(schema)).hexdigest()[:16],
    )
