"""What is in a PostgreSQL database, in words: its tables, and one of them."""

from __future__ import annotations

from agentkit_tools._errors import Refused
from agentkit_tools._postgres_session import Session, line_of

_MAX_TABLES = 500


def tables(session: Session) -> str:
    """The tables and views that the user may read, one in a line."""
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
    lines = [f"{kind} {line_of(name)}{_estimate(count)}" for kind, name, count in rows]
    if len(lines) > _MAX_TABLES:
        lines[_MAX_TABLES:] = [f"[more than {_MAX_TABLES} tables; query pg_class for others]"]
    return "\n".join(lines) or "[no tables that this user may read]"


def described(session: Session, table: str) -> str:
    """A table with its columns, indexes and constraints.

    Raises:
        Refused: there is no such table, or the user may not read it.
    """
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
    lines = [f"table {line_of(name)}{_estimate(count)}"]
    for title, rows in (
        ("columns:", columns),
        ("indexes:", indexes),
        ("constraints:", constraints),
    ):
        if rows:
            lines += [title, *(line_of(text) for (text,) in rows)]
    return "\n".join(lines)


def _estimate(count: str | None) -> str:
    """The planner's number of rows; below zero it has never counted."""
    return f", about {count} rows" if count is not None and not count.startswith("-") else ""
