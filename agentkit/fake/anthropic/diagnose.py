"""`diagnostics`: why the cache could not read what an earlier request had."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit.blocks import Json
from agentkit.caching.request import Block, CacheRequest
from agentkit.fake.api import Prompt


def diagnose(prompt: Prompt, before: CacheRequest | None) -> Json:
    """Compare a request with the earlier one that the client names.

    None means that the one continues the other, or that there is nothing to compare with.
    """
    if not prompt.compare or prompt.compare_with is None:
        return None
    if before is None:
        return _reason("previous_message_not_found")
    after = prompt.request
    size = sum(block.n_tokens for block in before.blocks)
    if (before.identity.model, before.terms.speed) != (after.identity.model, after.terms.speed):
        return _reason("model_changed", size)
    if _digests(before.tools) != _digests(after.tools):
        return _reason("tools_changed", size)
    if _digests(before.system) != _digests(after.system):
        return _reason("system_changed", size - _size(before.tools))
    if before.identity != after.identity:
        return _reason("unavailable")
    was = [(message.role, block) for message in before.messages for block in message.blocks]
    now = [(message.role, block) for message in after.messages for block in message.blocks]
    lost = _size([block for _, block in was])
    for old, new in zip(was, now, strict=False):
        if (old[0], old[1].digest) != (new[0], new[1].digest):
            return _reason("messages_changed", lost)
        lost -= old[1].n_tokens
    return _reason("messages_changed", lost) if len(now) < len(was) else None


def _reason(kind: str, missed: int | None = None) -> Json:
    reason: dict[str, Json] = {"type": kind}
    if missed is not None:
        reason["cache_missed_input_tokens"] = missed
    return {"cache_miss_reason": reason}


def _digests(blocks: Sequence[Block]) -> list[bytes]:
    return [block.digest for block in blocks]


def _size(blocks: Sequence[Block]) -> int:
    return sum(block.n_tokens for block in blocks)
