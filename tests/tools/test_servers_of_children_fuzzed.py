"""Servers that work through child processes: any arguments have an answer or a clean error."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mcp.server import MCPServer

from agentkit_tools import http, python, sql
from agentkit_tools._errors import Refused
from agentkit_tools._fetching import Fetcher
from agentkit_tools._sandbox import Sandbox
from agentkit_tools._web_rules import Rules
from tests.tools.in_process import answer_sql_here
from tests.tools.programs import has_namespaces, interpreter
from tests.tools.test_servers_fuzzed import ODD, call, fuzz, required

pytestmark = pytest.mark.timeout(120)


@contextlib.contextmanager
def sql_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MCPServer]:
    answer_sql_here(monkeypatch)
    file = folder.parent / "any.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS tea (name TEXT)")
    connection.close()
    yield sql.build_server(sql.Database(location=str(file)), may_write=True)


@contextlib.contextmanager
def http_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MCPServer]:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    yield http.build_server(Fetcher(rules=Rules(), resolve=resolve))


@contextlib.contextmanager
def python_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MCPServer]:
    isolation = "namespaces" if has_namespaces() else "limits"
    yield python.build_server(Sandbox(isolation=isolation, interpreter=interpreter(isolation)))


Opened = contextlib.AbstractContextManager[MCPServer]
SERVERS: dict[str, tuple[int, Callable[[Path, pytest.MonkeyPatch], Opened]]] = {
    "http": (25, http_server),
    "python": (4, python_server),
    "sql": (25, sql_server),
}
USUAL = {"string": "tea", "integer": 1, "boolean": False, "array": []}


@pytest.mark.parametrize("name", ["http", "sql"])
def test_no_odd_text_in_any_argument_crashes_a_server(name, folder, secret, monkeypatch):
    with SERVERS[name][1](folder, monkeypatch) as server:
        wanted = [
            (tool.name, ordinary | {argument: [text] if schema.get("type") == "array" else text})
            for tool in asyncio.run(server.list_tools())
            for ordinary in [
                {key: USUAL[tool.input_schema["properties"][key]["type"]] for key in required(tool)}
            ]
            for argument, schema in tool.input_schema["properties"].items()
            for text in [*ODD, *(f"http://{text}" for text in ODD)]
        ]
        asyncio.run(call(server, wanted))


@pytest.mark.parametrize("name", SERVERS)
def test_no_arguments_crash_a_server_or_hang_it(name, folder, secret, monkeypatch):
    max_examples, opened = SERVERS[name]
    with opened(folder, monkeypatch) as server:
        fuzz(server, max_examples)
    assert secret.read_text() == "TOP SECRET\n"


def test_a_failure_that_nobody_expected_would_be_seen():
    """The check above can fail: an exception shows by the tool's name alone."""

    async def broken() -> str:
        raise RuntimeError

    async def refusing() -> str:
        raise Refused("not so")

    tools = [python.strict_tool(each, annotations=python._CONFINED) for each in (broken, refusing)]
    server = python.make_server("x", "x", tools)
    asyncio.run(call(server, [("refusing", {})]))
    with pytest.raises(BaseExceptionGroup) as caught:
        asyncio.run(call(server, [("broken", {})]))
    assert caught.group_contains(AssertionError)
