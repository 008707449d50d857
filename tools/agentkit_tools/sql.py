"""An MCP server over one SQL database, read-only: `python -m agentkit_tools.sql DATABASE`.

DATABASE is an SQLite file, a `postgresql://` URL, or `env:NAME` for either in a variable of the
environment (which keeps a password out of the list of processes). `--write` adds a tool that
changes data; `query` stays read-only even then.

Threat model. Whoever calls the tools (a model, or a document that talks a model into something) is
hostile, and so may be the content of the database; whoever started the server is not.

- `query` changes nothing. SQLite: the file is opened read-only, `query_only` is on, and each part
  of a statement passes an authorizer that knows nothing but reading: no ATTACH, PRAGMA, VACUUM
  INTO, extensions or file functions. PostgreSQL: a read-only transaction, and a cursor whose
  grammar takes nothing but SELECT, VALUES, TABLE and WITH; values are bound apart from the text,
  which must be a single statement.
- PostgreSQL functions can act outside a transaction. The server refuses to work as a user that is,
  or can become by membership, a superuser, a role that may create roles or replicate, or one of the
  roles that reach files, programs and other sessions (`--allow-superuser` lifts this). It refuses
  the names of such functions, and of those known to run a text as SQL, wherever they stand. The
  names are a help and no wall: functions of your own and of extensions can do the same under other
  names. Connect as a user that may SELECT and nothing else.
- `execute` changes data and tables. For PostgreSQL it takes no DO, SET, COPY, CALL or transactions,
  makes or alters no roles, databases, servers or extensions, and grants no roles, whatever the user
  may. How much is written is bounded by the time of a statement alone.
- All that the database's user may read can be read: there is no check by table or row. Give the
  user, or the file, no more than the model may see.
- Each statement runs in a child process with bounds on time, processor time and memory, so that
  neither endless recursion nor a pattern or value made to explode takes the server with it. Rows,
  cells and answers are bounded. What PostgreSQL itself spends on a statement is bounded by
  `statement_timeout` and by its own settings.
- A change that is stopped is undone. SQLite is given ten seconds to do so; when it is killed
  before, or another program was, the next call undoes the rest (with `--write`; without it, calls
  say that a program that may write has to open the file once).
- Values are data from strangers. They are shown as JSON, so that none can pass for another row.

The server speaks on stdout and logs to stderr; it ends when its stdin does.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

from mcp.server import MCPServer
from pydantic import Field

from agentkit_tools._errors import Refused
from agentkit_tools._serve import (
    CHANGES,
    READS,
    has_package,
    log,
    make_parser,
    make_server,
    serve,
    strict_tool,
)
from agentkit_tools._sql_database import Database
from agentkit_tools._text import MAX_ANSWER_CHARS
from agentkit_tools._worker import Worker, WorkerFailed

_MAX_SQL_CHARS = 100_000
_MAX_PARAMETERS = 500
_MAX_CELL_CHARS = 2000
_TABLE_CHARS = MAX_ANSWER_CHARS - 4000
"""Left free for the names of columns and notes."""

_MAX_HEAD_CHARS = 3000
_MAX_MEMORY_BYTES = 1024 * 1024 * 1024
_MAX_FILE_BYTES = 16 * 1024 * 1024
"""What a reading child may write: the index that SQLite keeps beside a database in WAL mode."""

_MAX_WRITTEN_BYTES = 2**40
_UNDO_TIMEOUT_S = 300.0

Value = str | int | float | bool | None

_Sql = Annotated[
    str, Field(min_length=1, max_length=_MAX_SQL_CHARS, description="one SQL statement")
]
_Parameters = Annotated[
    list[Value],
    Field(
        max_length=_MAX_PARAMETERS,
        description="values for the placeholders in sql: ? in SQLite, $1, $2 in PostgreSQL",
    ),
]


def build_server(database: Database, *, may_write: bool = False) -> MCPServer:
    """The server over a database; it is opened for each call, and not before."""
    tools = SqlTools(database, may_write=may_write)
    made = [strict_tool(each, annotations=READS) for each in tools.reading]
    if may_write:
        made.append(strict_tool(tools.execute, annotations=CHANGES))
    # Not every client shows a model the instructions of a server.
    named = [
        tool.model_copy(update={"description": f"{tool.description} ({database.dialect})"})
        for tool in made
    ]
    rights = "reads and changes" if may_write else "reads"
    return make_server(
        "agentkit-sql",
        f"Looks at and {rights} one {database.dialect} database. "
        "Call list_tables and describe_table before you query.",
        named,
    )


class SqlTools:
    """The tools. Each returns text for a model, or raises `Refused` with what to do instead.

    `may_write`: reading, too, may undo what a change that was broken off left behind.
    """

    def __init__(self, database: Database, *, may_write: bool = False) -> None:
        self._database = database
        self._may_write = may_write
        self._reader = self._worker(_MAX_FILE_BYTES)
        # SQLite undoes a change that it breaks off itself, not one that it is killed in.
        self._writer = self._worker(_MAX_WRITTEN_BYTES, ends_itself=not database.is_postgres)
        self.reading = (self.list_tables, self.describe_table, self.query)

    async def list_tables(self) -> str:
        """List the tables and views of the database."""
        return _cut(await self._ask(self._reader, {"do": "tables"}))

    async def describe_table(
        self,
        table: Annotated[
            str, Field(min_length=1, max_length=300, description="name, as list_tables shows it")
        ],
    ) -> str:
        """Describe a table: columns with types, keys, indexes and the number of rows."""
        return _cut(await self._ask(self._reader, {"do": "describe", "table": table}))

    async def query(
        self,
        sql: _Sql,
        parameters: _Parameters = [],  # noqa: B006 - never changed; a schema shows it as []
        max_rows: Annotated[int, Field(ge=1, le=1000, description="rows to show at most")] = 100,
        offset: Annotated[
            int, Field(ge=0, le=1_000_000, description="rows to leave out first, for more pages")
        ] = 0,
    ) -> str:
        """Run one statement that reads, such as SELECT. Each row comes as a JSON array.

        Use ORDER BY to page with offset, and parameters for values.
        """
        request = {"do": "query", "sql": sql, "parameters": parameters}
        bounds = {"max_rows": max_rows, "skip": offset}
        return _shown(await self._run(self._reader, request, bounds), offset)

    async def execute(
        self,
        sql: _Sql,
        parameters: _Parameters = [],  # noqa: B006 - never changed; a schema shows it as []
    ) -> str:
        """Run one statement that changes data or tables. It is committed when it succeeds."""
        request = {"do": "execute", "sql": sql, "parameters": parameters}
        return _shown(await self._run(self._writer, request, {"max_rows": 100, "skip": 0}), 0)

    async def _run(
        self, worker: Worker, request: dict[str, Any], bounds: dict[str, int]
    ) -> dict[str, Any]:
        for text in (request["sql"], *request["parameters"]):
            if isinstance(text, str) and ("\0" in text or not _is_unicode(text)):
                raise Refused("sql and parameters may have neither NUL nor half surrogate pairs")
        bounds = {**bounds, "max_chars": _TABLE_CHARS, "max_cell_chars": _MAX_CELL_CHARS}
        return await self._ask(worker, {**request, "table_bounds": bounds})

    async def _ask(self, worker: Worker, request: dict[str, Any]) -> dict[str, Any]:
        reply = await self._reply(worker, request, self._database.timeout_s)
        if self._may_write and reply.get("is_unfinished"):
            undone = await self._reply(self._writer, {"do": "undo"}, _UNDO_TIMEOUT_S)
            reply = (
                undone
                if "refused" in undone
                else await self._reply(worker, request, self._database.timeout_s)
            )
        if "refused" in reply:
            raise Refused(str(reply["refused"])[:2000])
        return reply

    async def _reply(
        self, worker: Worker, request: dict[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        asked = {**request, **self._database.address(), "timeout_s": timeout_s}
        try:
            return await worker.run(asked, timeout_s)
        except WorkerFailed as failed:
            raise Refused(
                f"the statement was stopped, because it took too much ({failed.reason}): select "
                "fewer or smaller values, and avoid long patterns and endless recursion"
            ) from None

    def _worker(self, max_file_bytes: int, *, ends_itself: bool = False) -> Worker:
        # libpq reads its own settings, such as PGSSLROOTCERT or a password file below HOME.
        wanted = {name: value for name, value in os.environ.items() if name.startswith("PG")}
        home = {"HOME": os.environ["HOME"]} if "HOME" in os.environ else {}
        return Worker(
            module="_sql_worker",
            timeout_s=self._database.timeout_s,
            max_memory_bytes=_MAX_MEMORY_BYTES,
            max_file_bytes=max_file_bytes,
            ends_itself=ends_itself,
            with_packages=self._database.is_postgres,
            env={**wanted, **home} if self._database.is_postgres else {},
        )


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _shown(reply: dict[str, Any], offset: int) -> str:
    """The rows, under a line with the columns and above one that says how many there are."""
    lines: list[str] = reply["lines"]
    if not reply["columns"]:
        return f"[done; {reply.get('changed') or 0} rows changed]"
    head = ", ".join(f"{name} {kind}".strip() for name, kind in reply["columns"])
    if len(head) > _MAX_HEAD_CHARS:
        head = f"{head[:_MAX_HEAD_CHARS]}... [{len(reply['columns'])} columns]"
    n_rows = f"{len(lines)} row{'s' * (len(lines) != 1)}"
    notes = [n_rows if not offset else f"{n_rows} from offset {offset}"]
    if reply["has_more"]:
        notes.append(f"there are more: go on with offset={offset + len(lines)} and an ORDER BY")
    if reply["n_cut"]:
        notes.append(f"{reply['n_cut']} long values were cut: select parts with substr")
    return "\n".join([f"columns: {' '.join(head.split())}", *lines, f"[{'; '.join(notes)}]"])


def _cut(reply: dict[str, Any]) -> str:
    text: str = reply["text"]
    if len(text) <= MAX_ANSWER_CHARS:
        return text
    return f"{text[: MAX_ANSWER_CHARS - 100]}\n[cut here; query the catalog for the rest]"


def main(arguments: list[str] | None = None) -> int:
    """Serve until stdin ends. Returns the exit code."""
    parser = make_parser("sql", __doc__)
    parser.add_argument(
        "database", help="a file of SQLite, a postgresql:// URL, or env:NAME of a variable with one"
    )
    parser.add_argument(
        "--write", action="store_true", help="add the tool execute, which changes data"
    )
    parser.add_argument(
        "--allow-superuser",
        action="store_true",
        help="work as a PostgreSQL user that can read the server's files and run its programs",
    )
    parser.add_argument(
        "--timeout", type=float, default=10.0, metavar="S", help="for one statement (default: 10)"
    )
    options = parser.parse_args(arguments)
    try:
        database = Database(
            location=_location(options.database),
            allow_superuser=options.allow_superuser,
            timeout_s=options.timeout,
        )
    except ValueError as error:
        log(f"cannot serve: {error}")
        return 2
    if database.is_postgres and not has_package("psycopg"):
        log(
            "cannot serve: PostgreSQL needs psycopg; "
            "in a checkout run: pip install -c requirements.lock '.[store]'"
        )
        return 2
    server = build_server(database, may_write=options.write)
    return serve(server, f"one {database.dialect} database", options.http)


def _location(given: str) -> str:
    if not given.startswith("env:"):
        return given
    name = given.removeprefix("env:")
    if not os.environ.get(name):
        raise ValueError(f"the environment has no variable {name!r}")
    return os.environ[name]


if __name__ == "__main__":
    sys.exit(main())
