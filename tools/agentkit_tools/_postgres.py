"""PostgreSQL for `sql`: connects, runs one statement. Runs in a child process (`_sql_worker`).

Works on libpq's level: parameters go apart from the statement, which must be a single one, and
values come as the server writes them. A reading statement is put into `DECLARE ... CURSOR FOR`,
which by its grammar takes SELECT, VALUES, TABLE and WITH without changes, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agentkit_tools._errors import Refused
from agentkit_tools._postgres_catalog import described, tables
from agentkit_tools._postgres_session import Session, decoded
from agentkit_tools._table import Cell, Number, Table

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

_BOOLEAN, _BYTEA = 16, 17
_NUMBERS = frozenset({20, 21, 23, 26, 700, 701, 1700})
"""Type OIDs of int8, int2, int4, oid, float4, float8 and numeric."""

_JSON_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")

_DENIED_WORDS = re.compile(
    r"""\b(
      pg_read_\w+ | pg_ls_\w+ | pg_stat_file | pg_file_\w+ | pg_current_logfile
    | lo_(import|export|creat|create|open|unlink|put|get|from_bytes|truncate(64)?) | lowrite
    | dblink\w* | postgres_fdw_\w+
    | pg_(terminate|cancel)_backend | pg_reload_conf | pg_rotate_logfile | pg_promote
    | pg_switch_wal | pg_create_\w+ | pg_drop_\w+ | pg_logical_\w+ | pg_replication_\w+
    | pg_notify | pg_(try_)?advisory_\w+ | pg_stat_reset\w* | pg_export_snapshot
    | pg_log_backend_memory_contexts | pg_log_standby_snapshot | pg_sync_replication_slots
    | pg_copy_\w+_slot | pg_(start|stop)_backup | pg_backup_(start|stop) | pg_wal_replay_\w+
    | pg_stat_statements_reset | pg_prewarm | autoprewarm_\w+
    | pg_(clear|restore)_\w+_stats | brin_(de)?summarize_\w+ | gin_clean_pending_list
    | set_config | (query|cursor|table|schema|database)_to_xml\w* | ts_stat | ts_rewrite
    | crosstab\w* | connectby | xpath_table | pgr_\w+
    | U&["']
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""Functions that act outside the transaction, or run texts that this check cannot see."""

_CHANGING = frozenset(
    {"select", "with", "values", "table", "insert", "update", "delete", "merge", "create", "alter"}
    | {"drop", "truncate", "comment", "analyze", "refresh", "reindex", "grant", "revoke"}
)
_BEYOND = frozenset(
    {"role", "user", "group", "database", "system", "tablespace", "server", "subscription"}
    | {"publication", "extension", "language", "owned", "event"}
)
"""After `create`, `alter` or `drop`: what is not this database's data, or outlives the session."""

_MODIFIERS = frozenset({"or", "replace", "trusted", "procedural"})
"""Between such a word and what it makes; a language may be made as an extension."""

_BLANK = re.compile(r"[ \t\n\r\f\v(]+|--[^\n\r]*")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r'"[^"]*"')
_GRANTED = ("on", "to", "from")


def answer(request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """Serve one request of `sql`.

    Raises:
        Refused: with what PostgreSQL says, and what to do instead where that is known.
    """
    session = Session(request, timeout_s)
    try:
        match request["do"]:
            case "tables":
                return {"text": tables(session)}
            case "describe":
                return {"text": described(session, request["table"])}
            case "query":
                return _queried(session, request)
            case _:
                return _executed(session, request)
    finally:
        session.connection.finish()


def _queried(session: Session, request: Mapping[str, Any]) -> dict[str, Any]:
    sql = request["sql"]
    _check_words(sql)
    table = Table(**request["table_bounds"])
    session.do(f"DECLARE agentkit_rows NO SCROLL CURSOR FOR {sql}", request["parameters"])
    n_wanted = table.skip + table.max_rows + 1
    return _collected(session, table, session.results(f"FETCH {n_wanted} FROM agentkit_rows"))


def _executed(session: Session, request: Mapping[str, Any]) -> dict[str, Any]:
    sql = request["sql"]
    _check_words(sql)
    _check_changing(sql)
    table = Table(**request["table_bounds"])
    reply = _collected(session, table, session.results(sql, request["parameters"]), to_end=True)
    session.do("COMMIT")
    return reply


def _check_changing(sql: str) -> None:
    words = _words(sql)
    first = next(words, "")
    if first not in _CHANGING:
        raise Refused(f"a statement must start with one of {', '.join(sorted(_CHANGING))}")
    if first in ("create", "alter", "drop"):
        second = next((word for word in words if word not in _MODIFIERS), "")
        if second in _BEYOND:
            raise Refused(f"{first} {second} is not allowed here; only data and tables are changed")
    if first in ("grant", "revoke") and next((w for w in words if w in _GRANTED), "") != "on":
        raise Refused(f"{first} of a role is not allowed here; only data and tables are changed")


def _words(sql: str) -> Iterator[str]:
    """The words of a statement, in lower case, without those in comments and in double quotes."""
    at = _word_at(sql, 0)
    while at < len(sql):
        found = _WORD.match(sql, at) or _QUOTED.match(sql, at)
        if found and found.group()[0] != '"':
            yield found.group().lower()
        at = _word_at(sql, found.end() if found else at + 1)


def _word_at(sql: str, at: int) -> int:
    """Where the next word stands, behind blanks, brackets and comments.

    Read as PostgreSQL does: its comments nest, and a line feed or a carriage return ends those of
    a line. Otherwise a statement could stand where a comment is taken to be.
    """
    while True:
        if found := _BLANK.match(sql, at):
            at = found.end()
        elif sql.startswith("/*", at):
            at = _comment_end(sql, at)
        else:
            return at


def _comment_end(sql: str, at: int) -> int:
    depth = 0
    for mark in _COMMENT_MARK.finditer(sql, at):
        depth += 1 if mark.group() == "/*" else -1
        if not depth:
            return mark.end()
    return len(sql)


def _collected(
    session: Session, table: Table, results: Iterator[PGresult], *, to_end: bool = False
) -> dict[str, Any]:
    names: list[str] = []
    oids: list[int] = []
    changed: int | None = None
    is_full = False
    for result in results:
        names = names or [decoded(result.fname(i)) or "" for i in range(result.nfields)]
        oids = oids or [result.ftype(i) for i in range(result.nfields)]
        changed = result.command_tuples if not names else None
        for row in range(result.ntuples):
            is_full = is_full or not table.add(
                tuple(_cell(result.get_value(row, i), oid) for i, oid in enumerate(oids))
            )
        if is_full and not to_end:
            # The rest is not fetched; the connection is of no more use and is closed.
            return table.reply([(name, "") for name in names])
    return {**table.reply(list(zip(names, _types(session, oids), strict=True))), "changed": changed}


def _types(session: Session, oids: list[int]) -> list[str]:
    rows = session.do(
        "SELECT oid::text, format_type(oid, NULL) FROM pg_type "
        "WHERE oid = ANY (string_to_array($1, ',')::oid[])",
        (",".join(map(str, sorted(set(oids)))),),
    )
    names = {row[0]: row[1] for row in rows}
    return [names.get(str(oid)) or "unknown" for oid in oids]


def _cell(value: bytes | None, oid: int) -> Cell | Number:
    if value is None:
        return None
    text = value.decode("utf-8", "replace")
    if oid == _BOOLEAN:
        return text == "t"
    if oid == _BYTEA and text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    if oid in _NUMBERS and len(text) <= 100 and _JSON_NUMBER.fullmatch(text):
        return Number(text)
    return text


def _check_words(sql: str) -> None:
    if found := _DENIED_WORDS.search(sql):
        raise Refused(f"{found.group()!r} is not allowed here, not even as a name or in a text")
