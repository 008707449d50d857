"""What is in an SQLite database, in words of bounded length: its tables, and one of them."""

from __future__ import annotations

import re
import sqlite3

from agentkit_tools._errors import Refused

_COUNTED_ROWS = 100_000
_MAX_TABLES = 500
_MAX_PART_CHARS = 2000


def tables(connection: sqlite3.Connection) -> str:
    """The tables and views, one in a line."""
    rows = connection.execute(
        "SELECT name, type, ncol FROM pragma_table_list WHERE schema = 'main' "
        "AND type IN ('table', 'view', 'virtual') AND name NOT LIKE 'sqlite@_%' ESCAPE '@' "
        "ORDER BY name LIMIT ?",
        (_MAX_TABLES + 1,),
    ).fetchall()
    lines = [f"{kind} {_name(name)}, {n_columns} columns" for name, kind, n_columns in rows]
    if len(lines) > _MAX_TABLES:
        lines[_MAX_TABLES:] = [f"[more than {_MAX_TABLES} tables; query sqlite_schema for others]"]
    return "\n".join(lines) or "[no tables]"


def described(connection: sqlite3.Connection, table: str) -> str:
    """A table with its columns, indexes and foreign keys.

    Raises:
        Refused: there is no such table.
    """
    found = connection.execute(
        "SELECT name, type FROM pragma_table_list WHERE schema = 'main' "
        "AND name = ? COLLATE NOCASE",
        (table,),
    ).fetchone()
    if found is None:
        raise Refused(f"there is no table {table!r}; list_tables shows all")
    name, kind = found
    lines = [f"{kind} {_name(name)}, {_row_count(connection, name)}", "columns:"]
    lines += _columns(connection, name)
    for title, part in (
        ("indexes:", _indexes(connection, name)),
        ("foreign keys:", _foreign_keys(connection, name)),
    ):
        if part:
            lines += [title, *part]
    return "\n".join(lines)


def _row_count(connection: sqlite3.Connection, table: str) -> str:
    (count,) = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {_quoted(table)} LIMIT {_COUNTED_ROWS + 1})"
    ).fetchone()
    return f"more than {_COUNTED_ROWS} rows" if count > _COUNTED_ROWS else f"{count} rows"


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    lines = []
    for name, kind, is_not_null, default, key in connection.execute(
        'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?) '
        "WHERE hidden <> 1 ORDER BY cid",
        (table,),
    ):
        parts = [_name(name), _line(kind.lower())]
        parts += ["not null"] * bool(is_not_null)
        parts += [f"default {_line(str(default))}"] * (default is not None)
        parts += [f"primary key {key}"] * bool(key)
        lines.append("  " + " ".join(part for part in parts if part))
    return lines


def _indexes(connection: sqlite3.Connection, table: str) -> list[str]:
    lines = []
    for name, is_unique, is_partial in connection.execute(
        'SELECT name, "unique", partial FROM pragma_index_list(?) ORDER BY name', (table,)
    ).fetchall():
        columns = connection.execute(
            "SELECT name FROM pragma_index_info(?) ORDER BY seqno", (name,)
        ).fetchall()
        names = ["(expression)" if column is None else _name(column) for (column,) in columns]
        marks = " unique" * bool(is_unique) + " partial" * bool(is_partial)
        lines.append(f"  {_name(name)} on {', '.join(names)}{marks}")
    return lines


def _foreign_keys(connection: sqlite3.Connection, table: str) -> list[str]:
    keys: dict[int, tuple[str, list[str], list[str]]] = {}
    for number, target, source, to in connection.execute(
        'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq',
        (table,),
    ):
        _, sources, targets = keys.setdefault(number, (target, [], []))
        sources.append(_name(source))
        targets.append(_name(to) if to is not None else "primary key")
    lines = [
        f"  {', '.join(sources)} -> {_name(target)}({', '.join(targets)})"
        for target, sources, targets in keys.values()
    ]
    return sorted(lines)


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _name(name: str) -> str:
    """A name for one line: as it is when it is plain, else quoted as SQL has it, and escaped."""
    if re.fullmatch(r"\w+", name):
        return name
    return _line(_quoted(name))


def _line(text: str) -> str:
    """A text from the schema, as a part of one line: escaped, and cut when it is long."""
    cut = text if len(text) <= _MAX_PART_CHARS else f"{text[:_MAX_PART_CHARS]}..."
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "replace").decode()
        for char in cut
    )
