"""What a model answered, as it lies on the wire of the request that comes next."""

from __future__ import annotations

from agentkit.caching.request import Block, Role
from agentkit.models.hosted.wire import Layout


def reply_blocks(layout: Layout, following: Layout) -> tuple[Block, ...]:
    """Return the blocks of the reply to a request, as the next request replays them.

    Args:
        layout: of the request.
        following: of the one that comes next in the same conversation.
    """
    n_stable = len(layout.blocks) - layout.n_volatile
    found: list[Block] = []
    at = len(following.cache_request.tools) + len(following.cache_request.system)
    for message in following.cache_request.messages:
        if at >= n_stable:
            if message.role is not Role.ASSISTANT:
                break
            found += message.blocks
        at += len(message.blocks)
    return tuple(found)
