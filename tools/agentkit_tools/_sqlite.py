"""SQLite for `sql`: opens a file, runs one statement. Runs in a child process (`_sql_worker`)."""

from __future__ import annotations

import sqlite3
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from agentkit_tools._errors import Refused
from agentkit_tools._sqlite_schema import described, tables
from agentkit_tools._table import Table

_MAX_VALUE_BYTES = 16 * 1024 * 1024
"""SQLite refuses to make a longer text or blob, and to read one."""

_MAX_HEAP_BYTES = 128 * 1024 * 1024
_BUSY_S = 2.0
_STEPS_BETWEEN_CHECKS = 20_000

_UNFINISHED = frozenset({"SQLITE_READONLY_ROLLBACK", "SQLITE_READONLY_RECOVERY"})
_LEFT_BEHIND = (
    "a change of the database was broken off, and nothing can be read until it is undone: the user "
    "must open the database once with a program that may write it"
)

_READS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_CHANGES = frozenset(
    {
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_UPDATE,
        sqlite3.SQLITE_DELETE,
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_TRIGGER,
        sqlite3.SQLITE_CREATE_VIEW,
        sqlite3.SQLITE_DROP_INDEX,
        sqlite3.SQLITE_DROP_TABLE,
        sqlite3.SQLITE_DROP_TRIGGER,
        sqlite3.SQLITE_DROP_VIEW,
        sqlite3.SQLITE_DROP_VTABLE,
        sqlite3.SQLITE_ALTER_TABLE,
        sqlite3.SQLITE_REINDEX,
        sqlite3.SQLITE_ANALYZE,
    }
)
_READING_PRAGMAS = frozenset(
    {"table_list", "table_info", "table_xinfo", "index_list", "index_info", "index_xinfo"}
    | {"foreign_key_list", "data_version", "page_size"}
)
_VIRTUAL_TABLES = frozenset({"fts5", "rtree"})
_DENIED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _MAX_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 200_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 500,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 200,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 2_000_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 500,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


class Unfinished(Refused):
    """A change that was broken off lies beside the file; whoever opens it for writing undoes it."""


def _never() -> bool:
    return False


def answer(
    request: Mapping[str, Any], timeout_s: float, is_unwanted: Callable[[], bool] = _never
) -> dict[str, Any]:
    """Serve one request of `sql`; a statement ends early once `is_unwanted`.

    Raises:
        Refused: with what SQLite says, and what to do instead where that is known.
        Unfinished: reading has to wait until `undo` was asked for.
    """
    may_write = request["do"] in ("execute", "undo")
    try:
        connection = _opened(request["path"], may_write=may_write)
        _guard(connection, timeout_s, is_unwanted, may_write=may_write)
        match request["do"]:
            case "undo":
                # The first look at a file that is open for writing undoes what was broken off.
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
                return {}
            case "tables":
                return {"text": tables(connection)}
            case "describe":
                return {"text": described(connection, request["table"])}
            case _:
                return _ran(connection, request)
    except (sqlite3.Error, OverflowError, ValueError) as error:
        if getattr(error, "sqlite_errorname", "") in _UNFINISHED:
            raise Unfinished(_LEFT_BEHIND) from None
        raise Refused(_explained(error, may_write=may_write)) from None
    except MemoryError:
        raise Refused(_OUT_OF_MEMORY) from None


def _opened(path: str, *, may_write: bool) -> sqlite3.Connection:
    mode = "rw" if may_write else "ro"
    connection = sqlite3.connect(
        f"file:{urllib.parse.quote(path)}?mode={mode}",
        uri=True,
        timeout=_BUSY_S,
        isolation_level=None,
        cached_statements=0,
    )
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    for pragma in (
        f"hard_heap_limit={_MAX_HEAP_BYTES}",
        "trusted_schema=OFF",
        "cell_size_check=ON",
        "temp_store=MEMORY",
        "mmap_size=0",
        "foreign_keys=ON",
        f"query_only={'OFF' if may_write else 'ON'}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def _guard(
    connection: sqlite3.Connection,
    timeout_s: float,
    is_unwanted: Callable[[], bool],
    *,
    may_write: bool,
) -> None:
    """Bound the statements of strangers: their time, and what they may do."""
    deadline = time.monotonic() + timeout_s

    def is_over() -> bool:
        return time.monotonic() > deadline or is_unwanted()

    connection.set_progress_handler(is_over, _STEPS_BETWEEN_CHECKS)
    connection.set_authorizer(_Authorizer(may_write=may_write))


class _Authorizer:
    """Decides on each part of a statement, before it runs."""

    def __init__(self, *, may_write: bool) -> None:
        self._may_write = may_write

    def __call__(self, action: int, first: str | None, second: str | None, *_: object) -> int:
        allowed = action in _READS or (self._may_write and action in _CHANGES)
        if action == sqlite3.SQLITE_FUNCTION:
            allowed = (second or "").lower() not in _DENIED_FUNCTIONS
        elif action == sqlite3.SQLITE_PRAGMA:
            allowed = (first or "").lower() in _READING_PRAGMAS
        elif action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
            # Asked when a table-valued function such as json_each is made known; a statement that
            # really changes the schema's table is refused in any case.
            allowed = True
        elif action == sqlite3.SQLITE_CREATE_VTABLE:
            allowed = self._may_write and (second or "").lower() in _VIRTUAL_TABLES
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _ran(connection: sqlite3.Connection, request: Mapping[str, Any]) -> dict[str, Any]:
    cursor = connection.execute(request["sql"], request["parameters"])
    table = Table(**request["table_bounds"])
    if cursor.description is None:
        cursor.fetchall()
        changed = max(cursor.rowcount, 0)
        return {**table.reply([]), "changed": changed}
    names = [column[0] for column in cursor.description]
    for row in cursor:
        if not table.add(row):
            break
    cursor.close()  # ends a statement that changes something and returns more rows than fit
    types = table.types or [set() for _ in names]
    return table.reply([(name, _common(kinds)) for name, kinds in zip(names, types, strict=True)])


def _common(kinds: set[str]) -> str:
    """The type of a column: SQLite has one for each value."""
    named = sorted(kinds - {"null"})
    return "/".join(named) or "null"


_OUT_OF_MEMORY = "the statement needs too much memory; select fewer or smaller values"

_HINTS = {
    "interrupted": "the statement takes too long; select fewer rows, or use an index",
    "not authorized": "only statements that read are allowed here",
    "authorization denied": "only statements that read are allowed here",
    "query_only": "only statements that read are allowed here",
    "readonly": "only statements that read are allowed here",
    "prohibited": "only statements that read are allowed here",
    "string or blob too big": (
        f"a value is longer than {_MAX_VALUE_BYTES} bytes; leave its column out"
    ),
    "out of memory": _OUT_OF_MEMORY,
    "LIKE or GLOB pattern too complex": "use a shorter pattern",
    "You can only execute one statement at a time": "send one statement in each call",
    "Incorrect number of bindings": "give one parameter for each ? in the statement",
    "no such table": "list_tables shows all tables",
    "no such column": "describe_table shows the columns",
    "unable to open database file": "the database cannot be opened; the user must look at it",
}


def _explained(error: Exception, *, may_write: bool) -> str:
    said = str(error) or type(error).__name__
    for words, hint in _HINTS.items():
        if words in said:
            if may_write and hint.startswith("only statements that read"):
                hint = "ATTACH, PRAGMA, VACUUM, transactions and extensions are never allowed"
            return f"{said}: {hint}" if said != hint else said
    return said
