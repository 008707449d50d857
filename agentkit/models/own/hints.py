"""What `local:` and `runtime:` models tell our runtime alike, beside requests."""

from __future__ import annotations

from typing import assert_never

from agentkit.models.own.names import label_of
from agentkit.usage import Usage
from agentkit_runtime.kv.hints import Hint, LikelyNext, SessionDone, SessionWaits

SUBAGENTS_WITHIN_S = 60.0
"""How long the fronts of subagents are kept for a turn that may call them. Turns seldom last
longer, and each says it again."""

_MOST_TAGS = 64
"""Servers take no more in one hint."""


def hint_json(hint: Hint) -> dict[str, object]:
    """Return the body that tells a server a hint. Whose it is, its key says."""
    match hint:
        case SessionWaits():
            session = label_of(hint.session)
            return {"kind": "waits", "session": session, "seconds": hint.expected_s}
        case SessionDone():
            return {"kind": "done", "session": label_of(hint.session)}
        case LikelyNext():
            tags = [label_of(tag) for tag in sorted(hint.tags)][:_MOST_TAGS]
            return {"kind": "likely_next", "tags": tags, "seconds": hint.within_s}
        case _:
            assert_never(hint)


def warmed_usage(tokens: int, cached_tokens: int) -> Usage:
    """Return what a warm-up of so many tokens used, of which some were cached already."""
    return Usage(
        input_tokens=tokens,
        cache_read_tokens=cached_tokens,
        cache_write_tokens=tokens - cached_tokens,
        output_tokens=0,
    )
