"""Blocks of a conversation -> `ChatMessage`s.

A chat template knows messages with a text, calls, and results, so blocks are joined: texts of one
user message with a line break, pieces of one assistant's turn as they are. A tool's result is a
message of its own. A conversation's blocks are one flat list, each with its path in the body, and
the first n of them always give the same messages: that is how a mark finds its place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from agentkit_runtime.api.anthropic.request import Block, MessageBody
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatMessage, ChatToolCall, Role

ERROR_PREFIX = "Error: "
"""In front of a result with `is_error`: templates cannot say it otherwise."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A block, and where it is."""

    path: str
    """Such as `messages[2].content[0]`."""
    role: Role
    n_message: int
    block: Block


def placed_blocks(messages: Sequence[MessageBody]) -> list[Placed]:
    """All blocks of `messages`, in order. Raises `ApiError` (400) for a message without any."""
    placed: list[Placed] = []
    for n, message in enumerate(messages):
        path, content = f"messages[{n}].content", message.content
        if not content and not (message.role == "assistant" and n == len(messages) - 1):
            raise ApiError(f"{path} is empty; only a last assistant message may be", param=path)
        if isinstance(content, str):
            placed.append(Placed(path, message.role, n, Block(type="text", text=content)))
        else:
            placed += (
                Placed(f"{path}[{k}]", message.role, n, block) for k, block in enumerate(content)
            )
    return placed


def decode_blocks(placed: Sequence[Placed]) -> tuple[ChatMessage, ...]:
    """The messages of a conversation. Raises `ApiError` (400) for blocks that cannot be shown."""
    writer = _Writer()
    for item in placed:
        writer.add(item)
    writer.end_message()
    return tuple(writer.messages)


def text_of(block: Block, path: str) -> str:
    """What a block of text says; a document of text says its title, its context and its text.

    Raises `ApiError` (400), which names the block, for all that is no text.
    """
    if block.type == "text":
        if block.text is None:
            raise ApiError(f"{path}.text is missing", param=f"{path}.text")
        return block.text
    if block.type == "document" and block.source is not None:
        parts = (block.title, block.context, _document_text(block.source, path))
        return "\n".join(part for part in parts if part)
    raise ApiError(
        f"{path}.type is {block.type!r}; this model reads text, tool_use, tool_result and thinking "
        "blocks, and documents of text",
        param=f"{path}.type",
        code="unsupported_content",
    )


def texts_of(content: str | Sequence[Block], path: str) -> str:
    """The text of content that has nothing but text."""
    if isinstance(content, str):
        return content
    return "\n".join(text_of(block, f"{path}[{k}]") for k, block in enumerate(content))


def _block(value: object, path: str) -> Block:
    try:
        return Block.model_validate(value)
    except ValidationError as error:
        raise ApiError(f"{path} is no block: {error.errors()[0]['msg']}", param=path) from None


def _document_text(source: dict[str, object], path: str) -> str:
    kind, path = source.get("type"), f"{path}.source"
    if kind == "text" and isinstance(data := source.get("data"), str):
        return data
    if kind == "content":
        content = source.get("content")
        if isinstance(content, str):
            return content
        if isinstance(content, list):
            blocks = [_block(item, f"{path}.content[{n}]") for n, item in enumerate(content)]
            return texts_of(blocks, f"{path}.content")
    raise ApiError(
        f"{path}.type is {kind!r}; this model reads documents of type 'text', with their data, and "
        "of type 'content'",
        param=f"{path}.type",
        code="unsupported_content",
    )


@dataclass(slots=True)
class _Writer:
    """Joins blocks into messages."""

    messages: list[ChatMessage] = field(default_factory=list)
    _role: Role | None = None
    _n_message: int = -1
    _texts: list[str] = field(default_factory=list)
    _thoughts: list[str] = field(default_factory=list)
    _calls: list[ChatToolCall] = field(default_factory=list)

    def add(self, item: Placed) -> None:
        """Add the next block."""
        if item.block.type == "tool_result":
            self.end_message()
            self.messages.append(_result(item))
            return
        # Neighbouring assistant messages are one turn, as Anthropic documents; users' stay apart.
        same = item.role == "assistant" or item.n_message == self._n_message
        if item.role != self._role or not same:
            self.end_message()
            self._role, self._n_message = item.role, item.n_message
        if item.role == "assistant":
            self._add_said(item)
        else:
            self._texts.append(text_of(item.block, item.path))

    def end_message(self) -> None:
        """Nothing more belongs to the last message."""
        if self._role is not None:
            joint = "" if self._role == "assistant" else "\n"
            self.messages.append(
                ChatMessage(
                    role=self._role,
                    content=joint.join(self._texts),
                    reasoning="".join(self._thoughts),
                    tool_calls=tuple(self._calls),
                )
            )
        self._role, self._texts, self._thoughts, self._calls = None, [], [], []

    def _add_said(self, item: Placed) -> None:
        block, path = item.block, item.path
        match block.type:
            case "tool_use":
                self._calls.append(_call(block, path))
            case "thinking":
                self._thoughts.append(block.thinking or "")
            case "redacted_thinking":
                pass  # nobody but the model's maker can read it
            case _:
                self._texts.append(text_of(block, path))


def _result(item: Placed) -> ChatMessage:
    block, path = item.block, item.path
    if isinstance(block.content, dict):
        raise ApiError(f"{path}.content must be a text or blocks", param=f"{path}.content")
    text = texts_of(block.content or "", f"{path}.content")
    return ChatMessage(
        role="tool",
        content=f"{ERROR_PREFIX}{text}" if block.is_error else text,
        tool_call_id=block.tool_use_id,
    )


def _call(block: Block, path: str) -> ChatToolCall:
    if block.id is None or block.name is None or block.input is None:
        raise ApiError(f"{path} needs id, name and input", param=path)
    # As the runtime's grammars write JSON: what was generated is rendered again byte for byte.
    arguments = json.dumps(block.input, ensure_ascii=False)
    return ChatToolCall(id=block.id, name=block.name, arguments=arguments)
