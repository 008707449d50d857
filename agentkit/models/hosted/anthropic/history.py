"""The messages of a request, laid out one after the other: a longer history goes on from a copy."""

from __future__ import annotations

from agentkit.blocks import AssistantMessage, ToolMessage, ToolsMessage, UserMessage
from agentkit.caching.policy import BlockKind
from agentkit.caching.request import Message, Messages, Role
from agentkit.context import Segment
from agentkit.models.hosted.anthropic.calls import NO_CALLS, CallLog
from agentkit.models.hosted.anthropic.dialect import Dialect
from agentkit.models.hosted.anthropic.front import text_piece
from agentkit.models.hosted.anthropic.messages import message_pieces
from agentkit.models.hosted.anthropic.pieces import Piece, PieceCache, message_data
from agentkit.models.hosted.anthropic.tool_list import wired
from agentkit.models.hosted.growing import GrowingMessages
from agentkit.models.hosted.wire import WireBlock


class History:
    """The messages, as they come."""

    def __init__(self, dialect: Dialect, cache: PieceCache, *, first: int) -> None:
        """`first`: how many blocks lie before the messages."""
        self.blocks: list[WireBlock] = []
        self.texts: list[bytes] = []
        """Each message on the wire, without marks."""
        self.starts: list[int] = []
        """Index of the first block of each message."""
        self.ends: list[int] = []
        """Where earlier requests of this history ended: before each of its turns."""
        self._messages = GrowingMessages()
        self._dialect = dialect
        self._cache = cache
        self._first = first
        self._waiting: list[tuple[tuple[Piece, ...], int]] = []
        """Tools that came and are not shown yet, each with the segment that it is of."""
        self._log = CallLog(dialect)
        self._calls = NO_CALLS

    def copy(self) -> History:
        """Return a history that can go on without changing this one."""
        copied = History(self._dialect, self._cache, first=self._first)
        copied.blocks = list(self.blocks)
        copied._messages = self._messages.copy()
        copied.texts = list(self.texts)
        copied.starts = list(self.starts)
        copied.ends = list(self.ends)
        copied._waiting = list(self._waiting)
        copied._log = self._log.copy()
        copied._calls = self._calls
        return copied

    @property
    def messages(self) -> Messages:
        """All of them."""
        return self._messages.all()

    @property
    def end(self) -> int:
        """Index behind the last block."""
        return self._first + len(self.blocks)

    @property
    def has_waiting(self) -> bool:
        """Whether tools came that are not shown yet."""
        return bool(self._waiting)

    @property
    def answers_code(self) -> bool:
        """Whether the last message has results for code in the sandbox."""
        return any(
            block.kind is BlockKind.PROGRAMMATIC_TOOL_RESULT for block in self.messages[-1].blocks
        )

    def add(self, index: int, segment: Segment) -> None:
        """Add a segment of the context, which has this index there."""
        content = segment.content
        assert isinstance(content, UserMessage | AssistantMessage | ToolMessage | ToolsMessage)
        if isinstance(content, AssistantMessage):
            self._end_request()
            self._calls = self._log.turn(content)
        calls = self._calls if isinstance(content, AssistantMessage | ToolMessage) else NO_CALLS
        pieces = self._cache.get(
            (segment.digest, calls), lambda: message_pieces(content, self._dialect, calls)
        )
        if isinstance(content, ToolsMessage):
            self._waiting.append((pieces, index))
            return
        role = Role.ASSISTANT if isinstance(content, AssistantMessage) else Role.USER
        self._append(role, pieces, index)

    def add_volatile(self, texts: list[str]) -> int:
        """Add texts for this request only; returns how many blocks they are."""
        if self.answers_code:
            return 0  # the API takes no text behind the results of calls that code made
        self._append(Role.USER, tuple(map(text_piece, texts)), None)
        return len(texts)

    def show_waiting(self) -> int:
        """Show the tools that came, if they may stand here; returns how many blocks they are.

        The API takes them behind a user turn, in a system message that ends the list or precedes a
        turn of the model. Behind results for code in the sandbox, whose turn is paused, they wait
        on.
        """
        messages = self.messages
        if not messages or messages[-1].role is not Role.USER or self.answers_code:
            return 0
        n_before = len(self.blocks)
        for pieces, index in self._waiting:
            self._append(Role.DEVELOPER, pieces, index)
        self._waiting = []
        return len(self.blocks) - n_before

    def _end_request(self) -> None:
        # With volatile text, the request that the model answered ended before the tools.
        self.ends.append(self.end)
        if self._waiting and self.show_waiting():
            self.ends.append(self.end)

    def _append(self, role: Role, pieces: tuple[Piece, ...], segment: int | None) -> None:
        if not pieces:
            return
        self.starts.append(self.end)
        self._messages.add((Message(role, tuple(each.block for each in pieces)),))
        self.texts.append(message_data(role, (each.data for each in pieces)))
        self.blocks += wired(pieces, segment)
