"""The tables. `upgrading.py` makes them, and brings older ones up to date."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

VERSION = 3
"""Of the tables. Each change of theirs makes it one more, and adds a step to `upgrading.py`."""

metadata = MetaData()

_NUMBER = BigInteger().with_variant(Integer, "sqlite")

version = Table(
    "agentkit_version", metadata, Column("version", Integer, primary_key=True, autoincrement=False)
)

segments = Table(
    "agentkit_segments",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
"""Pieces of contexts, and long tool results, each once, whoever holds it."""

chain = Table(
    "agentkit_chain",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("parent", Text, index=True),
    Column("segment", Text, ForeignKey("agentkit_segments.digest"), nullable=False, index=True),
    Column("depth", Integer, nullable=False),
)
"""Contexts: the digest of one names its last segment and the context before that. Conversations
that begin alike share their rows."""

runs = Table(
    "agentkit_runs",
    metadata,
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    Column("run_id", Text, nullable=False, unique=True),
    Column("parent", Text),
    Column("root", Text, nullable=False, index=True),
    Column("session", Text, nullable=False, index=True),
    Column("user", Text, nullable=False, index=True),
    Column("tenant", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("turn", _NUMBER, nullable=False),
    Column("began_at", Float(53), nullable=False),
    Column("saved_at", Float(53), nullable=False),
    Column("total_s", Float(53), nullable=False),
    Column("n_requests", Integer, nullable=False),
    Column("input_tokens", _NUMBER, nullable=False),
    Column("cache_read_tokens", _NUMBER, nullable=False),
    Column("output_tokens", _NUMBER, nullable=False),
    Column("usd", Text, nullable=False),
    Column("n_cost_unknown", Integer, nullable=False),
    Column("n_unpriced", Integer, nullable=False),
    Column("n_steps", Integer, nullable=False),
    Column("owner", Text, nullable=False),
    Column("seen_at", Float(53), nullable=False, server_default="0"),
    Column("n_adopted", Integer, nullable=False, server_default="0"),
)
"""What is listed of each run, and whose it is. What it consists of is in its steps.

`seen_at`: when its process has said that it goes on, or somebody has claimed it; see `leases.py`.
"""

GOES_ON = "parent IS NULL AND status IN ('running', 'paused')"
"""SQLite uses an index of such rows where a query says it in these words."""
Index(
    "agentkit_runs_going_on",
    runs.c.session,
    runs.c.agent,
    unique=True,
    sqlite_where=text(GOES_ON),
    postgresql_where=text(GOES_ON),
)
"""A conversation has one run at a time, whoever begins it."""

steps = Table(
    "agentkit_steps",
    metadata,
    Column("run", _NUMBER, ForeignKey("agentkit_runs.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("turn", _NUMBER, nullable=False),
    Column("saved_at", Float(53), nullable=False),
    Column("head", Text, ForeignKey("agentkit_chain.digest"), index=True),
    Column("data", Text, nullable=False),
    Column("back", Text, ForeignKey("agentkit_chain.digest")),
    sqlite_with_rowid=False,
)
"""What each save has added to its run. `head` is the context, where it is another than before;
`back` what it goes back to if that is refused."""

_HAS_WAY_BACK = text("back IS NOT NULL")
Index(
    "agentkit_steps_back",
    steps.c.back,
    sqlite_where=_HAS_WAY_BACK,
    postgresql_where=_HAS_WAY_BACK,
)

kept = Table(
    "agentkit_kept",
    metadata,
    Column("run", _NUMBER, ForeignKey("agentkit_runs.id"), primary_key=True),
    Column("handle", Text, primary_key=True),
    Column("segment", Text, ForeignKey("agentkit_segments.digest"), nullable=False, index=True),
    sqlite_with_rowid=False,
)
"""Long tool results of which a context shows a part."""
