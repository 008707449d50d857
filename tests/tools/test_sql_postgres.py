"""PostgreSQL: a real server; reading works, and nothing but reading, whatever is tried."""

from __future__ import annotations

import time
from collections.abc import Iterator

import anyio
import psycopg
import pytest

from agentkit_tools._errors import Refused
from agentkit_tools._postgres import _check_changing, answer
from agentkit_tools.sql import Database, SqlTools
from tests.agentkit.store import postgres
from tests.tools.in_process import answer_sql_here

pytestmark = pytest.mark.timeout(120)

SCHEMA = """
CREATE TABLE customers (
    id int PRIMARY KEY, name varchar(20) NOT NULL DEFAULT 'x', photo bytea, since timestamptz,
    CONSTRAINT long_names CHECK (length(name) > 0)
);
CREATE TABLE orders (
    number int, line int, customer int REFERENCES customers, total numeric(10, 2),
    PRIMARY KEY (number, line)
);
CREATE INDEX orders_by_customer ON orders (customer) WHERE total > 0;
CREATE VIEW big_orders AS SELECT * FROM orders WHERE total > 100;
CREATE SCHEMA hidden;
CREATE TABLE hidden.secrets (secret text);
INSERT INTO customers VALUES (1, 'Ada', '\\x00ff', '2026-01-02T03:04:05Z'), (2, 'NULL', NULL, NULL);
CREATE FUNCTION sneaky() RETURNS int LANGUAGE plpgsql AS $$
    BEGIN DELETE FROM customers; RETURN 1; END $$;
CREATE SEQUENCE counter;
GRANT SELECT ON customers, orders, big_orders TO reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON customers TO writer;
GRANT USAGE ON SEQUENCE counter TO reader;
ALTER ROLE reader SET timezone = 'UTC';
ALTER ROLE writer SET timezone = 'UTC';
"""
BOUNDS = {"max_rows": 5, "max_chars": 1000, "max_cell_chars": 50, "skip": 0}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres.server() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE ROLE reader LOGIN")
            connection.execute("CREATE ROLE writer LOGIN")
            connection.execute("CREATE ROLE spy LOGIN IN ROLE pg_read_server_files")
            connection.execute("CREATE ROLE inherits LOGIN NOINHERIT IN ROLE spy")
            connection.execute("CREATE ROLE member LOGIN NOINHERIT IN ROLE t")
            connection.execute("CREATE ROLE granter CREATEROLE")
            connection.execute("CREATE ROLE clerk LOGIN IN ROLE granter")
        yield url


@pytest.fixture(scope="module")
def url(server: str) -> Iterator[str]:
    with postgres.database(server, "sqltools") as made:
        with psycopg.connect(made, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        yield made


def of(url: str, user: str) -> Database:
    return Database(location=url.replace("//t@", f"//{user}@"), timeout_s=5)


@pytest.fixture
def tools(url: str) -> SqlTools:
    return SqlTools(of(url, "reader"))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_sql_here(monkeypatch)


def customers(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM customers").fetchone()
    assert row is not None
    return int(row[0])


async def test_tables_are_listed_and_described(here, tools):
    assert await tools.list_tables() == (
        "view public.big_orders\ntable public.customers\ntable public.orders"
    )
    assert await tools.describe_table("customers") == (
        "table public.customers\ncolumns:\n  id integer not null\n"
        "  name character varying(20) not null default 'x'::character varying\n"
        "  photo bytea\n  since timestamp with time zone\n"
        "indexes:\n  CREATE UNIQUE INDEX customers_pkey ON public.customers USING btree (id)\n"
        "constraints:\n  customers_pkey PRIMARY KEY (id)\n"
        "  long_names CHECK ((length((name)::text) > 0))"
    )
    described = await tools.describe_table("public.orders")
    assert "orders_customer_fkey FOREIGN KEY (customer) REFERENCES customers(id)" in described
    for name in ("nope", "hidden.secrets", "x'; DROP TABLE customers; --", 'a"b', "a.b.c.d"):
        with pytest.raises(Refused):
            await tools.describe_table(name)


async def test_rows_come_as_json_with_types(tools):
    assert await tools.query("SELECT * FROM customers ORDER BY id") == (
        "columns: id integer, name character varying, photo bytea, since timestamp with time zone\n"
        '[1,"Ada",{"hex":"00ff"},"2026-01-02 03:04:05+00"]\n[2,"NULL",null,null]\n[2 rows]'
    )
    assert await tools.query(
        "SELECT true, 1.50::numeric, 'NaN'::float8, 'x'::text, '{\"a\": 1}'::jsonb, "
        "ARRAY[1, 2], 1e400"
    ) == (
        "columns: ?column? boolean, numeric numeric, float8 double precision, text text, "
        "jsonb jsonb, array integer[], ?column? numeric\n"
        '[true,1.50,"NaN","x","{\\"a\\": 1}","{1,2}","1' + "0" * 400 + '"]\n[1 row]'
    )
    assert (await tools.query("VALUES (1), (2)")).endswith("[1]\n[2]\n[2 rows]")
    assert (await tools.query("TABLE orders")).endswith("[0 rows]")
    assert (await tools.query("WITH c AS (SELECT 1 AS a) SELECT a FROM c -- end")).endswith(
        "[1 row]"
    )


async def test_values_are_bound_apart_from_the_statement(here, tools):
    sql = "SELECT count(*) FROM customers WHERE name = $1 OR name LIKE '%z%'"
    assert "[0]" in await tools.query(sql, ["' OR 1=1 --"])
    assert "[1]" in await tools.query(sql, ["NULL"])
    typed = "SELECT $1::int, $2::float8, $3::bool, $4::text, $5::int"
    assert '[1,1.5,true,"ß",null]' in await tools.query(typed, [1, 1.5, True, "ß", None])
    for wrong in ([], [1, 2]):
        with pytest.raises(Refused):
            await tools.query("SELECT $1::int", wrong)
    with pytest.raises(Refused, match="invalid input syntax"):
        await tools.query("SELECT $1::int", ["x"])


@pytest.mark.parametrize("user", ["reader", "writer"])
@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM customers",
        "INSERT INTO customers VALUES (9, 'x') RETURNING id",
        "WITH gone AS (DELETE FROM customers RETURNING 1) SELECT * FROM gone",
        "SELECT * INTO copied FROM customers",
        "SELECT * FROM customers FOR UPDATE",
        "SELECT sneaky()",
        "SELECT nextval('counter')",
        "SELECT 1; DELETE FROM customers",
        "SELECT 1; COMMIT; DELETE FROM customers",
        "SELECT 1) TO STDOUT; --",
        "COPY customers TO PROGRAM 'id'",
        "COPY (SELECT 1) TO '/tmp/x'",
        "COPY customers FROM STDIN",
        "SET transaction_read_only = off",
        "RESET ALL",
        "SET SESSION AUTHORIZATION t",
        "BEGIN",
        "ROLLBACK",
        "DO $$ BEGIN DELETE FROM customers; END $$",
        "CALL x()",
        "LISTEN x",
        "LOAD 'x'",
        "CREATE TEMP TABLE x (a int)",
        "EXPLAIN ANALYZE DELETE FROM customers",
        "LOCK customers",
        "VACUUM",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT set_config('statement_timeout', '0', false)",
        "SELECT SET_CONFIG('role', 'none', false)",
        "SELECT \"set_config\"('statement_timeout', '0', false)",
        "SELECT U&\"set\\005fconfig\"('statement_timeout', '0', false)",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_ls_dir('/')",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity",
        "SELECT pg_cancel_backend(1)",
        "SELECT pg_reload_conf()",
        "SELECT lo_import('/etc/passwd')",
        "SELECT lo_export(1, '/tmp/x')",
        "SELECT dblink_exec('host=x', 'DELETE FROM customers')",
        "SELECT query_to_xml('SELECT set_' || 'config(1)', true, true, '')",
        "SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery')",
        "SELECT \"ts_rewrite\"('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery')",
        "SELECT * FROM ts_stat('SELECT ''a''::tsvector')",
        "SELECT table_to_xml('customers', true, true, '')",
        "SELECT schema_to_xml('public', true, true, '')",
        "SELECT pg_notify('x', 'y')",
        "SELECT pg_advisory_lock(1)",
        "SELECT * FROM hidden.secrets",
        "",
        ";",
        "SELEC 1",
    ],
)
def test_a_statement_that_is_not_plain_reading_is_refused(url, user, sql):
    database = of(url, user)
    request = {"do": "query", "sql": sql, "parameters": [], "table_bounds": BOUNDS}
    with pytest.raises(Refused) as caught:
        answer({**request, **database.address()}, 5.0)
    assert str(caught.value)
    assert customers(url) == 2


@pytest.mark.parametrize("sql", ["SELECT 1\0; DELETE FROM customers", "SELECT '\ud800'"])
async def test_a_text_that_a_statement_cannot_hold_is_refused(tools, sql):
    with pytest.raises(Refused, match="neither NUL nor half surrogate pairs"):
        await tools.query(sql)


@pytest.mark.parametrize("user", ["t", "spy", "inherits", "member", "clerk"])
async def test_a_user_with_dangerous_rights_is_refused_unless_that_is_wanted(here, url, user):
    database = of(url, user)
    for call in (SqlTools(database).list_tables(), SqlTools(database).query("SELECT 1")):
        with pytest.raises(Refused, match=r"dangerous rights .*--allow-superuser"):
            await call
    allowed = Database(location=database.location, allow_superuser=True)
    assert "[1]" in await SqlTools(allowed).query("SELECT 1")


async def test_even_a_superuser_changes_nothing_by_a_query(here, url):
    tools = SqlTools(Database(location=url, allow_superuser=True))
    for sql in (
        "SELECT sneaky()",
        "WITH gone AS (DELETE FROM customers RETURNING 1) SELECT * FROM gone",
        "COPY (SELECT 1) TO PROGRAM 'touch /tmp/never'",
        "SELECT pg_read_file('/etc/passwd')",
    ):
        with pytest.raises(Refused):
            await tools.query(sql)
    assert customers(url) == 2


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT pg_sleep(100)", "select fewer"),
        ("SELECT count(*) FROM generate_series(1, 10000000000)", "select fewer"),
        (
            "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT 1 FROM c) SELECT sum(x) FROM c",
            "select fewer",
        ),
        ("SELECT repeat('x', 1000000000)", "select fewer"),
        ("SELECT repeat('x', 200000000) FROM generate_series(1, 20)", "select fewer"),
        ("SELECT array_agg(x) FROM generate_series(1, 100000000) x", "select fewer|exceeds"),
    ],
)
async def test_a_statement_that_would_take_everything_is_stopped(url, sql, words):
    database = Database(location=of(url, "reader").location, timeout_s=1.5)
    started = time.monotonic()
    with pytest.raises(Refused, match=words):
        await SqlTools(database).query(sql)
    assert time.monotonic() - started < 25


async def test_results_are_bounded_and_say_how_to_go_on(here, tools):
    text = await tools.query("SELECT i FROM generate_series(1, 30) i", max_rows=10, offset=15)
    lines = text.splitlines()
    assert (lines[1], lines[10]) == ("[16]", "[25]")
    assert "there are more: go on with offset=25" in lines[11]
    rest = await tools.query("SELECT i FROM generate_series(1, 30) i", offset=25)
    assert rest.endswith("[5 rows from offset 25]")
    endless = await tools.query("SELECT generate_series(1, 1000000000000)", max_rows=2)
    assert "[2 rows; there are more" in endless
    cut = await tools.query("SELECT repeat('y', 5000), decode(repeat('00', 5000), 'hex')")
    assert "... [5000 characters]" in cut
    assert '...","bytes":5000}]' in cut
    wide = await tools.query("SELECT repeat('z', 1000) FROM generate_series(1, 900)", max_rows=900)
    assert 30_000 < len(wide) <= 38_000


async def test_a_call_that_is_cancelled_ends_the_statement_in_the_server(url, tools):
    async with anyio.create_task_group() as group:
        group.start_soon(tools.query, "SELECT pg_sleep(4.5), 'sleeper'")
        assert await anyio.to_thread.run_sync(_within, 20, lambda: _sleepers(url) == 1)
        group.cancel_scope.cancel()
    assert await anyio.to_thread.run_sync(_within, 20, lambda: _sleepers(url) == 0)


def _sleepers(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader' AND state = 'active'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def _within(seconds: float, holds) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


async def test_writing_is_a_tool_of_its_own(here, url):
    tools = SqlTools(of(url, "writer"))
    done = await tools.execute("INSERT INTO customers (id, name) VALUES ($1, $2)", [7, "Bob"])
    assert done == "[done; 1 rows changed]"
    assert customers(url) == 3
    returned = await tools.execute("DELETE FROM customers WHERE id = $1 RETURNING name", [7])
    assert returned == 'columns: name character varying\n["Bob"]\n[1 row]'
    for sql in (
        "INSERT INTO customers (id) VALUES (8); COMMIT",
        "COPY customers FROM STDIN",
        "/* x */ COMMIT",
        "SET ROLE t",
        "DO $$ BEGIN END $$",
        "/* /* */ select */ DO $$ BEGIN END $$",
        "--\rDO $$ BEGIN END $$ /*\nselect */",
        "/*",
        "ALTER ROLE writer SET search_path = 'hidden'",
        "alter /* own */ user writer PASSWORD 'x'",
        "DROP TABLE customers",
        "INSERT INTO customers (id) VALUES (1)",
        "SELECT pg_terminate_backend(1)",
    ):
        with pytest.raises(Refused):
            await tools.execute(sql)
    assert customers(url) == 2


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("CREATE OR REPLACE LANGUAGE plperl", "language"),
        ("create trusted /* a */ procedural language plperl", "language"),
        ("DROP OWNED BY writer", "owned"),
        ("GRANT writer TO reader", "role"),
        ('grant /* on */ "on" -- on\n, " on " TO reader', "role"),
        ("REVOKE ADMIN OPTION FOR writer FROM reader", "role"),
        ("CREATE OR REPLACE VIEW small AS SELECT 1", None),
        ('GRANT SELECT ("to", name) ON customers TO reader', None),
        ("REVOKE GRANT OPTION FOR SELECT ON customers FROM reader", None),
    ],
)
def test_tables_are_changed_and_granted_and_nothing_beyond(sql, why):
    if why is None:
        _check_changing(sql)
    else:
        with pytest.raises(Refused, match=f"{why} is not allowed here"):
            _check_changing(sql)


@pytest.mark.parametrize(
    "location",
    [
        "postgresql://reader@/postgres?host=/nonexistent",
        "postgresql://reader:secret-word@127.0.0.1:1/x",
        "postgresql://[bad",
        "postgresql://x?nonsense=1",
    ],
)
async def test_a_database_that_cannot_be_reached_is_told_without_the_password(here, location):
    with pytest.raises(Refused) as caught:
        await SqlTools(Database(location=location, timeout_s=5)).list_tables()
    assert "secret-word" not in str(caught.value)
    assert "connect" in str(caught.value)
