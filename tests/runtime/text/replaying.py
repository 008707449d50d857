"""A turn that is generated under a grammar, and sent back as history."""

from __future__ import annotations

import pytest

from agentkit_runtime.chat import (
    ChatEvent,
    ChatMessage,
    ChatToolCall,
    ContentDelta,
    ToolCallArguments,
    ToolCallStart,
)
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.types import Grammar


def say(tokenizer: Tokenizer, grammar: Grammar, text: str) -> list[int]:
    """The ids of a model that says `text`; forced tokens must agree with it."""
    return say_ids(grammar, tokenizer.encode(text))


def say_ids(grammar: Grammar, wanted: list[int]) -> list[int]:
    """The ids of a model that wants to say these."""
    said: list[int] = []
    while len(said) < len(wanted):
        said.append(wanted[len(said)])
        grammar.accept(said[-1])
        for forced in grammar.forced():
            assert forced == wanted[len(said)], "the grammar forces another spelling"
            grammar.accept(forced)
            said.append(forced)
    return said


def as_message(events: list[ChatEvent]) -> ChatMessage:
    """What an API client sends back."""
    content, calls = "", list[ChatToolCall]()
    for event in events:
        match event:
            case ContentDelta():
                content += event.text
            case ToolCallStart():
                calls.append(ChatToolCall(id=event.id, name=event.name, arguments=""))
            case ToolCallArguments():
                last = calls[-1]
                text = last.arguments + event.text
                calls[-1] = ChatToolCall(id=last.id, name=last.name, arguments=text)
            case _:
                pytest.fail(f"unexpected event {event!r}")
    return ChatMessage(role="assistant", content=content, tool_calls=tuple(calls))
