"""Rearranges messages for chat templates that cannot render them as they are."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit_runtime.chat import ChatMessage


def with_system_in_front(messages: Sequence[ChatMessage], warnings: list[str]) -> list[ChatMessage]:
    """Join all system messages into the first place."""
    later = [message for message in messages[1:] if message.role == "system"]
    if not later:
        return list(messages)
    warnings.append(
        f"{len(later)} later system messages were moved to the front, because the chat template "
        "cannot render them where they stand; the cached prefix ends there"
    )
    system = [message.content for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    return [ChatMessage(role="system", content="\n\n".join(system)), *others]


def with_system_in_user(messages: Sequence[ChatMessage], warnings: list[str]) -> list[ChatMessage]:
    """Put the system message in front of the first user message's text."""
    if messages[0].role != "system":
        return list(messages)
    warnings.append(
        "the system message was put into the first user message, because the chat template has none"
    )
    system, rest = messages[0].content, list(messages[1:])
    if rest and rest[0].role == "user":
        content = f"{system}\n\n{rest[0].content}"
        return [ChatMessage(role="user", content=content), *rest[1:]]
    return [ChatMessage(role="user", content=system), *rest]


def with_users_joined(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Join neighbouring user messages, for templates that insist on alternation."""
    joined: list[ChatMessage] = []
    for message in messages:
        if joined and joined[-1].role == message.role == "user":
            content = f"{joined[-1].content}\n{message.content}"
            joined[-1] = ChatMessage(role="user", content=content)
        else:
            joined.append(message)
    return joined
