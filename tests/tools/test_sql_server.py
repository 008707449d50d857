"""The sql server: in both protocol eras, and as a process."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from agentkit_tools.sql import Database, build_server, main
from tests.tools.started import TOOLS_FOLDER, assert_ends_with_stdin

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
        connection.execute("INSERT INTO t VALUES (1), (2)")
    connection.close()
    return path


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("may_write", [False, True])
async def test_the_tools_are_the_same_in_both_protocol_eras(file, mode, may_write):
    server = build_server(Database(location=str(file)), may_write=may_write)
    async with asyncio.timeout(60), Client(server, mode=mode) as client:
        listed = (await client.list_tools()).tools
        reading = {tool.name: tool.annotations.read_only_hint for tool in listed}
        expected = {"describe_table": True, "list_tables": True, "query": True}
        assert reading == expected | ({"execute": False} if may_write else {})
        assert [tool.name for tool in listed] == sorted(reading)
        for tool in listed:
            assert tool.input_schema["additionalProperties"] is False
        result = await client.call_tool("query", {"sql": "SELECT a FROM t", "parameters": []})
        assert result.content[0].text == "columns: a integer\n[1]\n[2]\n[2 rows]"
        for arguments, words in (
            ({"sql": "DELETE FROM t"}, "only statements that read are allowed here"),
            ({"sql": ""}, "at least 1 character"),
            ({"sql": "SELECT 1", "max_rows": 0}, "greater than or equal to 1"),
            ({"sql": "SELECT 1", "parameters": [{}]}, "parameters"),
            ({"sql": "SELECT 1", "write": True}, "there is no such argument"),
        ):
            wrong = await client.call_tool("query", arguments)
            assert wrong.is_error
            assert words in wrong.content[0].text


async def test_it_serves_over_stdio_a_database_named_by_the_environment(file):
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "agentkit_tools.sql", "env:SHOP"],
        env={"PYTHONPATH": TOOLS_FOLDER, "SHOP": str(file)},
    )
    async with asyncio.timeout(80), Client(parameters, read_timeout_seconds=60) as client:
        tables = await client.call_tool("list_tables", {})
        assert tables.content[0].text == "table t, 1 columns"
        endless = (
            "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x FROM c) SELECT count(*) FROM c"
        )
        slow = asyncio.create_task(client.call_tool("query", {"sql": endless}))
        quick = await client.call_tool("query", {"sql": "SELECT sum(a) FROM t"})
        assert "[3]" in quick.content[0].text
        slow.cancel()


def test_it_ends_when_stdin_ends_and_keeps_stdout_clean(file):
    assert_ends_with_stdin("sql", str(file), "--write")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/nonexistent.db"], "there is no file '/nonexistent.db'"),
        (["env:NOT_SET_ANYWHERE"], "the environment has no variable 'NOT_SET_ANYWHERE'"),
        (["oracle://x"], "oracle:// is not known"),
        (["postgresql://x", "--timeout", "inf"], "more than 0 and at most 3600 seconds, not inf"),
        (["postgresql://x", "--timeout", "-1"], "more than 0 and at most 3600 seconds, not -1"),
    ],
)
def test_a_database_that_cannot_be_served_is_said_on_stderr(arguments, words, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
