"""SQLite: reading works, and nothing but reading, whatever the statement tries."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_tools._errors import Refused
from agentkit_tools._sqlite import answer
from agentkit_tools._table import Number, Table
from agentkit_tools.sql import Database, SqlTools
from tests.tools.in_process import answer_sql_here

pytestmark = pytest.mark.timeout(90)

SCHEMA = """
CREATE TABLE customers (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'x', "odd\nname" BLOB
);
CREATE TABLE orders (
    number INTEGER, line INTEGER, customer INTEGER REFERENCES customers, total REAL,
    PRIMARY KEY (number, line)
);
CREATE INDEX orders_by_customer ON orders (customer, abs(total)) WHERE total > 0;
CREATE VIEW big_orders AS SELECT * FROM orders WHERE total > 100;
INSERT INTO customers VALUES (1, 'Ada', x'00ff'), (2, 'NULL', NULL), (3, 'a' || char(10) || 'b', 7);
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a?b #1.db"
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMA)
    connection.close()
    return path


@pytest.fixture
def tools(file: Path) -> SqlTools:
    return SqlTools(Database(location=str(file), timeout_s=5))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_sql_here(monkeypatch)


def content(file: Path) -> bytes:
    return file.read_bytes()


def asked(file: Path, sql: str) -> dict[str, object]:
    """A request to the child process, for what is quicker to try without one."""
    bounds = {"max_rows": 5, "max_chars": 1000, "max_cell_chars": 50, "skip": 0}
    return {
        "do": "query",
        "path": str(file),
        "sql": sql,
        "parameters": [],
        "table_bounds": bounds,
    }


async def test_tables_are_listed_and_described(here, tools):
    assert await tools.list_tables() == (
        "view big_orders, 4 columns\ntable customers, 3 columns\ntable orders, 4 columns"
    )
    assert await tools.describe_table("customers") == (
        "table customers, 3 rows\ncolumns:\n  id integer primary key 1\n"
        "  name text not null default 'x'\n  \"odd\\nname\" blob"
    )
    assert await tools.describe_table("ORDERS") == (
        "table orders, 0 rows\ncolumns:\n  number integer primary key 1\n"
        "  line integer primary key 2\n  customer integer\n  total real\n"
        "indexes:\n  orders_by_customer on customer, (expression) partial\n"
        "  sqlite_autoindex_orders_1 on number, line unique\n"
        "foreign keys:\n  customer -> customers(primary key)"
    )
    with pytest.raises(Refused, match="there is no table 'nope'; list_tables shows all"):
        await tools.describe_table("nope")
    with pytest.raises(Refused, match="there is no table"):
        await tools.describe_table("customers'; DROP TABLE orders; --")


async def test_rows_come_as_json_with_types(tools):
    assert await tools.query("SELECT * FROM customers ORDER BY id") == (
        "columns: id integer, name text, odd name blob/integer\n"
        '[1,"Ada",{"hex":"00ff"}]\n[2,"NULL",null]\n[3,"a\\nb",7]\n[3 rows]'
    )
    assert await tools.query("SELECT 1e999, -0.5, 9223372036854775807, 'ß', 1 AS x, 1 AS x") == (
        "columns: 1e999 real, -0.5 real, 9223372036854775807 integer, 'ß' text, x integer, "
        'x integer\n["inf",-0.5,9223372036854775807,"ß",1,1]\n[1 row]'
    )
    assert (await tools.query("SELECT 1 WHERE 0")).endswith("\n[0 rows]")


async def test_values_are_bound_apart_from_the_statement(here, tools):
    sql = "SELECT count(*), typeof(?1) FROM customers WHERE name = ?1"
    assert '[0,"text"]' in await tools.query(sql, ["' OR 1=1 --"])
    assert '[1,"text"]' in await tools.query(sql, ["NULL"])
    assert "[null,1.5,1,0]" in await tools.query("SELECT ?, ?, ?, ?", [None, 1.5, True, False])
    with pytest.raises(Refused, match="give one parameter for each"):
        await tools.query("SELECT ?, ?", [1])
    with pytest.raises(Refused):
        await tools.query("SELECT ?", [2**63])
    for sql, value in (("SELECT 1\0; DELETE FROM customers", 1), ("SELECT ?", "\ud800")):
        with pytest.raises(Refused, match="neither NUL nor half surrogate pairs"):
            await tools.query(sql, [value])


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM customers",
        "UPDATE customers SET name = 'x'",
        "INSERT INTO customers (name) VALUES ('x') RETURNING id",
        "REPLACE INTO customers VALUES (1, 'x', NULL)",
        "WITH c AS (SELECT 1) DELETE FROM customers",
        "DROP TABLE customers",
        "CREATE TABLE x (a)",
        "CREATE TEMP TABLE x (a)",
        "CREATE TEMP TRIGGER t AFTER INSERT ON customers BEGIN SELECT 1; END",
        "CREATE VIRTUAL TABLE f USING fts5(a)",
        "ALTER TABLE customers ADD COLUMN x",
        "UPDATE sqlite_master SET sql = 'x'",
        "INSERT INTO sqlite_master VALUES (1, 2, 3, 4, 5)",
        "ATTACH ':memory:' AS x",
        "ATTACH 'file:other.db?mode=rwc' AS x",
        "DETACH main",
        "VACUUM",
        "VACUUM INTO 'copy.db'",
        "REINDEX",
        "ANALYZE",
        "BEGIN IMMEDIATE",
        "COMMIT",
        "SAVEPOINT s",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA journal_mode = WAL",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA temp_store_directory = '/tmp'",
        "PRAGMA user_version = 5",
        "PRAGMA database_list",
        "SELECT * FROM pragma_database_list",
        "SELECT load_extension('/tmp/x.so')",
        "SELECT LOAD_EXTENSION('/tmp/x.so')",
        "SELECT writefile('/tmp/x', 'y')",
        "SELECT readfile('/etc/passwd')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT edit('x', 'sh')",
        "SELECT 1; DELETE FROM customers",
        "SELECT 1;;DELETE FROM customers",
        "EXPLAIN SELECT 1; DROP TABLE customers",
        "/* ; */ DELETE FROM customers -- ;",
        ".shell id",
        "SELEC 1",
        "SELECT * FROM nothing",
    ],
)
def test_a_statement_that_is_not_plain_reading_is_refused_and_changes_nothing(file, sql):
    before = content(file)
    with pytest.raises(Refused) as caught:
        answer(asked(file, sql), 2.0)
    assert str(caught.value)
    assert content(file) == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    "sql",
    [
        "EXPLAIN QUERY PLAN SELECT * FROM orders",
        "PRAGMA table_info(customers)",
        "SELECT * FROM pragma_index_list('orders')",
        "SELECT value FROM json_each('[1, 2]')",
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 3) SELECT * FROM n",
        "VALUES (1), (2)",
        "SELECT name FROM sqlite_schema",
        "SELECT name, rank() OVER (ORDER BY id) FROM customers -- end",
    ],
)
async def test_all_plain_reading_works(here, tools, sql):
    assert "row" in (await tools.query(sql)).splitlines()[-1]


ENDLESS = "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c) "
BLOBS = "WITH RECURSIVE c(x, n) AS (SELECT zeroblob(9000000), 1 UNION ALL SELECT x, n + 1 FROM c) "


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (ENDLESS + "SELECT count(*) FROM c", "takes too long|took too much"),
        (ENDLESS + "SELECT x FROM c WHERE x < 0", "takes too long|took too much"),
        ("SELECT length(printf('%.*c', 1000000000, 'x'))", "took too much|too big|too long"),
        ("SELECT zeroblob(1000000000)", "a value is longer than 16777216 bytes"),
        ("SELECT hex(zeroblob(16000000))", "a value is longer"),
        ("SELECT replace(hex(zeroblob(4000000)), '0', 'aaaa')", "a value is longer"),
        (
            ENDLESS + "SELECT length(group_concat(x, 'xxxxxxxxxxxxxx')) FROM c",
            "longer|too long|too much",
        ),
        (BLOBS + "SELECT n FROM (SELECT x, n FROM c LIMIT 100) ORDER BY x, n", "too much"),
        (
            "SELECT json_group_array(x) FROM (" + ENDLESS + "SELECT x FROM c)",
            "longer|too long|too much",
        ),
        ("SELECT 'a' LIKE '" + "%a" * 1000 + "'", "use a shorter pattern"),
        ("SELECT " + "(" * 2000 + "1" + ")" * 2000, "too large|overflow|depth"),
        ("SELECT " + " + ".join(["1"] * 2000), "too large|depth"),
        ("SELECT 1 " + "UNION ALL SELECT 1 " * 1000, "too many"),
        ("SELECT " + ", ".join(["1"] * 3000), "too many columns"),
    ],
)
async def test_a_statement_that_would_take_everything_is_stopped(file, sql, words):
    tools = SqlTools(Database(location=str(file), timeout_s=1))
    started = time.monotonic()
    with pytest.raises(Refused, match=words):
        await tools.query(sql)
    assert time.monotonic() - started < 20


async def test_results_are_bounded_and_say_how_to_go_on(here, tools):
    rows = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 30) "
    text = await tools.query(rows + "SELECT i FROM n", max_rows=10, offset=15)
    lines = text.splitlines()
    assert (lines[1], lines[10]) == ("[16]", "[25]")
    assert lines[11] == (
        "[10 rows from offset 15; there are more: go on with offset=25 and an ORDER BY]"
    )
    assert (await tools.query(rows + "SELECT i FROM n", offset=25)).endswith(
        "[5 rows from offset 25]"
    )
    cut = await tools.query("SELECT hex(zeroblob(5000)), zeroblob(5000)")
    assert '... [10000 characters]",{"hex":"' in cut
    assert '...","bytes":5000}]' in cut
    assert cut.endswith("[1 row; 2 long values were cut: select parts with substr]")
    wide = await tools.query(rows + "SELECT hex(zeroblob(1000)) FROM n", max_rows=1000)
    assert 30_000 < len(wide) <= 38_000
    assert "go on with offset=1" in wide.splitlines()[-1]


async def test_a_database_that_strangers_made_is_no_danger(here, tmp_path):
    """Views and broken files: what a statement reads may be as hostile as the statement."""
    path = tmp_path / "hostile.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a)")
    connection.execute(f"CREATE VIEW trap AS {ENDLESS} SELECT x FROM c")
    connection.execute("CREATE VIEW loads AS SELECT load_extension('x')")
    connection.execute("INSERT INTO t VALUES (CAST(x'c3' AS TEXT))")
    connection.execute('CREATE TABLE "drop`\'""\x1b[31m" ("a]b\nc")')
    connection.commit()
    connection.close()
    tools = SqlTools(Database(location=str(path), timeout_s=1))
    listed = await tools.list_tables()
    assert "\x1b" not in listed
    assert '["\ufffd"]' in await tools.query("SELECT a FROM t")
    described = await tools.describe_table("drop`'\"\x1b[31m")
    assert "\x1b" not in described
    assert '  "a]b\\nc"' in described
    for sql in ("SELECT count(*) FROM trap", "SELECT * FROM loads"):
        with pytest.raises(Refused):
            await tools.query(sql)
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 4096)
    with pytest.raises(Refused):
        await tools.query("SELECT * FROM t")
    path.write_bytes(b"no database at all, but long enough for a header" * 100)
    with pytest.raises(Refused, match="file is not a database"):
        await tools.list_tables()


async def test_a_database_in_use_and_in_wal_mode_can_be_read(file):
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO customers (name) VALUES ('new')")
    tools = SqlTools(Database(location=str(file)))
    assert "[4]" in await tools.query("SELECT count(*) FROM customers")
    writer.close()
    assert "[4]" in await tools.query("SELECT count(*) FROM customers")


async def test_writing_is_a_tool_of_its_own(here, tools, file):
    assert await tools.execute("INSERT INTO customers (name) VALUES (?)", ["Bob"]) == (
        "[done; 1 rows changed]"
    )
    returned = await tools.execute("UPDATE customers SET name = 'y' RETURNING id")
    assert returned == "columns: id integer\n[1]\n[2]\n[3]\n[4]\n[4 rows]"
    await tools.execute("CREATE VIRTUAL TABLE notes USING fts5(text)")
    await tools.execute("INSERT INTO notes VALUES ('tea and cake')")
    assert "[1 row]" in await tools.query("SELECT * FROM notes WHERE notes MATCH 'cake'")
    for sql in (
        "ATTACH 'other.db' AS x",
        "VACUUM INTO 'copy.db'",
        "PRAGMA journal_mode = OFF",
        "BEGIN",
        "SELECT load_extension('x')",
        "CREATE VIRTUAL TABLE x USING csv(filename='/etc/passwd')",
        "UPDATE sqlite_master SET sql = 'x'",
        "DELETE FROM customers; DELETE FROM orders",
    ):
        with pytest.raises(Refused):
            await tools.execute(sql)
    with pytest.raises(Refused, match="FOREIGN KEY constraint failed"):
        await tools.execute("INSERT INTO orders VALUES (1, 1, 99, 1)")
    assert [path.name for path in file.parent.iterdir()] == [file.name]


async def test_more_rows_than_fit_are_all_changed(here, tools):
    numbers = "WITH RECURSIVE n(i) AS (VALUES (10) UNION ALL SELECT i + 1 FROM n LIMIT 500) "
    sql = f"INSERT INTO customers (id) {numbers} SELECT i FROM n RETURNING id"
    assert "there are more" in await tools.execute(sql)
    assert "[503]" in await tools.query("SELECT count(*) FROM customers")


async def test_a_change_that_is_stopped_leaves_the_database_as_it_was(file):
    tools = SqlTools(Database(location=str(file), timeout_s=1))
    with pytest.raises(Refused, match=r"takes too long|took too much"):
        await tools.execute(f"INSERT INTO customers (name) {ENDLESS} SELECT x FROM c")
    assert "[3]" in await tools.query("SELECT count(*) FROM customers")


async def test_a_change_that_is_cancelled_is_undone_before_its_call_ends(file):
    tools = SqlTools(Database(location=str(file), timeout_s=30), may_write=True)
    journal = file.with_name(f"{file.name}-journal")
    async with anyio.create_task_group() as group:
        group.start_soon(tools.execute, f"INSERT INTO customers (name) {ENDLESS} SELECT x FROM c")
        assert await anyio.to_thread.run_sync(_appears, journal)
        group.cancel_scope.cancel()
    assert not journal.exists()
    assert "[3]" in await tools.query("SELECT count(*) FROM customers")


def _appears(path: Path) -> bool:
    deadline = time.monotonic() + 20
    while not path.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def broken_off(file: Path, tmp_path: Path) -> Path:
    """The database as a program leaves it that is killed while it changes every row."""
    (copy := tmp_path / "killed.db").touch()
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA cache_size = 2")
    numbers = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
    connection.execute(f"INSERT INTO orders {numbers} SELECT 1, i, 1, 0 FROM n")
    connection.execute("BEGIN")
    connection.execute("UPDATE orders SET total = 1e9, customer = 2")
    copy.write_bytes(file.read_bytes())
    journal = file.with_name(f"{file.name}-journal").read_bytes()
    copy.with_name("killed.db-journal").write_bytes(journal)
    connection.close()
    return copy


async def test_a_change_that_was_broken_off_is_undone_by_reading_only_where_writing_is_allowed(
    here, broken_off
):
    before = content(broken_off)
    looks = "SELECT count(*), sum(total) FROM orders"
    only_reads = SqlTools(Database(location=str(broken_off)))
    for ask in (only_reads.query(looks), only_reads.list_tables()):
        with pytest.raises(Refused, match=r"broken off.*must open the database"):
            await ask
    assert content(broken_off) == before
    writes = SqlTools(Database(location=str(broken_off)), may_write=True)
    assert "[3000,0.0]" in await writes.query(looks)
    assert "[3000,0.0]" in await only_reads.query(looks)


async def test_a_schema_adds_no_lines_of_its_own(here, tmp_path):
    path = tmp_path / "forged.db"
    connection = sqlite3.connect(path)
    lines = "x\nindexes:\n  forged\u2028\x85[end]"
    connection.execute(f'CREATE TABLE t (a "{lines}" DEFAULT \'{lines}\', b "{"y" * 9000}")')
    connection.close()
    tools = SqlTools(Database(location=str(path)))
    described = await tools.describe_table("t")
    assert len(described.splitlines()) == 4
    assert len(described) < 3000
    shown = await tools.query("SELECT 'a' || char(8232) || char(133) || 'b' AS x")
    assert shown == 'columns: x text\n["a\\u2028\\u0085b"]\n[1 row]'


async def test_a_call_that_is_cancelled_ends_at_once(tools):
    with anyio.move_on_after(0.5) as scope:
        await tools.query(ENDLESS + "SELECT count(*) FROM c")
    assert scope.cancelled_caught
    assert "[3]" in await tools.query("SELECT count(*) FROM customers")


async def test_many_statements_at_once_have_the_same_results(tools):
    results: list[str] = []

    async def ask() -> None:
        results.append(await tools.query("SELECT * FROM customers"))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(ask)
    assert len(results) == 8
    assert len(set(results)) == 1


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("/nonexistent/x.db", "there is no file '/nonexistent/x.db'"),
        ("mysql://host/db", "mysql:// is not known"),
    ],
)
def test_a_database_that_is_none_is_refused(location, words):
    with pytest.raises(ValueError, match=words):
        Database(location=location)


cells = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text() | st.binary()


@given(rows=st.lists(st.tuples(cells, cells), max_size=8), limit=st.integers(20, 400))
def test_a_table_keeps_its_bounds_whatever_is_in_it(rows, limit):
    table = Table(max_rows=5, max_chars=limit, max_cell_chars=40)
    n_taken = 0
    for row in rows:
        if not table.add(row):
            break
        n_taken += 1
    assert len(table.lines) == n_taken <= 5
    assert table.has_more == (n_taken < len(rows))
    assert len(table.lines) <= 1 or sum(len(line) + 1 for line in table.lines) <= limit
    assert all("\n" not in line for line in table.lines)


def test_numbers_keep_their_digits():
    table = Table(max_rows=1, max_chars=100, max_cell_chars=10)
    table.add((Number("0.10000000000000000000001"), True, None))
    assert table.lines == ["[0.10000000000000000000001,true,null]"]


WORDS = """
    select delete from customers orders where name id = ? 1 'a' ( ) , ; pragma attach as vacuum into
    union all with recursive limit null -- /* */ begin commit drop table insert values explain "
    x'00' like glob order by group_concat(name) zeroblob(100)
"""
statements = st.lists(st.sampled_from(WORDS.split()), max_size=14)


@settings(max_examples=150)
@given(statements)
def test_any_statement_is_answered_or_refused_and_changes_nothing(tmp_path_factory, parts):
    file = _shared_file(tmp_path_factory)
    before = content(file)
    with contextlib.suppress(Refused):
        assert len(answer(asked(file, " ".join(parts)), 1.0)["lines"]) <= 5
    assert content(file) == before


def _shared_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.getbasetemp() / "any-statement.db"
    if not path.exists():
        connection = sqlite3.connect(path)
        connection.executescript(SCHEMA)
        connection.close()
    return path
