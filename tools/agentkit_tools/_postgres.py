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
_COMMENTS = re.compile(r"(\s+|--[^\n]*(\n|$)|/\*.*?\*/|\()*", re.DOTALL)


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
    start = _COMMENTS.match(sql)
    word = re.match(r"\w*", sql[start.end() if start else 0 :])
    if word is None or word.group().lower() not in _CHANGING:
        raise Refused(f"a statement must start with one of {', '.join(sorted(_CHANGING))}")
    table = Table(**request["table_bounds"])
    reply = _collected(session, table, session.results(sql, request["parameters"]), to_end=True)
    session.do("COMMIT")
    return reply


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
