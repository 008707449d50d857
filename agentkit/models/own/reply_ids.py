"""Tokens in, tokens out: the ids of an answer are kept with its message and sent back with it.

So a runtime that has forgotten the answer (in a new process, at another server) begins the next
prompt with exactly the ids that were generated. It uses them only where they read as the message
does, so a reply that was edited is read as it was edited.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentkit.blocks import AssistantMessage, VendorItem

_OURS = ("runtime:", "local:")
"""Model strings whose items these are."""


def ids_json(token_ids: Sequence[int]) -> str:
    """Return the data of a `VendorItem` that holds the ids of an answer."""
    return json.dumps({"token_ids": list(token_ids)}, separators=(",", ":"))


def ids_of(message: AssistantMessage) -> tuple[int, ...]:
    """Return the ids that a message was generated as; none where they are not known.

    What is no list of ids, in a stored conversation for example, is passed over: ids only spare
    work.
    """
    for block in message.blocks:
        if isinstance(block, VendorItem) and block.source.startswith(_OURS):
            return _ids(block.data)
    return ()


def _ids(data: str) -> tuple[int, ...]:
    try:
        found = json.loads(data)["token_ids"]
    except (ValueError, KeyError, TypeError):
        return ()
    fits = isinstance(found, list) and all(type(each) is int and each >= 0 for each in found)
    return tuple(found) if fits else ()
