"""A request in the order in which an OpenAI-compatible server caches it.

tools      sorted, pinned           the whole team
system     rules                    the whole team
system     role, examples, documents one agent's runs
...        the history              grows
user       volatile text            this request only
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from agentkit.blocks import AssistantMessage, ToolMessage, ToolsMessage, UserMessage
from agentkit.caching.request import CacheRequest, Identity, Message, Messages, OpenAiOptions
from agentkit.context import Document, Segment, SystemPart, SystemText, Tier, ToolList
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.call_ids import NOT_RENAMED, CallLog
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
    *,
    model: str,
    profile: Profile,
    options: ChatOptions,
    one_system_message: bool,
) -> ChatLayout:
    """Return the layout. The same segments always give the same bytes, in the same order.

    Raises:
        RequestRefused: the server cannot be shown a part of the context.
    """
    front = [
        (index, segment)
        for index, segment in enumerate(request.context.segments)
        if segment.tier in (Tier.SYSTEM, Tier.KNOWLEDGE)
    ]
    later = later_by_segment(request.context)
    tools = encoder.tools(request.toolset, _index_of_tools(request.context.front.segments))
    tools += encoder.later_tools(later)
    system = encoder.front(front, one_message=one_system_message)
    sheet = _Sheet(pieces=[*tools, *system])
    _add_history(sheet, request, encoder, profile)
    n_stable = len(sheet.pieces)
    text = volatile_text(request, profile)
    if text:
        sheet.add(encoder.volatile(text))
    has_rules = bool(front) and front[0][1].part is SystemPart.RULES
    team = len(tools) + (1 if has_rules else 0)
    agent = len(tools) + len(system)
    if later:
        team = agent = 0  # what begins with this conversation's own tools is nobody else's
    runs = [*sheet.ends, n_stable]
    return ChatLayout(
        blocks=tuple(sheet.pieces),
        cache_request=CacheRequest(
            identity=_identity(request, model, profile, options),
            tools=tuple(piece.block for piece in tools),
            system=tuple(piece.block for piece in system),
            messages=Messages(sheet.messages),
            terms=options.terms,
            stream=True,
            openai=OpenAiOptions(api="chat", retention=options.retention),
        ),
        shared=shared_prefixes(request.reuse, organization=team, agent=agent, run=runs),
        n_volatile=len(sheet.pieces) - n_stable,
        n_tools=len(tools),
    )


@dataclass(slots=True)
class _Sheet:
    """A request that is being written."""

    pieces: list[Piece]
    messages: list[Message] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """Where earlier requests of the run ended."""

    def add(self, encoded: Encoded) -> None:
        self.pieces += encoded.pieces
        self.messages += encoded.messages


def _add_history(sheet: _Sheet, request: ModelRequest, encoder: Encoder, profile: Profile) -> None:
    log, renamed = CallLog(profile.call_ids), NOT_RENAMED
    for index, segment in enumerate(request.context.segments):
        match segment.content:
            case SystemText() | ToolList() | Document():
                continue  # the front
            case AssistantMessage() as message:
                sheet.ends.append(len(sheet.pieces))  # what it was asked with
                renamed = log.turn(message)
                sheet.add(encoder.history(segment, message, index, renamed))
            case UserMessage() | ToolMessage() | ToolsMessage() as message:
                sheet.add(encoder.history(segment, message, index, renamed))
            case _:
                assert_never(segment.content)


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
