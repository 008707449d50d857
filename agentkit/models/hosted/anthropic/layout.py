"""A request in the order of Anthropic's cache: tools, system, messages.

    tools     the team's tools, then the server's   } ends what the organisation shares
    system    rules                                 }
              role, examples, documents             ends what an agent's runs share
    messages  the history, one message on the wire for each of ours
              a user message with text for this request only
              tools that came since the model's last turn

Each message of the context opens a message of its own, so that nothing is ever added to one that
was sent; the API joins neighbours of one role by itself. Text for one request is a user message and
no system message: it may hold what others wrote, and every model takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentkit.answer_form import as_object
from agentkit.blocks import AssistantMessage, VendorItem, printable
from agentkit.caching.request import Block, CacheRequest
from agentkit.context import Context, Document, Segment, SystemPart, SystemText, Tier
from agentkit.errors import RequestRefused
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.anthropic.dialect import Dialect
from agentkit.models.hosted.anthropic.front import system_pieces
from agentkit.models.hosted.anthropic.history import History
from agentkit.models.hosted.anthropic.identity import betas_of, identity_of, terms_of
from agentkit.models.hosted.anthropic.options import AnthropicOptions
from agentkit.models.hosted.anthropic.output import native_schema, schema_note
from agentkit.models.hosted.anthropic.pieces import PieceCache
from agentkit.models.hosted.anthropic.tool_list import tool_blocks, wired
from agentkit.models.hosted.anthropic.vendor import CONTAINER, MESSAGE_ID
from agentkit.models.hosted.begun import Begun
from agentkit.models.hosted.later import later_by_segment
from agentkit.models.hosted.shared import shared_prefixes
from agentkit.models.hosted.wire import Layout, WireBlock
from agentkit.models.hosted.wire_json import object_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicLayout(Layout):
    """What the Messages API gets, without marks and settings."""

    texts: tuple[bytes, ...]
    """Each message on the wire, without marks; aligned with `cache_request.messages`."""
    starts: tuple[int, ...]
    """Index of the first block of each message."""
    output_schema: Mapping[str, object] | None = None
    """The schema that the API enforces, in the form it takes."""
    previous_message_id: str | None = None
    """The response that the cache diagnostics compare with."""
    container: str | None = None
    """The sandbox whose code waits for the results at the end."""


def lay_out(
    request: ModelRequest,
    *,
    model: str,
    dialect: Dialect,
    options: AnthropicOptions,
    cache: PieceCache,
    begun: Begun[Laid],
) -> AnthropicLayout:
    """Return the request's pieces in cache order.

    What `begun` knows of an earlier request of the run is not laid out again.

    Raises:
        RequestRefused: it has no message, or a file that Claude does not read.
    """
    native = _native(request, options)
    laid, behind = begun.longest(request.context)
    listed = later_by_segment(request.context) if dialect.later_tools is None else {}
    key = (request.toolset.digest, *(text for texts in listed.values() for text in texts))
    if laid is None or laid.tools_key != key:
        behind = request.context.segments
        laid = _front(request, key, listed, dialect, options, cache)
    history = laid.history.copy()
    for index, segment in enumerate(behind, len(request.context) - len(behind)):
        if segment.tier is Tier.HISTORY and index not in listed:
            history.add(index, segment)
    if not history.messages:
        raise RequestRefused(f"{dialect.label} needs a message to answer; append a UserMessage")
    begun.keep(
        request.context,
        Laid(
            tools_key=laid.tools_key,
            front=laid.front,
            tools=laid.tools,
            system=laid.system,
            n_rules=laid.n_rules,
            history=history,
        ),
    )
    answers_code = history.answers_code
    texts = _volatile(request, has_native=native is not None)
    if texts or history.has_waiting:
        history = history.copy()
    # Tools end the list, as the API wants it: behind text for this request only they are not
    # stable, and read from the cache from the next request on.
    if history.has_waiting and not texts:
        history.show_waiting()
    ends = (*history.ends[-_ENDS:], history.end)
    n_volatile = 0
    if texts:
        n_volatile = history.add_volatile(texts) + history.show_waiting()
    return AnthropicLayout(
        blocks=(*laid.front, *history.blocks),
        cache_request=CacheRequest(
            identity=identity_of(
                request, model, options, native, betas_of(request, options, dialect)
            ),
            tools=laid.tools,
            system=laid.system,
            messages=history.messages,
            terms=terms_of(options),
            stream=True,
        ),
        shared=shared_prefixes(
            request.reuse,
            # What begins with tools that only this conversation has is nobody else's.
            organization=0 if listed else len(laid.tools) + laid.n_rules,
            agent=0 if listed else len(laid.front),
            run=ends,
        ),
        n_volatile=n_volatile,
        texts=tuple(history.texts),
        starts=tuple(history.starts),
        output_schema=native,
        previous_message_id=(
            _remembered(MESSAGE_ID, request.context, dialect) if options.diagnostics else None
        ),
        container=(_remembered(CONTAINER, request.context, dialect) if answers_code else None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """How far a context is laid out, for those that extend it."""

    tools_key: tuple[str, ...]
    """Names the tools in the front."""
    front: tuple[WireBlock, ...]
    tools: tuple[Block, ...]
    system: tuple[Block, ...]
    n_rules: int
    """System blocks that are the organisation's rules."""
    history: History


_ENDS = 20
"""Earlier ends of a run that are named: more than a request can have marks, or a mark positions."""


def _front(
    request: ModelRequest,
    tools_key: tuple[str, ...],
    listed: Mapping[int, tuple[str, ...]],
    dialect: Dialect,
    options: AnthropicOptions,
    cache: PieceCache,
) -> Laid:
    segments = request.context.segments
    tools = tool_blocks(request, listed, options, cache)
    system, n_rules = _system(segments, cache)
    return Laid(
        tools_key=tools_key,
        front=(*tools, *system),
        tools=tuple(wire.block for wire in tools),
        system=tuple(wire.block for wire in system),
        n_rules=n_rules,
        history=History(dialect, cache, first=len(tools) + len(system)),
    )


def _system(segments: tuple[Segment, ...], cache: PieceCache) -> tuple[list[WireBlock], int]:
    """The system blocks, and how many of them are the organisation's rules."""
    blocks: list[WireBlock] = []
    n_rules = 0
    for index, segment in enumerate(segments):
        content = segment.content
        if not isinstance(content, SystemText | Document):
            continue
        pieces = cache.get(segment.digest, lambda content=content: system_pieces(content))  # type: ignore[misc]
        blocks += wired(pieces, index)
        if segment.part is SystemPart.RULES:
            n_rules = len(blocks)
    return blocks, n_rules


def _native(request: ModelRequest, options: AnthropicOptions) -> Mapping[str, object] | None:
    if request.output_schema is None or options.output == "prompt":
        return None
    return native_schema(as_object(request.output_schema))


def _volatile(request: ModelRequest, *, has_native: bool) -> list[str]:
    texts = []
    if request.output_schema is not None and not has_native:
        texts.append(schema_note(request.output_schema))
    if (request.context.volatile or "").strip():
        texts.append(printable(request.context.volatile or ""))
    return texts


def _remembered(name: str, context: Context, dialect: Dialect) -> str | None:
    """What the last turn remembers of its response, where this model gave it."""
    for segment in reversed(context):
        content = segment.content
        if isinstance(content, AssistantMessage):
            for block in reversed(content.blocks):
                if isinstance(block, VendorItem) and block.source == dialect.label:
                    found = object_of(block).get(name)
                    if isinstance(found, str):
                        return found
            return None
    return None
