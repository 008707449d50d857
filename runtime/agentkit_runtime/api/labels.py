"""What a request's headers say about how it is to be treated. They never change the answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.types import Priority

SESSION_HEADERS = (
    "x-session-id",
    "x-smg-routing-key",
    "x-dynamo-session-id",
    "x-claude-code-session-id",
)
"""What routers and agents call the id of a conversation, the first one that is there counts."""

PRIORITY_HEADER = "x-agentkit-priority"
TAGS_HEADER = "x-agentkit-tags"
DEADLINE_HEADER = "x-agentkit-deadline-s"

_MAX_LABEL_CHARS = 256
_MAX_TAGS = 16
_PRIORITIES = {priority.name.lower(): priority for priority in Priority}


def labelled(chat: ChatRequest, headers: Mapping[str, str]) -> ChatRequest:
    """`chat` with the labels of its headers; what the body has said already is kept.

    Raises:
        ApiError: a header's value is no priority, no number of seconds, or too long.
    """
    session = next((headers[name] for name in SESSION_HEADERS if name in headers), None)
    priority = headers.get(PRIORITY_HEADER)
    deadline = headers.get(DEADLINE_HEADER)
    return dataclasses.replace(
        chat,
        session=chat.session or _label(session, "the session id"),
        tags=chat.tags | _tags(headers.get(TAGS_HEADER)),
        priority=chat.priority if priority is None else _priority(priority),
        deadline_s=chat.deadline_s if deadline is None else _seconds(deadline),
    )


def _label(text: str | None, what: str) -> str | None:
    if text is not None and len(text) > _MAX_LABEL_CHARS:
        raise ApiError(f"{what} has {len(text)} characters, at most {_MAX_LABEL_CHARS} are taken")
    return text or None


def _tags(text: str | None) -> frozenset[str]:
    tags = frozenset(tag for part in (text or "").split(",") if (tag := part.strip()))
    if len(tags) > _MAX_TAGS:
        raise ApiError(f"{TAGS_HEADER} has {len(tags)} tags, at most {_MAX_TAGS} are taken")
    for tag in tags:
        _label(tag, f"a tag in {TAGS_HEADER}")
    return tags


def _priority(text: str) -> Priority:
    found = _PRIORITIES.get(text.strip().lower())
    if found is None:
        raise ApiError(f"{PRIORITY_HEADER} must be one of {', '.join(_PRIORITIES)}")
    return found


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ApiError(f"{DEADLINE_HEADER} must be a number of seconds above 0")
    return seconds
