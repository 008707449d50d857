"""A request as pieces in cache order: tools, developer messages, history, volatile text."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from agentkit.blocks import AssistantMessage
from agentkit.caching.plan.draft import SharedBy, SharedPrefix
from agentkit.caching.plan.expect import expected_reads
from agentkit.caching.policy import Terms
from agentkit.caching.request import (
    Block,
    CacheRequest,
    Identity,
    Message,
    OpenAiOptions,
    Role,
)
from agentkit.context import SystemPart, SystemText, Tier
from agentkit.models.base import ModelRequest, Reuse
from agentkit.models.hosted.openai_responses.calls import NOT_RENAMED, CallLog
from agentkit.models.hosted.openai_responses.encode import Encoder
from agentkit.models.hosted.openai_responses.pieces import Entry, Piece, PieceStore
from agentkit.models.hosted.wire import Layout, WireBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesLayout(Layout):
    """A `Layout` that knows how its pieces are joined."""

    pieces: tuple[Piece, ...]
    """Aligned with `blocks`."""

    @property
    def n_tools(self) -> int:
        """How many of the pieces are tools."""
        return len(self.cache_request.tools)


def lay_out(
    request: ModelRequest, encoder: Encoder, store: PieceStore, identity: Identity, terms: Terms
) -> ResponsesLayout:
    """Return the request's pieces. Segments that the store has are not encoded again."""
    sheet = _Sheet()
    tools = store.get(
        f"tools {request.toolset.digest}",
        lambda: (Entry(Role.DEVELOPER, tuple(map(encoder.tool, request.toolset.specs))),),
    )
    for index, segment in enumerate(request.context.segments):
        if segment.tier is Tier.TOOLS:
            sheet.tools_segment = index
    sheet.add_tools(tools[0])
    calls, renamed = CallLog(), NOT_RENAMED
    for index, segment in enumerate(request.context.segments):
        content = segment.content
        if isinstance(content, AssistantMessage):
            sheet.note_end()
            renamed = calls.turn(content)
        key = f"{segment.digest} {renamed}" if renamed else segment.digest
        for entry in store.get(key, partial(encoder.segment, segment, renamed)):
            sheet.add(entry, index)
        if isinstance(content, SystemText) and content.part is SystemPart.RULES:
            sheet.organization_end = len(sheet.blocks)
    shared = sheet.shared(request.reuse)
    n_stable = len(sheet.blocks)
    if request.context.volatile:
        sheet.add(encoder.volatile(request.context.volatile), None)
    return ResponsesLayout(
        blocks=tuple(sheet.blocks),
        pieces=tuple(sheet.pieces),
        cache_request=CacheRequest(
            identity=identity,
            tools=tuple(sheet.tools),
            system=tuple(sheet.system),
            messages=tuple(sheet.messages),
            terms=terms,
            stream=True,
            openai=OpenAiOptions(api="responses"),
        ),
        shared=shared,
        n_volatile=len(sheet.blocks) - n_stable,
    )


@dataclass(slots=True)
class _Sheet:
    """A layout while it is written."""

    blocks: list[WireBlock] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    tools: list[Block] = field(default_factory=list)
    system: list[Block] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """Where earlier requests ended: before each reply."""
    tools_segment: int | None = None
    organization_end: int = 0

    def add_tools(self, entry: Entry) -> None:
        self._write(entry, self.tools_segment)
        self.tools.extend(item.block for item in entry.pieces)
        self.organization_end = len(self.blocks)

    def add(self, entry: Entry, segment: int | None) -> None:
        self._write(entry, segment)
        blocks = tuple(item.block for item in entry.pieces)
        if entry.role is Role.DEVELOPER and not self.messages:
            self.system.extend(blocks)
        else:
            self.messages.append(Message(entry.role, blocks))

    def note_end(self) -> None:
        self.ends.append(len(self.blocks))

    def shared(self, reuse: Reuse) -> tuple[SharedPrefix, ...]:
        """Return the ends that other requests have too; where two fall together, the wider one."""
        front = len(self.tools) + len(self.system)
        found: dict[int, SharedPrefix] = {}
        for end, by in (
            (self.organization_end, SharedBy.ORGANIZATION),
            (front, SharedBy.AGENT),
            *((end, SharedBy.RUN) for end in (*self.ends, len(self.blocks))),
        ):
            if end:
                prefix = SharedPrefix(end=end, by=by, reads=expected_reads(by, reuse))
                found.setdefault(end, prefix)
        return tuple(found[end] for end in sorted(found))

    def _write(self, entry: Entry, segment: int | None) -> None:
        for item in entry.pieces:
            self.blocks.append(WireBlock(block=item.block, data=item.data, segment=segment))
            self.pieces.append(item)
