"""The append-only context and its digest chain."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from agentkit.blocks import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolsMessage,
    UserMessage,
)
from agentkit.context.canonical import chain_digest, digest
from agentkit.context.segment import Content, Document, Segment, tool_names
from agentkit.context.tier import Tier, is_single, rank
from agentkit.errors import ContextError, ContextFrozen


class Context:
    """What a model is told: an immutable chain of segments that only ever grows at its end.

    A context is a value: `append` leaves it as it is and returns a longer one that shares every
    segment with it. So a context may be kept, forked and continued many times, from any thread.
    `data` of a longer context starts with the `data` of the shorter one, always.

    There is no way to edit, remove or reorder; attempts raise `ContextFrozen`.
    """

    __slots__ = ("_head", "_volatile")

    _head: _Node | None
    _volatile: str | None

    def __init__(self, *contents: Content) -> None:
        context = _of(None, None).append(*contents)
        object.__setattr__(self, "_head", context._head)
        object.__setattr__(self, "_volatile", None)

    def append(self, *contents: Content) -> Context:
        """Return this context with more segments at its end and without its volatile text.

        Raises:
            ContextFrozen: the content belongs before what the context already holds.
            ContextError: a tool message does not answer exactly the calls before it, or a tool is
                added that the context shows already.
        """
        head = self._head
        for content in contents:
            segment = Segment(content)
            _check_order(head, segment)
            _check_calls(head, content)
            _check_tools(head, content)
            head = _Node.after(head, segment)
        return _of(head, None)

    def fork(self) -> Context:
        """Return a context with the same segments, shared and not copied, and no volatile text."""
        return _of(self._head, None)

    def with_volatile(self, text: str | None) -> Context:
        """Return this context with text for one request: rendered last, no part of the chain.

        Appending drops it. None removes it.
        """
        return _of(self._head, text or None)

    @property
    def volatile(self) -> str | None:
        """The text for the next request only, see `with_volatile`."""
        return self._volatile

    @property
    def digest(self) -> str:
        """The digest of the whole chain. Equal digests: equal segments in equal order."""
        return _EMPTY_DIGEST if self._head is None else self._head.chain

    @property
    def chain(self) -> tuple[str, ...]:
        """The chain digest after each segment, oldest first."""
        return tuple(reversed([node.chain for node in _walk(self._head)]))

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments, oldest first. Volatile text is not among them."""
        return tuple(reversed([node.segment for node in _walk(self._head)]))

    @property
    def front(self) -> Context:
        """The stable part: everything before the history."""
        for node in _walk(self._head):
            if node.segment.tier is not Tier.HISTORY:
                return _of(node, None)
        return _of(None, None)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history, oldest first."""
        contents = (segment.content for segment in self.segments)
        return tuple(
            content
            for content in contents
            if isinstance(content, UserMessage | AssistantMessage | ToolMessage | ToolsMessage)
        )

    @property
    def later_tools(self) -> tuple[str, ...]:
        """The tools that came behind the front, as `ToolsMessage.added` has them, oldest first."""
        return () if self._head is None else self._head.later_tools

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last turn without results; while there are any, only results may follow."""
        return _open_calls(self._head)

    def starts_with(self, other: Context) -> bool:
        """Return whether this context extends `other` (or equals it)."""
        node = self._head
        while node is not None and node.depth > len(other):
            node = node.parent
        return (node.chain if node else _EMPTY_DIGEST) == other.digest

    def common_length(self, other: Context) -> int:
        """Return how many leading segments are equal: where the two contexts part."""
        first, second = self._head, other._head
        while first is not None and second is not None:
            if first.depth > second.depth:
                first = first.parent
            elif second.depth > first.depth:
                second = second.parent
            elif first.chain != second.chain:
                first, second = first.parent, second.parent
            else:
                return first.depth
        return 0

    def split_at(self, known: Container[str]) -> tuple[Context, tuple[Segment, ...]]:
        """Return the longest beginning whose digest is in `known`, and the segments behind it."""
        behind: list[Segment] = []
        node = self._head
        while node is not None and node.chain not in known:
            behind.append(node.segment)
            node = node.parent
        return _of(node, None), tuple(reversed(behind))

    def dump(self) -> bytes:
        """Return the context as JSON Lines, one segment a line. Volatile text is left out."""
        return b"".join(segment.data + b"\n" for segment in self.segments)

    @staticmethod
    def load(data: bytes) -> Context:
        """Rebuild a context from `dump`, with the same digests.

        Raises:
            ContextError: a line is not a segment, to the last byte, or the order is impossible.
        """
        lines = data.split(b"\n")
        if lines.pop():
            raise ContextError("the dump is cut off: its last line does not end")
        return Context(*(Segment.from_data(line).content for line in lines))

    def __len__(self) -> int:
        return 0 if self._head is None else self._head.depth

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __reversed__(self) -> Iterator[Segment]:
        return (node.segment for node in _walk(self._head))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Context):
            return NotImplemented
        return self.digest == other.digest and self._volatile == other._volatile

    def __hash__(self) -> int:
        return hash((self.digest, self._volatile))

    def __repr__(self) -> str:
        return f"Context({len(self)} segments, digest={self.digest[:15]!r})"

    def __copy__(self) -> Context:
        return self

    def __deepcopy__(self, memo: object) -> Context:
        return self

    def __reduce__(self) -> tuple[object, tuple[bytes, str | None]]:
        return _loaded, (self.dump(), self._volatile)

    if not TYPE_CHECKING:  # type checkers find these mistakes by themselves

        def __getattr__(self, name: str) -> NoReturn:
            if name in _MUTATORS:
                raise ContextFrozen(_frozen(f"Context has no {name}()"))
            raise AttributeError(f"Context has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ContextFrozen(_frozen(f"cannot set {name!r} of a Context"))

    def __delattr__(self, name: str) -> NoReturn:
        raise ContextFrozen(_frozen(f"cannot delete {name!r} of a Context"))

    def __setitem__(self, index: object, value: object) -> NoReturn:
        raise ContextFrozen(_frozen(f"cannot replace segment {index!r}"))

    def __delitem__(self, index: object) -> NoReturn:
        raise ContextFrozen(_frozen(f"cannot remove segment {index!r}"))


@dataclass(frozen=True, slots=True)
class _Node:
    """One link of the chain. Nodes are shared by all contexts that extend them."""

    segment: Segment
    parent: _Node | None
    depth: int
    """Segments up to and with this one."""
    rank: int
    chain: str
    later_tools: tuple[str, ...]
    """What all `ToolsMessage`s up to here have added."""

    @staticmethod
    def after(parent: _Node | None, segment: Segment) -> _Node:
        later_tools = parent.later_tools if parent else ()
        if isinstance(segment.content, ToolsMessage):
            later_tools += segment.content.added
        return _Node(
            segment=segment,
            parent=parent,
            depth=parent.depth + 1 if parent else 1,
            rank=rank(segment.tier, segment.part),
            chain=chain_digest(parent.chain if parent else None, segment.digest),
            later_tools=later_tools,
        )


_EMPTY_DIGEST = digest(b"")

_MUTATORS = frozenset(
    [
        "clear",
        "edit",
        "extend",
        "insert",
        "pop",
        "prepend",
        "remove",
        "replace",
        "reverse",
        "set",
        "sort",
        "truncate",
        "update",
    ]
)


def _of(head: _Node | None, volatile: str | None) -> Context:
    context = object.__new__(Context)
    object.__setattr__(context, "_head", head)
    object.__setattr__(context, "_volatile", volatile)
    return context


def _loaded(data: bytes, volatile: str | None) -> Context:
    return Context.load(data).with_volatile(volatile)


def _walk(node: _Node | None) -> Iterator[_Node]:
    while node is not None:
        yield node
        node = node.parent


def _open_calls(head: _Node | None) -> tuple[ToolCall, ...]:
    last = head.segment.content if head else None
    return last.calls if isinstance(last, AssistantMessage) else ()


def _check_order(head: _Node | None, segment: Segment) -> None:
    if head is None:
        return
    position = rank(segment.tier, segment.part)
    what = segment.part.value if segment.part else segment.tier.value
    if position < head.rank:
        raise ContextFrozen(
            _frozen(f"{what!r} belongs before what the context already holds ({head.segment.tier})")
        )
    if position == head.rank and is_single(position):
        raise ContextFrozen(_frozen(f"the context already has its {what!r} segment"))
    last, new = head.segment.content, segment.content
    if isinstance(last, Document) and isinstance(new, Document) and new.uri <= last.uri:
        raise ContextFrozen(
            _frozen(
                f"documents lie in the order of their URIs: {new.uri!r} is not after {last.uri!r}"
            )
        )


def _check_calls(head: _Node | None, content: Content) -> None:
    open_calls = _open_calls(head)
    expected = [call.id for call in open_calls]
    if isinstance(content, ToolMessage):
        answered = [result.call_id for result in content.results]
        if not expected or answered != expected:
            raise ContextError(
                f"a tool message must answer exactly the calls before it, in order: "
                f"the calls are {expected!r}, the results are for {answered!r}"
            )
    elif expected:
        raise ContextError(
            f"calls {expected!r} have no result yet; first append a ToolMessage for all of them"
        )
    if isinstance(content, AssistantMessage):
        ids = [call.id for call in content.calls]
        if len(set(ids)) != len(ids):
            raise ContextError(f"the calls of one turn must have different ids, got {ids!r}")


def _check_tools(head: _Node | None, content: Content) -> None:
    if not isinstance(content, ToolsMessage):
        return
    segments = (node.segment for node in _walk(head))
    shown = {name for segment in segments for name in _shown_names(segment)}
    for name in content.names:
        if name in shown:
            raise ContextError(
                f"the context has the tool {name!r} already: what was sent never changes; begin a "
                "new epoch to show it otherwise"
            )
        shown.add(name)


def _shown_names(segment: Segment) -> tuple[str, ...]:
    content = segment.content
    return content.names if isinstance(content, ToolsMessage) else tool_names(segment)


def _frozen(problem: str) -> str:
    return (
        f"{problem}: what was sent never changes, or every cached token after it would be lost. "
        "Append a message that says what is new, put text for one request into with_volatile(), "
        "or begin a new Context"
    )
