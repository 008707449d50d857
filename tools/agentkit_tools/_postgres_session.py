"""One connection to PostgreSQL for one request of `sql`, bounded in time and rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentkit_tools._errors import Refused

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

_CONNECT_TIMEOUT_S = 5

_ROLES = (
    "pg_read_server_files,pg_write_server_files,pg_execute_server_program,pg_signal_backend,"
    "pg_signal_autovacuum_worker,pg_create_subscription"
)
_MAX_TOLD_ROLES = 10


class Session:
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
            tuple(decoded(result.get_value(row, column)) for column in range(result.nfields))
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
        """Raise `Refused` with what the server says, if it says an error."""
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
        powers = [f"{line_of(name)}{power}" for name, power in rows]
        if powers:
            raise Refused(
                f"the database's user has dangerous rights ({', '.join(powers)}); the server must "
                "be started with a user that has none of them, or with --allow-superuser"
            )


def line_of(text: str | None) -> str:
    """A text of the database as a part of one line."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "replace").decode()
        for char in text or ""
    )


def _sent(parameter: object) -> bytes | None:
    """A parameter as PostgreSQL reads it; it takes the type from where the parameter stands."""
    match parameter:
        case None:
            return None
        case bool():
            return b"true" if parameter else b"false"
        case _:
            return str(parameter).encode()


def decoded(value: bytes | None) -> str | None:
    """A value as text, whatever its bytes are."""
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
