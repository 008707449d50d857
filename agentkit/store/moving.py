"""Runs as JSON Lines, to be read by another database.

The first line says what follows. Then come the segments, the contexts, and each run with its steps.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, RowMapping, Table, insert, select, update

from agentkit.context.canonical import chain_digest, digest
from agentkit.errors import ConfigurationError
from agentkit.journal import JournalError
from agentkit.store.reading import tree_rows, unknown
from agentkit.store.saving import insert_new
from agentkit.store.schema import chain, kept, runs, segments, steps

FORMAT = 2
"""Grows when older versions could not read what newer ones write. Those before are read, too."""

_HEADS = [{"kind": "agentkit runs", "format": each} for each in range(1, FORMAT + 1)]
_NOT_MOVED = ("id", "owner", "seen_at", "n_adopted")
"""What is true in its database only."""


def export(connection: Connection, wanted: Mapping[str, str | None]) -> bytes:
    """Return runs as JSON Lines.

    Args:
        connection: to the database.
        wanted: `run_id`, `session` and `user`, as far as they matter.

    Raises:
        JournalError: there are no such runs.
    """
    rows = _rows(connection, wanted)
    found = [(row, _steps(connection, row), _kept(connection, row)) for row in rows]
    steps_of = [step for _, of_run, _ in found for step in of_run]
    heads = {step[name] for step in steps_of for name in ("head", "back") if step[name]}
    links = _links(connection, heads)
    digests = dict.fromkeys(link["segment"] for link in links)
    digests |= dict.fromkeys(each["segment"] for _, _, texts in found for each in texts)
    lines: list[Any] = [_HEADS[-1]]
    lines += _segments(connection, list(digests))
    lines += [{"kind": "link", **link} for link in links]
    for row, of_run, texts in found:
        run = {name: value for name, value in row.items() if name not in _NOT_MOVED}
        lines.append({"kind": "run", "run": run, "steps": of_run, "kept": texts})
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def import_(connection: Connection, lines: bytes) -> int:
    """Add what was exported; return how many runs are new or have grown.

    Raises:
        JournalError: the lines are damaged, or differ from what is there.
        ConfigurationError: they are no bytes.
    """
    if not isinstance(lines, bytes):
        raise ConfigurationError(
            "import_ takes the bytes that export returned, e.g. Path(...).read_bytes(), "
            f"got {lines!r:.80}"
        )
    n_changed = 0
    for kind, value in _parsed(lines):
        try:
            n_changed += _IMPORTERS[kind](connection, value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise JournalError(f"the export has a damaged {kind}: {error}") from error
    return n_changed


def _rows(connection: Connection, wanted: Mapping[str, str | None]) -> list[RowMapping]:
    names = {name: value for name, value in wanted.items() if value is not None}
    run_id = names.pop("run_id", None)
    if run_id is not None:
        rows = tree_rows(connection, run_id)
        if not rows:
            raise unknown(run_id)
        return [row for row in rows if all(row[name] == names[name] for name in names)]
    query = select(runs).where(*(runs.c[name] == value for name, value in names.items()))
    found = list(connection.execute(query.order_by(runs.c.id)).mappings())
    if names and not found:
        what = " and ".join(f"{name} {value!r}" for name, value in names.items())
        raise JournalError(f"there is no {what} in this journal")
    return found


def _steps(connection: Connection, row: RowMapping) -> list[dict[str, Any]]:
    columns = [each for each in steps.c if each.name != "run"]
    mine = (steps.c.run == row["id"], steps.c.number < row["n_steps"])
    query = select(*columns).where(*mine).order_by(steps.c.number)
    return [dict(each) for each in connection.execute(query).mappings()]


def _kept(connection: Connection, row: RowMapping) -> list[dict[str, Any]]:
    query = select(kept.c.handle, kept.c.segment).where(kept.c.run == row["id"])
    return [dict(each) for each in connection.execute(query.order_by(kept.c.handle)).mappings()]


def _links(connection: Connection, heads: set[str]) -> list[dict[str, Any]]:
    """Return the links of all contexts, the shorter ones first."""
    found: dict[str, dict[str, Any]] = {}
    for head in sorted(heads):
        digest_: str | None = head
        while digest_ is not None and digest_ not in found:
            row = connection.execute(select(chain).where(chain.c.digest == digest_)).mappings()
            found[digest_] = dict(row.one())
            digest_ = found[digest_]["parent"]
    return sorted(found.values(), key=lambda link: (link["depth"], link["digest"]))


def _segments(connection: Connection, digests: list[str]) -> Iterator[dict[str, str]]:
    for each in digests:
        query = select(segments.c.data).where(segments.c.digest == each)
        data = bytes(connection.execute(query).scalar_one())
        yield {"kind": "segment", "digest": each, "data": base64.b64encode(data).decode()}


def _parsed(lines: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    first, *rest = lines.split(b"\n")
    if rest[-1:] != [b""]:
        raise JournalError("the export is cut off: its last line does not end")
    try:
        if json.loads(first) not in _HEADS:
            raise JournalError(f"this is no export that this version reads: {first[:200]!r}")
        for line in rest[:-1]:
            value = json.loads(line)
            if not isinstance(value, dict) or value.get("kind") not in _IMPORTERS:
                raise JournalError(f"the export has a line of no known kind: {line[:200]!r}")
            yield value.pop("kind"), value
    except ValueError as error:
        raise JournalError(f"the export is no JSON Lines: {error}") from error


def _import_segment(connection: Connection, value: Mapping[str, Any]) -> int:
    data = base64.b64decode(value["data"], validate=True)
    if digest(data) != value["digest"]:
        raise ValueError(f"the bytes of segment {value['digest']!r} are others")
    connection.execute(insert_new(connection, segments), {"digest": value["digest"], "data": data})
    return 0


def _import_link(connection: Connection, value: Mapping[str, Any]) -> int:
    if chain_digest(value["parent"], value["segment"]) != value["digest"]:
        raise ValueError(f"the context {value['digest']!r} is another")
    connection.execute(insert_new(connection, chain), dict(value))
    return 0


def _import_run(connection: Connection, value: Mapping[str, Any]) -> int:
    run = value["run"]
    new_steps = [{"back": None, **step} for step in value["steps"]]  # format 1 has none
    query = select(runs).where(runs.c.run_id == run["run_id"])
    there = connection.execute(query).mappings().first()
    if there is None:
        made = insert_new(connection, runs).values(**run, owner="").returning(runs.c.id)
        number = connection.execute(made).scalar()
        if number is None:
            raise JournalError(
                f"run {run['run_id']!r} goes on, and its session {run['session']!r} has another "
                "run here that does: first resume or delete that one"
            )
        old_steps: list[dict[str, Any]] = []
    else:
        number, old_steps = there["id"], _steps(connection, there)
    n_same = min(len(old_steps), len(new_steps))
    if old_steps[:n_same] != new_steps[:n_same]:
        raise JournalError(f"run {run['run_id']!r} is here already, and went another way")
    if len(new_steps) <= n_same:
        return 0
    if there is not None:
        connection.execute(update(runs).where(runs.c.id == number).values(**run, owner=""))
    _insert_all(connection, steps, number, new_steps[n_same:])
    _insert_all(connection, kept, number, value["kept"])
    return 1


def _insert_all(connection: Connection, table: Table, run: int, rows: list[dict[str, Any]]) -> None:
    if rows:
        statement = insert(table) if table is steps else insert_new(connection, table)
        connection.execute(statement, [{"run": run, **row} for row in rows])


_IMPORTERS: Mapping[str, Callable[[Connection, Mapping[str, Any]], int]] = {
    "segment": _import_segment,
    "link": _import_link,
    "run": _import_run,
}
