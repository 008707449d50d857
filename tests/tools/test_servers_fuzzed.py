"""Whatever the arguments are: an answer or a clean error, in time, and nothing from outside."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.server import MCPServer

from agentkit_tools import files, notes, search
from agentkit_tools._note_store import NoteStore
from agentkit_tools._root import Root
from agentkit_tools._scan import Scan
from agentkit_tools._snapshots import Index

pytestmark = pytest.mark.timeout(120)

MAX_CHARS = 40_000
CALL_SECONDS = 20


@contextlib.contextmanager
def files_server(folder: Path) -> Iterator[MCPServer]:
    with Root(folder) as root:
        yield files.build_server(root)


@contextlib.contextmanager
def search_server(folder: Path) -> Iterator[MCPServer]:
    with Root(folder) as root:
        limits = {"max_text_bytes": 1_000_000, "max_seconds": 10.0}
        index = Index(":memory:", str(folder), **limits)
        yield search.build_server(index, Scan(root, **limits))
        index.close()


@contextlib.contextmanager
def notes_server(folder: Path) -> Iterator[MCPServer]:
    store = NoteStore(":memory:")
    store.add("tea is kept in the left drawer", ("tea",))
    yield notes.build_server(store)
    store.close()


SERVERS: dict[str, Callable[[Path], contextlib.AbstractContextManager[MCPServer]]] = {
    "files": files_server,
    "notes": notes_server,
    "search": search_server,
}

ODD = [
    *("", ".", "..", "../outside/secret.txt", "/etc/passwd", "a.txt", "notes", "notes/b.md"),
    *("file_link", "folder_link/secret.txt", "pipe", "socket", "dangling", "\0", "a\0b", "~"),
    *("．．/x", "‥", "new.txt", "n/e/w", "tea", '"', '"tea', "tea*", "*"),
    *("AND", "NEAR(a b)", "text:tea", "a" * 5000, "[z-a]", "**/**", "(a+)+$", "(", "東京都"),
    *("'; DROP TABLE notes; --", "1", "null", "[]", "\u202e", "\r\n", "a\\nb", ".git/config"),
]
TEXTS = st.sampled_from(ODD) | st.text(max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
FITTING = {
    "string": TEXTS,
    "integer": st.integers(-2, 20) | st.integers(),
    "boolean": st.booleans(),
    "array": st.lists(TEXTS, max_size=9),
}


def argument(schema: dict) -> st.SearchStrategy:
    """Mostly values of the right type, sometimes anything."""
    return st.one_of(
        FITTING.get(schema.get("type"), JSON), FITTING.get(schema.get("type"), JSON), JSON
    )


def required(tool) -> list[str]:
    return tool.input_schema.get("required", [])


def calls(server: MCPServer) -> st.SearchStrategy:
    tools = asyncio.run(server.list_tools())
    return st.one_of(
        [
            st.tuples(
                st.just(tool.name),
                st.fixed_dictionaries(
                    {},
                    optional={
                        name: argument(schema)
                        for name, schema in tool.input_schema["properties"].items()
                    }
                    | {"unknown": JSON},
                ),
            )
            for tool in tools
        ]
    )


async def call(server: MCPServer, wanted: list) -> None:
    """Make the calls in one session, over real JSON-RPC."""
    async with Client(server, mode="legacy") as client:
        for tool, arguments in wanted:
            async with asyncio.timeout(CALL_SECONDS):
                result = await client.call_tool(tool, arguments)
            (block,) = result.content
            # An exception that nobody expected is answered by the tool's name alone.
            assert block.text != f"Error executing tool {tool}", arguments
            assert len(block.text) <= MAX_CHARS
            block.text.encode()
            assert "TOP SECRET" not in block.text


@pytest.mark.parametrize("name", SERVERS)
def test_no_odd_text_in_any_argument_crashes_a_server(name, folder, secret):
    """Each text in each argument, the others as a model would give them."""
    usual = {"string": "a.txt", "integer": 1, "boolean": False, "array": []}
    with SERVERS[name](folder) as server:
        wanted = [
            (tool.name, ordinary | {argument: [text] if schema.get("type") == "array" else text})
            for tool in asyncio.run(server.list_tools())
            for ordinary in [
                {key: usual[tool.input_schema["properties"][key]["type"]] for key in required(tool)}
            ]
            for argument, schema in tool.input_schema["properties"].items()
            for text in ODD
        ]
        asyncio.run(call(server, wanted))
    assert secret.read_text() == "TOP SECRET\n"


def fuzz(server, max_examples):
    """Call the server with any arguments, again and again."""

    @settings(
        max_examples=max_examples,
        deadline=None,
        derandomize=True,
        database=None,
        # Explaining a failure traces every line, also those that build the schemas.
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(calls(server), min_size=5, max_size=12))
    def with_any(wanted):
        asyncio.run(call(server, wanted))

    with_any()


@pytest.mark.parametrize("name", SERVERS)
def test_no_arguments_crash_a_server_or_hang_it(name, folder, secret):
    with SERVERS[name](folder) as server:
        fuzz(server, max_examples=25)
    assert secret.read_text() == "TOP SECRET\n"
    assert [entry.name for entry in secret.parent.iterdir()] == ["secret.txt"]
