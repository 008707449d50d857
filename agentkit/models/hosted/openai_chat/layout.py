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
from dataclasses import dataclass

from agentkit.blocks import AssistantMessage, ToolMessage, UserMessage
from agentkit.caching.plan.draft import SharedBy, SharedPrefix
from agentkit.caching.plan.expect import expected_reads
from agentkit.caching.request import CacheRequest, Identity, Message, OpenAiOptions
from agentkit.context import Segment, SystemPart, Tier
from agentkit.models.base import ModelRequest, Reuse, ToolName
from agentkit.models.hosted.openai_chat.encode import Encoder
from agentkit.models.hosted.openai_chat.options import ChatOptions
from agentkit.models.hosted.openai_chat.pieces import Piece, compact_json
from agentkit.models.hosted.openai_chat.profiles import Profile
from agentkit.models.hosted.wire import Layout


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
    segments = request.context.segments
    front = [
        (index, segment)
        for index, segment in enumerate(segments)
        if segment.tier in (Tier.SYSTEM, Tier.KNOWLEDGE)
    ]
    tools = encoder.tools(request.toolset, _index_of_tools(segments))
    system = encoder.front(front, one_message=one_system_message)
    pieces = [*tools, *system]
    messages: list[Message] = []
    ends: list[int] = []
    for index, segment in enumerate(segments):
        content = segment.content
        if not isinstance(content, UserMessage | AssistantMessage | ToolMessage):
            continue
        if isinstance(content, AssistantMessage) and pieces:
            ends.append(len(pieces))  # what an earlier request asked with
        encoded = encoder.history(segment, content, index)
        pieces += encoded.pieces
        messages += encoded.messages
    n_stable = len(pieces)
    text = volatile_text(request, profile)
    if text:
        encoded = encoder.volatile(text)
        pieces += encoded.pieces
        messages += encoded.messages
    has_rules = bool(front) and front[0][1].part is SystemPart.RULES
    team = len(tools) + (1 if has_rules else 0)
    return ChatLayout(
        blocks=tuple(pieces),
        cache_request=CacheRequest(
            identity=_identity(request, model, profile, options),
            tools=tuple(piece.block for piece in tools),
            system=tuple(piece.block for piece in system),
            messages=tuple(messages),
            terms=options.terms,
            stream=True,
            openai=OpenAiOptions(api="chat", retention=options.retention),
        ),
        shared=_shared(
            request.reuse, team=team, agent=len(tools) + len(system), runs=[*ends, n_stable]
        ),
        n_volatile=len(pieces) - n_stable,
        n_tools=len(tools),
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


def _shared(
    reuse: Reuse, *, team: int, agent: int, runs: Sequence[int]
) -> tuple[SharedPrefix, ...]:
    """The prefixes that others send, too. Of equal ones, that of the most senders."""
    ends: dict[int, SharedBy] = {}
    for end, by in (
        (team, SharedBy.ORGANIZATION),
        (agent, SharedBy.AGENT),
        *((end, SharedBy.RUN) for end in runs),
    ):
        if end:
            ends.setdefault(end, by)
    return tuple(
        SharedPrefix(end=end, by=by, reads=expected_reads(by, reuse)) for end, by in ends.items()
    )


def _identity(
    request: ModelRequest, model: str, profile: Profile, options: ChatOptions
) -> Identity:
    schema = request.output_schema if profile.json_schema else None
    return Identity(
        model=model,
        service_tier=options.service_tier,
        tool_choice=_choice(request),
        parallel_tools=options.parallel_tool_calls is not False,
        effort=options.reasoning_effort,
        verbosity=options.verbosity,
        output_format=None
        if schema is None
        else hashlib.sha256(compact_json(schema)).hexdigest()[:16],
    )


def _choice(request: ModelRequest) -> str:
    match request.tool_choice:
        case ToolName(name):
            return name
        case "required":
            return "any"
        case choice:
            return choice
