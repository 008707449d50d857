"""A request as pieces in cache order: tools, developer messages, history, volatile text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from agentkit.blocks import AssistantMessage
from agentkit.caching.plan.draft import SharedPrefix
from agentkit.caching.policy import Terms
from agentkit.caching.request import (
    Block,
    CacheRequest,
    Identity,
    Message,
    OpenAiOptions,
    Role,
)
from agentkit.context import Segment, SystemPart, SystemText, Tier
from agentkit.models.base import ModelRequest, Reuse
from agentkit.models.hosted.begun import Begun
from agentkit.models.hosted.call_ids import NOT_RENAMED, CallLog, Renamed
from agentkit.models.hosted.growing import GrowingMessages
from agentkit.models.hosted.later import later_by_segment
from agentkit.models.hosted.openai_responses.calls import CALL_IDS
from agentkit.models.hosted.openai_responses.encode import Encoder
from agentkit.models.hosted.openai_responses.pieces import Entries, Entry, Piece
from agentkit.models.hosted.shared import shared_prefixes
from agentkit.models.hosted.wire import Layout, WireBlock
from agentkit.toolset.later import later_specs


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesLayout(Layout):
    """A `Layout` that knows how its pieces are joined."""

    pieces: tuple[Piece, ...]
    """Aligned with `blocks`."""
    texts: tuple[bytes, ...]
    """The items of each message on the wire, developer messages too, without marks."""
    starts: tuple[int, ...]
    """Index of the first piece of each."""

    @property
    def n_tools(self) -> int:
        """How many of the pieces are tools."""
        return len(self.cache_request.tools)


def lay_out(
    request: ModelRequest,
    encoder: Encoder,
    store: Entries,
    identity: Identity,
    terms: Terms,
    begun: Begun[Sheet],
) -> ResponsesLayout:
    """Return the request's pieces. Segments that the store has are not encoded again.

    What `begun` knows of an earlier request of the run is not laid out again.
    """
    known, behind = begun.longest(request.context)
    listed = {} if encoder.adds_tools else later_by_segment(request.context)
    key = (request.toolset.digest, *(text for texts in listed.values() for text in texts))
    is_history = not behind or behind[0].tier is Tier.HISTORY  # what stands in front names places
    if known is None or known.tools_key != key or not is_history:
        behind = request.context.segments
        sheet = _front(request, key, listed, encoder, store)
    else:
        sheet = known.copy()
    for index, segment in enumerate(behind, len(request.context) - len(behind)):
        sheet.add_segment(segment, index, encoder, store)
    begun.keep(request.context, sheet)
    shared = sheet.shared(request.reuse)
    n_stable = len(sheet.blocks)
    if request.context.volatile:
        sheet = sheet.copy()
        sheet.add(encoder.volatile(request.context.volatile), None)
    return ResponsesLayout(
        blocks=tuple(sheet.blocks),
        pieces=tuple(sheet.pieces),
        texts=tuple(sheet.texts),
        starts=tuple(sheet.starts),
        cache_request=CacheRequest(
            identity=identity,
            tools=tuple(sheet.tools),
            system=tuple(sheet.system),
            messages=sheet.messages.all(),
            terms=terms,
            stream=True,
            openai=OpenAiOptions(api="responses"),
        ),
        shared=shared,
        n_volatile=len(sheet.blocks) - n_stable,
    )


def _front(
    request: ModelRequest,
    key: tuple[str, ...],
    listed: Mapping[int, tuple[str, ...]],
    encoder: Encoder,
    store: Entries,
) -> Sheet:
    """Return a sheet with the tools; `listed` are those that came later, which are the last."""
    sheet = Sheet(tools_key=key, is_own=bool(listed))
    (tools,) = store.get(
        f"tools {request.toolset.digest}",
        lambda: (Entry(Role.DEVELOPER, tuple(map(encoder.tool, request.toolset.specs))),),
    )
    segments = enumerate(request.context.front.segments)
    place = next((index for index, each in segments if each.tier is Tier.TOOLS), None)
    sheet.add_tools(tools, place)
    for index, texts in listed.items():
        later = tuple(map(encoder.tool, later_specs(texts)))
        sheet.add_tools(Entry(Role.DEVELOPER, later), index)
    return sheet


_ENDS = 20
"""Earlier ends of a run that are named: more than a request can have marks."""


@dataclass(slots=True, kw_only=True)
class Sheet:
    """A layout while it is written; what was kept goes on as a copy."""

    tools_key: tuple[str, ...]
    """Names the tools in front."""
    is_own: bool = False
    """Whether some of them are this conversation's alone."""
    blocks: list[WireBlock] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    tools: list[Block] = field(default_factory=list)
    system: list[Block] = field(default_factory=list)
    messages: GrowingMessages = field(default_factory=GrowingMessages)
    ends: list[int] = field(default_factory=list)
    """Where earlier requests ended: before each reply."""
    organization_end: int = 0
    calls: CallLog = field(default_factory=lambda: CallLog(CALL_IDS))
    renamed: Renamed = NOT_RENAMED

    def copy(self) -> Sheet:
        """Return a sheet that can go on without changing this one."""
        copied = replace(self, calls=self.calls.copy(), messages=self.messages.copy())
        for name in ("blocks", "pieces", "texts", "starts", "tools", "system", "ends"):
            setattr(copied, name, list(getattr(self, name)))
        return copied

    def add_segment(self, segment: Segment, index: int, encoder: Encoder, store: Entries) -> None:
        """Add a segment of the context, which has this index there."""
        content = segment.content
        if isinstance(content, AssistantMessage):
            self.ends.append(len(self.blocks))
            self.renamed = self.calls.turn(content)
        renamed = self.renamed
        key = f"{segment.digest} {renamed}" if renamed else segment.digest
        for entry in store.get(key, partial(encoder.segment, segment, renamed)):
            self.add(entry, index)
        if isinstance(content, SystemText) and content.part is SystemPart.RULES:
            self.organization_end = len(self.blocks)

    def add_tools(self, entry: Entry, segment: int | None) -> None:
        """Add the tools, which are the first on the wire."""
        self._write(entry, segment)
        self.tools.extend(item.block for item in entry.pieces)
        self.organization_end = len(self.blocks)

    def add(self, entry: Entry, segment: int | None) -> None:
        """Add a message."""
        if entry.pieces:
            self.starts.append(len(self.blocks))
            self.texts.append(entry.text)
        self._write(entry, segment)
        blocks = tuple(item.block for item in entry.pieces)
        if entry.role is Role.DEVELOPER and not self.messages:
            self.system.extend(blocks)
        else:
            self.messages.add((Message(entry.role, blocks),))

    def shared(self, reuse: Reuse) -> tuple[SharedPrefix, ...]:
        """Return the prefixes that other requests have, too."""
        return shared_prefixes(
            reuse,
            # What begins with tools that only this conversation has is nobody else's.
            organization=0 if self.is_own else self.organization_end,
            agent=0 if self.is_own else len(self.tools) + len(self.system),
            run=(*self.ends[-_ENDS:], len(self.blocks)),
        )

    def _write(self, entry: Entry, segment: int | None) -> None:
        for item in entry.pieces:
            self.blocks.append(WireBlock(block=item.block, data=item.data, segment=segment))
            self.pieces.append(item)
