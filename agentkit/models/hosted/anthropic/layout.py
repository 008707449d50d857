"""A request in the order of Anthropic's cache: tools, system, messages.

    tools     the team's tools, then the server's   } ends what the organisation shares
    system    rules                                 }
              role, examples, documents             ends what an agent's runs share
    messages  the history, one message on the wire for each of ours
              a user message with text for this request only

Each message of the context opens a message of its own, so that nothing is ever added to one that
was sent; the API joins neighbours of one role by itself. Text for one request is a user message and
no system message: it may hold what others wrote, and every model takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentkit.blocks import AssistantMessage, ToolMessage, UserMessage, VendorItem, printable
from agentkit.caching.plan.draft import SharedBy, SharedPrefix
from agentkit.caching.plan.expect import expected_reads
from agentkit.caching.policy import BlockKind
from agentkit.caching.request import CacheRequest, Message, Role
from agentkit.context import Document, Segment, SystemPart, SystemText, Tier
from agentkit.errors import RequestRefused
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.anthropic.calls import NO_CALLS, CallLog
from agentkit.models.hosted.anthropic.dialect import Dialect
from agentkit.models.hosted.anthropic.front import (
    server_tool_piece,
    system_pieces,
    text_piece,
    tool_piece,
)
from agentkit.models.hosted.anthropic.identity import identity_of, terms_of
from agentkit.models.hosted.anthropic.messages import message_pieces
from agentkit.models.hosted.anthropic.options import AnthropicOptions
from agentkit.models.hosted.anthropic.output import native_schema, schema_note
from agentkit.models.hosted.anthropic.pieces import Piece, PieceCache
from agentkit.models.hosted.anthropic.vendor import CONTAINER, MESSAGE_ID, fields_of
from agentkit.models.hosted.wire import Layout, WireBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicLayout(Layout):
    """What the Messages API gets, without marks and settings."""

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
) -> AnthropicLayout:
    """Return the request's pieces in cache order.

    Raises:
        RequestRefused: it has no message, or a file that Claude does not read.
    """
    segments = request.context.segments
    native = _native(request, options)
    tools = _tools(request, segments, options, cache)
    system, n_rules = _system(segments, cache)
    history = _History(dialect, cache, first=len(tools) + len(system))
    for index, segment in enumerate(segments):
        if segment.tier is Tier.HISTORY:
            history.add(index, segment)
    if not history.messages:
        raise RequestRefused(f"{dialect.label} needs a message to answer; append a UserMessage")
    n_stable = history.end
    answers_code = history.answers_code
    n_volatile = history.add_volatile(_volatile(request, has_native=native is not None))
    return AnthropicLayout(
        blocks=(*tools, *system, *history.blocks),
        cache_request=CacheRequest(
            identity=identity_of(request, model, options, native),
            tools=tuple(wire.block for wire in tools),
            system=tuple(wire.block for wire in system),
            messages=tuple(history.messages),
            terms=terms_of(options),
            stream=True,
        ),
        shared=_shared(
            request,
            organization=len(tools) + n_rules,
            agent=len(tools) + len(system),
            run=(*history.ends, n_stable),
        ),
        n_volatile=n_volatile,
        output_schema=native,
        previous_message_id=(
            _remembered(MESSAGE_ID, segments, dialect) if options.diagnostics else None
        ),
        container=(_remembered(CONTAINER, segments, dialect) if answers_code else None),
    )


class _History:
    """The messages, as they come."""

    def __init__(self, dialect: Dialect, cache: PieceCache, *, first: int) -> None:
        self.blocks: list[WireBlock] = []
        self.messages: list[Message] = []
        self.ends: list[int] = []
        """Where earlier requests of this history ended: before each of its turns."""
        self._dialect = dialect
        self._cache = cache
        self._first = first
        self._log = CallLog(dialect)
        self._calls = NO_CALLS

    @property
    def end(self) -> int:
        return self._first + len(self.blocks)

    @property
    def answers_code(self) -> bool:
        """Whether the last message has results for code in the sandbox."""
        return any(
            block.kind is BlockKind.PROGRAMMATIC_TOOL_RESULT for block in self.messages[-1].blocks
        )

    def add(self, index: int, segment: Segment) -> None:
        content = segment.content
        assert isinstance(content, UserMessage | AssistantMessage | ToolMessage)
        if isinstance(content, AssistantMessage):
            self.ends.append(self.end)
            self._calls = self._log.turn(content)
        calls = NO_CALLS if isinstance(content, UserMessage) else self._calls
        pieces = self._cache.get(
            (segment.digest, calls), lambda: message_pieces(content, self._dialect, calls)
        )
        role = Role.ASSISTANT if isinstance(content, AssistantMessage) else Role.USER
        self._append(role, pieces, index)

    def add_volatile(self, texts: list[str]) -> int:
        """Add texts for this request only; returns how many blocks they are."""
        if self.answers_code:
            return 0  # the API takes no text behind the results of calls that code made
        self._append(Role.USER, tuple(map(text_piece, texts)), None)
        return len(texts)

    def _append(self, role: Role, pieces: tuple[Piece, ...], segment: int | None) -> None:
        if pieces:
            self.messages.append(Message(role, tuple(each.block for each in pieces)))
            self.blocks += _wired(pieces, segment)


def _tools(
    request: ModelRequest,
    segments: tuple[Segment, ...],
    options: AnthropicOptions,
    cache: PieceCache,
) -> list[WireBlock]:
    at = next((i for i, segment in enumerate(segments) if segment.tier is Tier.TOOLS), None)
    own = cache.get(request.toolset.digest, lambda: tuple(map(tool_piece, request.toolset.specs)))
    server = tuple(map(server_tool_piece, options.server_tools))
    return [*_wired(own, at), *_wired(server, None)]


def _system(segments: tuple[Segment, ...], cache: PieceCache) -> tuple[list[WireBlock], int]:
    """The system blocks, and how many of them are the organisation's rules."""
    blocks: list[WireBlock] = []
    n_rules = 0
    for index, segment in enumerate(segments):
        content = segment.content
        if not isinstance(content, SystemText | Document):
            continue
        pieces = cache.get(segment.digest, lambda content=content: system_pieces(content))  # type: ignore[misc]
        blocks += _wired(pieces, index)
        if segment.part is SystemPart.RULES:
            n_rules = len(blocks)
    return blocks, n_rules


def _wired(pieces: tuple[Piece, ...], segment: int | None) -> list[WireBlock]:
    return [WireBlock(block=each.block, data=each.data, segment=segment) for each in pieces]


def _native(request: ModelRequest, options: AnthropicOptions) -> Mapping[str, object] | None:
    if request.output_schema is None or options.output == "prompt":
        return None
    return native_schema(request.output_schema)


def _volatile(request: ModelRequest, *, has_native: bool) -> list[str]:
    texts = []
    if request.output_schema is not None and not has_native:
        texts.append(schema_note(request.output_schema))
    if (request.context.volatile or "").strip():
        texts.append(printable(request.context.volatile or ""))
    return texts


def _shared(
    request: ModelRequest, *, organization: int, agent: int, run: tuple[int, ...]
) -> tuple[SharedPrefix, ...]:
    found: list[SharedPrefix] = []
    ends = [(organization, SharedBy.ORGANIZATION), (agent, SharedBy.AGENT)]
    ends += [(end, SharedBy.RUN) for end in run]
    for end, by in ends:
        if end > (found[-1].end if found else 0):
            found.append(SharedPrefix(end=end, by=by, reads=expected_reads(by, request.reuse)))
    return tuple(found)


def _remembered(name: str, segments: tuple[Segment, ...], dialect: Dialect) -> str | None:
    """What the last turn remembers of its response, where this model gave it."""
    for segment in reversed(segments):
        content = segment.content
        if isinstance(content, AssistantMessage):
            for block in reversed(content.blocks):
                if isinstance(block, VendorItem) and block.source == dialect.label:
                    found = fields_of(block).get(name)
                    if isinstance(found, str):
                        return found
            return None
    return None
