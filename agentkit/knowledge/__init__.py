"""Knowledge: documents in versions, searched without a network, shown in an order that stays.

knowledge.py   read first: Knowledge, documents that change, in versions that do not
snapshot.py    one version, immutable, in one SQLite file; index.py: its full-text index
chunks.py      documents, ETags, chunks; store.py: the log of versions
changes.py     what changed, and the message that tells a model
webhook.py     the body of a webhook; search_tool.py: knowledge as a tool
"""

from __future__ import annotations

from agentkit.knowledge.changes import (
    Added,
    Change,
    Changed,
    Withdrawn,
    as_message,
    is_changes,
    uris_in,
)
from agentkit.knowledge.chunks import Chunk
from agentkit.knowledge.errors import KnowledgeError
from agentkit.knowledge.knowledge import Knowledge, Loader
from agentkit.knowledge.snapshot import Snapshot

__all__ = [
    "Added",
    "Change",
    "Changed",
    "Chunk",
    "Knowledge",
    "KnowledgeError",
    "Loader",
    "Snapshot",
    "Withdrawn",
    "as_message",
    "is_changes",
    "uris_in",
]
