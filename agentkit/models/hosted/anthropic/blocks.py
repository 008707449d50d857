"""Content blocks of a streamed answer, and the events that each of them becomes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Protocol

from typing_extensions import override

from agentkit.blocks import printable
from agentkit.events import (
    ModelEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallArguments,
    ToolCallStarted,
    VendorItemEvent,
)
from agentkit.models.hosted.anthropic.pieces import spliced
from agentkit.models.hosted.anthropic.vendor import SEPARATOR, is_called_by_code
from agentkit.models.hosted.wire_json import compact_json


class BlockReader(Protocol):
    """Reads one content block."""

    def start(self) -> Iterator[ModelEvent]:
        """The block has begun."""
        ...

    def delta(self, delta: dict[str, object]) -> Iterator[ModelEvent]:
        """More of it."""
        ...

    def stop(self) -> Iterator[ModelEvent]:
        """It is complete."""
        ...


class TextReader(BlockReader):
    """Visible text. Citations of it go into the history, to be sent back."""

    def __init__(self, block: dict[str, object], source: str, *, follows_text: bool) -> None:
        self._text = _text(block.get("text"))
        self._source = source
        self._follows_text = follows_text
        citations = block.get("citations")
        self._citations: list[object] = list(citations) if isinstance(citations, list) else []

    @override
    def start(self) -> Iterator[ModelEvent]:
        if self._follows_text:
            # Two texts of the model stay two: it is sent back what it wrote.
            yield VendorItemEvent(source=self._source, data=SEPARATOR)
        if self._text:
            yield TextDelta(self._text)

    @override
    def delta(self, delta: dict[str, object]) -> Iterator[ModelEvent]:
        if "citation" in delta:
            self._citations.append(delta["citation"])
        if delta.get("text"):
            yield TextDelta(_text(delta["text"]))

    @override
    def stop(self) -> Iterator[ModelEvent]:
        if self._citations:
            yield _item(self._source, {"citations": self._citations})


class ThinkingReader(BlockReader):
    """Reasoning. Without a source it is shown, and never sent back."""

    def __init__(self, block: dict[str, object], source: str | None) -> None:
        self._text = _text(block.get("thinking"))
        self._signature = _text(block.get("signature"))
        self._source = source

    @override
    def start(self) -> Iterator[ModelEvent]:
        if self._text:
            yield ThinkingDelta(text=self._text, source=self._source)

    @override
    def delta(self, delta: dict[str, object]) -> Iterator[ModelEvent]:
        self._signature += _text(delta.get("signature"))
        if delta.get("thinking"):
            yield ThinkingDelta(text=_text(delta["thinking"]), source=self._source)

    @override
    def stop(self) -> Iterator[ModelEvent]:
        if self._source is not None and self._signature:
            yield ThinkingDelta(text="", signature=self._signature, source=self._source)


class CallReader(BlockReader):
    """A call of one of our tools, with the exact text of its arguments."""

    def __init__(self, block: dict[str, object], source: str, index: int) -> None:
        self._block = block
        self._source = source
        self._index = index
        self._has_text = False

    @override
    def start(self) -> Iterator[ModelEvent]:
        yield ToolCallStarted(
            index=self._index, id=_text(self._block.get("id")), name=_text(self._block.get("name"))
        )

    @override
    def delta(self, delta: dict[str, object]) -> Iterator[ModelEvent]:
        text = _text(delta.get("partial_json"))
        if text:
            self._has_text = True
            yield ToolCallArguments(index=self._index, text=text)

    @override
    def stop(self) -> Iterator[ModelEvent]:
        if not self._has_text:
            text = printable(dumps_text(self._block.get("input") or {}))
            yield ToolCallArguments(index=self._index, text=text)
        if is_called_by_code(self._block):
            yield _item(self._source, {"caller": self._block["caller"]})


class ItemReader(BlockReader):
    """Any other block: kept whole, for the API itself."""

    def __init__(self, block: dict[str, object], source: str, *, is_kept: bool = True) -> None:
        self._block = block
        self._source = source
        self._is_kept = is_kept
        self._input = ""

    @override
    def start(self) -> Iterator[ModelEvent]:
        yield from ()

    @override
    def delta(self, delta: dict[str, object]) -> Iterator[ModelEvent]:
        self._input += _text(delta.get("partial_json"))
        for name, value in delta.items():
            if name in ("type", "partial_json"):
                continue
            before = self._block.get(name)
            joined = isinstance(before, str) and isinstance(value, str)
            self._block[name] = f"{before}{value}" if joined else value
        yield from ()

    @override
    def stop(self) -> Iterator[ModelEvent]:
        if not self._is_kept:
            return
        block = dict(self._block)
        if not self._input:
            yield _item(self._source, block)
            return
        block.pop("input", None)
        text = spliced(dumps_text(block).encode(), b'"input":' + self._input.encode())
        yield VendorItemEvent(source=self._source, data=text.decode())


def dumps_text(value: object) -> str:
    """Return compact JSON as text. Lone surrogates, which have no bytes, are spelled out."""
    try:
        return compact_json(value).decode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))


def _item(source: str, value: object) -> VendorItemEvent:
    return VendorItemEvent(source=source, data=dumps_text(value))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
