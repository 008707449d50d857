"""PostgreSQL for `sql`: connects, runs one statement. Runs in a child process (`_sql_worker`).

Works on libpq's level: parameters go apart from the statement, which must be a single one, and
values come as the server writes them. A reading statement is put into `DECLARE ... CURSOR FOR`,
which by its grammar takes SELECT, VALUES, TABLE and WITH without changes, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentkit_tools._errors import Refused
from agentkit_tools._table import Cell, Number, Table

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

_CONNECT_TIMEOUT_S = 5
_MAX_TABLES = 500

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

_ROLES = (
    "pg_read_server_files,pg_write_server_files,pg_execute_server_program,pg_signal_backend,"
    "pg_signal_autovacuum_worker,pg_create_subscription"
)
_MAX_TOLD_ROLES = 10

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
    session = _Session(request, timeout_s)
    try:
        match request["do"]:
            case "tables":
                return {"text": _tables(session)}
            case "describe":
                return {"text": _described(session, request["table"])}
            case "query":
                return _queried(session, request)
            case _:
                return _executed(session, request)
    finally:
        session.connection.finish()


class _Session:
    """One connection, for one request."""

    def __init__(self, request: Mapping[str, Any], timeout_s: float) -> None:
        from psycopg import ProgrammingError, pq
        from psycopg.conninfo import make_conninfo

        self._pq = pq
        try:
            info = make_conninfo(
                request["url"], connect_timeout=_CONNECT_TIMEOUT_S, application_name="agentkit-sql"
            )
        except ProgrammingError:
            # What libpq says repeats the URL, with its password.
            raise Refused("cannot connect: the URL of the database is not valid") from None
        self.connection: PGconn = pq.PGconn.connect(info.encode())
        if self.connection.status != pq.ConnStatus.OK:
            raise Refused(f"cannot connect: {_said(self.connection.error_message)}")
        milliseconds = max(1, int(timeout_s * 1000))
        self.do("SET client_encoding = 'UTF8'")
        self.do(f"SET statement_timeout = {milliseconds}")
        self.do(f"SET lock_timeout = {milliseconds}")
        self.do(f"SET idle_in_transaction_session_timeout = {milliseconds * 2}")
        if self.connection.server_version >= 140_000:
            # The server notices within a second when this process has been killed.
            self.do("SET client_connection_check_interval = 1000")
        if not request["allow_superuser"]:
            self._check_role()
        is_read_only = request["do"] != "execute"
        self.do("SET default_transaction_read_only = on" if is_read_only else "SELECT 1")
        self.do("BEGIN READ ONLY" if is_read_only else "BEGIN READ WRITE")

    def do(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[str | None, ...]]:
        """Run one of our own statements; all its rows as text."""
        result = self.connection.exec_params(sql.encode(), [_sent(each) for each in parameters])
        self.check(result)
        return [
            tuple(_decoded(result.get_value(row, column)) for column in range(result.nfields))
            for row in range(result.ntuples)
        ]

    def results(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[PGresult]:
        """Run a statement; its results, one for each row and a last one without rows."""
        connection = self.connection
        connection.send_query_params(sql.encode(), [_sent(each) for each in parameters])
        connection.set_single_row_mode()
        while (result := connection.get_result()) is not None:
            self.check(result)
            yield result

    def check(self, result: PGresult) -> None:
        status = self._pq.ExecStatus(result.status)
        good = {"COMMAND_OK", "TUPLES_OK", "SINGLE_TUPLE", "EMPTY_QUERY"}
        if status.name not in good:
            raise Refused(_explained(_said(result.error_message)))

    def _check_role(self) -> None:
        # Whoever is a member of a role can become it, by SET ROLE or set_config.
        rows = self.do(
            "SELECT rolname::text, CASE WHEN rolsuper THEN ' (superuser)' "
            "WHEN rolcreaterole THEN ' (may create roles)' "
            "WHEN rolreplication THEN ' (may replicate)' ELSE '' END FROM pg_roles "
            "WHERE (rolsuper OR rolcreaterole OR rolreplication "
            "OR rolname = ANY (string_to_array($1, ','))) "
            "AND (pg_has_role(session_user, oid, 'MEMBER') "
            "OR pg_has_role(current_user, oid, 'MEMBER')) "
            f"ORDER BY rolsuper DESC, rolname LIMIT {_MAX_TOLD_ROLES}",
            (_ROLES,),
        )
        powers = [f"{_line(name)}{power}" for name, power in rows]
        if powers:
            raise Refused(
                f"the database's user has dangerous rights ({', '.join(powers)}); the server must "
                "be started with a user that has none of them, or with --allow-superuser"
            )


def _queried(session: _Session, request: Mapping[str, Any]) -> dict[str, Any]:
    sql = request["sql"]
    _check_words(sql)
    table = Table(**request["table_bounds"])
    session.do(f"DECLARE agentkit_rows NO SCROLL CURSOR FOR {sql}", request["parameters"])
    n_wanted = table.skip + table.max_rows + 1
    return _collected(session, table, session.results(f"FETCH {n_wanted} FROM agentkit_rows"))


def _executed(session: _Session, request: Mapping[str, Any]) -> dict[str, Any]:
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
    session: _Session, table: Table, results: Iterator[PGresult], *, to_end: bool = False
) -> dict[str, Any]:
    names: list[str] = []
    oids: list[int] = []
    changed: int | None = None
    is_full = False
    for result in results:
        names = names or [_decoded(result.fname(i)) or "" for i in range(result.nfields)]
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


def _types(session: _Session, oids: list[int]) -> list[str]:
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


def _tables(session: _Session) -> str:
    rows = session.do(
        "SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' "
        "WHEN 'f' THEN 'foreign table' ELSE 'table' END, "
        "quote_ident(n.nspname) || '.' || quote_ident(c.relname), "
        "CASE WHEN c.relkind IN ('r', 'm') THEN c.reltuples::bigint END "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition "
        "AND n.nspname NOT IN ('pg_catalog', 'information_schema') "
        "AND n.nspname !~ '^pg_(toast|temp)' AND has_schema_privilege(n.oid, 'USAGE') "
        "AND has_table_privilege(c.oid, 'SELECT') "
        'ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C" LIMIT $1',
        (_MAX_TABLES + 1,),
    )
    lines = [f"{kind} {_line(name)}{_estimate(count)}" for kind, name, count in rows]
    if len(lines) > _MAX_TABLES:
        lines[_MAX_TABLES:] = [f"[more than {_MAX_TABLES} tables; query pg_class for others]"]
    return "\n".join(lines) or "[no tables that this user may read]"


def _described(session: _Session, table: str) -> str:
    ((oid,),) = session.do("SELECT to_regclass($1)::oid::text", (table,))
    found = session.do(
        "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), "
        "CASE WHEN c.relkind IN ('r', 'm') THEN c.reltuples::bigint END "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::oid "
        "AND has_table_privilege(c.oid, 'SELECT')",
        (oid,),
    )
    if not found:
        raise Refused(f"there is no table {table!r} that this user may read; list_tables shows all")
    name, count = found[0]
    columns = session.do(
        "SELECT '  ' || quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod) "
        "|| CASE WHEN a.attnotnull THEN ' not null' ELSE '' END "
        "|| coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') FROM pg_attribute a "
        "LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "
        "WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        (oid,),
    )
    indexes = session.do(
        "SELECT '  ' || pg_get_indexdef(i.indexrelid) FROM pg_index i "
        "JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = $1::oid "
        'ORDER BY c.relname COLLATE "C"',
        (oid,),
    )
    constraints = session.do(
        "SELECT '  ' || quote_ident(conname) || ' ' || pg_get_constraintdef(oid) "
        "FROM pg_constraint WHERE conrelid = $1::oid AND contype IN ('p', 'f', 'u', 'c') "
        "ORDER BY contype = 'p' DESC, conname COLLATE \"C\"",
        (oid,),
    )
    lines = [f"table {_line(name)}{_estimate(count)}"]
    for title, rows in (
        ("columns:", columns),
        ("indexes:", indexes),
        ("constraints:", constraints),
    ):
        if rows:
            lines += [title, *(_line(text) for (text,) in rows)]
    return "\n".join(lines)


def _estimate(count: str | None) -> str:
    """The planner's number of rows; below zero it has never counted."""
    return f", about {count} rows" if count is not None and not count.startswith("-") else ""


def _line(text: str | None) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "replace").decode()
        for char in text or ""
    )


def _check_words(sql: str) -> None:
    if found := _DENIED_WORDS.search(sql):
        raise Refused(f"{found.group()!r} is not allowed here, not even as a name or in a text")


def _sent(parameter: object) -> bytes | None:
    """A parameter as PostgreSQL reads it; it takes the type from where the parameter stands."""
    match parameter:
        case None:
            return None
        case bool():
            return b"true" if parameter else b"false"
        case _:
            return str(parameter).encode()


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _said(message: bytes | str) -> str:
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else message
    return " ".join(text.split())


_HINTS = {
    "statement timeout": "select fewer rows, or use an index",
    "lock timeout": "another session holds a lock; try again later",
    "read-only transaction": "only statements that read are allowed here",
    "multiple commands": "send one statement in each call",
    "syntax error": "only SELECT, VALUES, TABLE and WITH are taken, and one statement in a call",
    "does not exist": "list_tables and describe_table show what there is",
    "out of memory": "select fewer or smaller values",
    "could not determine data type": "cast the parameter, as in $1::integer",
}


def _explained(said: str) -> str:
    hints = [hint for words, hint in _HINTS.items() if words in said]
    return "; ".join([said.removeprefix("ERROR: "), *hints[:1]])
