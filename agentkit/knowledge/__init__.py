"""Knowledge: documents in versions, searched without a network, shown in an order that stays.

knowledge.py   read first: Knowledge, documents that change, in versions that do not
snapshot.py    one version, immutable, in one SQLite file; index.py: its full-text index
chunks.py      documents, ETags, chunks; store.py: the log of versions
changes.py     what changed, and the message that tells a model
catch_up.py    brings a conversation to the latest version: by that message, or by a new epoch
webhook.py     the body of a webhook; mcp_feed.py: documents out of an MCP server
search_tool.py knowledge as a tool
"""

from __future__ import annotations

from agentkit.knowledge.catch_up import CaughtUp, catch_up
from agentkit.knowledge.changes import (
    Added,
    Change,
    Changed,
    Withdrawn,
    as_message,
    uris_in,
)
from agentkit.knowledge.chunks import Chunk
from agentkit.knowledge.errors import KnowledgeError
from agentkit.knowledge.knowledge import Knowledge, Loader
from agentkit.knowledge.mcp_feed import FeedReport, McpFeed
from agentkit.knowledge.snapshot import Snapshot

__all__ = [
    "Added",
    "CaughtUp",
    "Change",
    "Changed",
    "Chunk",
    "FeedReport",
    "Knowledge",
    "KnowledgeError",
    "Loader",
    "McpFeed",
    "Snapshot",
    "Withdrawn",
    "as_message",
    "catch_up",
    "uris_in",
]
