"""Runs in a database: SQLite by default, PostgreSQL by URL.

journal.py   open_journal, and SqlJournal: everything that one does with it
worker.py    the thread that owns the connection, and saves that share a transaction
saving.py    one save: what it writes, and whether it may; sums.py: what its requests come to
deltas.py    what a save adds to a run, and the run again from all that was added
reading.py   runs and contexts from their rows
claiming.py  taking a run from whoever had it, and which have nobody; leases.py: says of runs
             that they go on
listing.py   what is shown of runs; moving.py: JSON Lines; erasing.py: deletion
schema.py    the tables; upgrading.py makes them, and brings older ones up to date; engine.py:
             connections

Needs the extra `store`. Nothing else in the framework imports it: the loop knows
`agentkit.journal.Journal` only.
"""

from __future__ import annotations

from agentkit.errors import MissingExtra

try:
    import sqlalchemy  # noqa: F401
except ImportError as error:
    raise MissingExtra(
        f"agentkit.store needs SQLAlchemy, which is not installed ({error}); "
        'in a checkout run: pip install -c requirements.lock ".[store]"'
    ) from error

from agentkit.store.journal import SqlJournal, open_journal
from agentkit.store.listing import RunRow, StepRow
from agentkit.store.worker import JournalUnavailable

__all__ = ["JournalUnavailable", "RunRow", "SqlJournal", "StepRow", "open_journal"]
