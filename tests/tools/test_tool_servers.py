"""What all our servers have in common: their listing, their two transports, their command lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.server import MCPServer

from agentkit.toolset import McpServer, Toolset
from agentkit.toolset.provider_forms import DIALECTS, tool_problems
from agentkit_tools import files, notes, search
from agentkit_tools._note_store import NoteStore
from agentkit_tools._root import Root
from agentkit_tools._scan import Scan
from agentkit_tools._serve import READS, make_server, strict_tool
from agentkit_tools._snapshots import Index
from tests.tools.started import TOOLS_FOLDER

pytestmark = pytest.mark.timeout(90)

CLIENT = {"name": "test", "version": "1"}

LIMITS = {"max_text_bytes": 1_000_000, "max_seconds": 10.0}


@contextlib.contextmanager
def built(name: str, folder: Path) -> Iterator[MCPServer]:
    with Root(folder) as root, contextlib.ExitStack() as stack:
        match name:
            case "files":
                yield files.build_server(root)
            case "search":
                index = Index(":memory:", "x", **LIMITS)
                stack.callback(index.close)
                yield search.build_server(index, Scan(root, **LIMITS))
            case "notes":
                store = NoteStore(":memory:")
                stack.callback(store.close)
                yield notes.build_server(store)


WRITING = {
    "files": {
        "delete_file": (True, False),
        "edit_file": (True, False),
        "make_folder": (False, True),
        "move_file": (True, False),
        "write_file": (True, False),
    },
    "search": {"refresh": (False, True)},
    "notes": {"add_note": (False, True), "replace_note": (False, True)},
}
"""Which tools change something, and whether they destroy and may be repeated. The rest reads."""


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("name", WRITING)
async def test_a_listing_is_sorted_described_bounded_and_says_what_changes(name, mode, folder):
    with built(name, folder) as server:
        async with asyncio.timeout(30), Client(server, mode=mode) as client:
            listed = await client.list_tools()
    names = [tool.name for tool in listed.tools]
    assert names == sorted(names)
    if mode == "auto":
        assert (listed.ttl_ms, listed.cache_scope) == (3_600_000, "public")
    for tool in listed.tools:
        assert tool.description
        assert tool.input_schema["additionalProperties"] is False
        hints = tool.annotations
        assert hints.open_world_hint is False
        assert hints.read_only_hint is (tool.name not in WRITING[name])
        if not hints.read_only_hint:
            found = (hints.destructive_hint, hints.idempotent_hint)
            assert found == WRITING[name][tool.name], tool.name
        for argument, schema in tool.input_schema["properties"].items():
            assert_bounded(schema, f"{tool.name}.{argument}")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("name", WRITING)
async def test_no_client_is_promised_news_of_lists_that_never_change(name, mode, folder):
    with built(name, folder) as server:
        async with asyncio.timeout(30), Client(server, mode=mode) as client:
            said = client.server_capabilities
    assert not said.tools.list_changed
    assert not any(getattr(part, "list_changed", False) for part in (said.prompts, said.resources))
    assert not getattr(said.resources, "subscribe", False)


@pytest.mark.parametrize("name", WRITING)
async def test_every_provider_takes_the_tools_as_they_are(name, folder):
    with built(name, folder) as server:
        async with McpServer(alias="it", server=server).connect() as connection:
            assert connection.warnings == ()
            problems = [
                f"{dialect}: {tool.spec.name}: {problem}"
                for tool in connection.tools
                for dialect in DIALECTS
                for problem in tool_problems(tool.spec, dialect)
            ]
    assert problems == []


def assert_bounded(schema: dict, where: str) -> None:
    match schema.get("type"):
        case "string":
            assert "maxLength" in schema, where
        case "integer":
            assert "maximum" in schema, where
        case "array":
            assert "maxItems" in schema, where
            assert_bounded(schema["items"], where)
        case "boolean":
            pass
        case _:
            assert where == "read_lines.end" or where == "read_text.end", where


@pytest.mark.parametrize(
    ("name", "call", "words"),
    [
        ("search", ("search", {"query": "tea"}), "notes/deep/c.md:1-1\n  1| Deep tea."),
        ("notes", ("add_note", {"text": "tea", "tags": ["a"]}), "kept as note 1"),
    ],
)
async def test_a_server_over_stdio_lists_the_same_bytes_and_answers(
    name, call, words, folder, tmp_path
):
    """The listing is that of a server in this process, which has another hash seed."""
    with built(name, folder) as server:
        async with McpServer(alias="it", server=server).connect() as connection:
            digest = Toolset(connection.tools).digest
    place = folder if name == "search" else tmp_path / "notes.db"
    there = McpServer(
        alias="it",
        command=[sys.executable, "-m", f"agentkit_tools.{name}", str(place)],
        env={"PYTHONPATH": TOOLS_FOLDER, "PYTHONHASHSEED": "7"},
        connect_timeout_s=60,
    )
    async with asyncio.timeout(80), there.connect() as connection:
        assert connection.warnings == ()
        output = await connection.call(*call)
        assert not output.is_error
        assert words in output.content
        assert Toolset(connection.tools).digest == digest
        assert connection.warnings == ()


async def test_over_http_it_answers_on_the_loopback_to_local_pages_only(folder):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentkit_tools.files", str(folder), "--http", "0"),
        env={"PYTHONPATH": TOOLS_FOLDER},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(80):
            line = (await process.stderr.readline()).decode()
            url = line.rsplit(" ", 1)[1].strip()
            assert url.startswith("http://127.0.0.1:")
            async with Client(url) as client:
                result = await client.call_tool("read_lines", {"path": "a.txt", "end": 1})
                assert "1| one" in result.content[0].text
                result = await client.call_tool("read_lines", {"path": "file_link"})
                assert result.is_error
            async with httpx2.AsyncClient() as plain:
                request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
                accepts = {"accept": "application/json, text/event-stream"}
                for header in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
                    refused = await plain.post(url, json=request, headers=accepts | header)
                    assert refused.status_code in (403, 421)
            process.send_signal(signal.SIGTERM)
            out, err = await process.communicate()
            assert out == b""
            assert b"Traceback" not in err
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


HANGS = """
import threading
from agentkit_tools._serve import READS, make_server, serve, strict_tool
def hang() -> str:
    "Hang."
    print("hangs", file=__import__("sys").stderr, flush=True)
    threading.Event().wait()
    return ""
serve(make_server("x", "x", [strict_tool(hang, annotations=READS)]), "x", None, ends_within_s=0.1)
"""


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_server_ends_with_its_stdin_also_while_a_call_hangs_in_a_thread(kind):
    theirs, ours = socket.socketpair() if kind == "socket" else (None, None)
    process = subprocess.Popen(
        [sys.executable, "-c", HANGS],
        env={"PYTHONPATH": TOOLS_FOLDER},
        stdin=theirs or subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "hang"}},
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    with process:
        try:
            if theirs and ours:
                theirs.close()
                ours.sendall(data)
            else:
                os.write(process.stdin.fileno(), data)
            assert process.stderr.readline() == b"hangs\n"
            (ours or process.stdin).close()
            assert process.wait(20) == 0
        finally:
            process.kill()


def test_a_port_that_is_taken_or_none_is_said(folder, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert files.main([str(folder), "--http", str(port)]) == 2
    assert f"cannot listen on port {port}: Address already in use" in capsys.readouterr().err
    for bad in ("65536", "-1", "x", "1e3", "²"):
        with pytest.raises(SystemExit):
            files.main([str(folder), f"--http={bad}"])
        assert "is no port; use a number from 0 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("module", [files, notes, search])
def test_help_names_every_option(module, capsys):
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert f"python -m agentkit_tools.{module.__name__.rsplit('.', 1)[1]}" in out
    assert "--http PORT" in out
    assert "Threat model" in out


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_unexpected_error_shows_nothing_of_itself_and_a_refusal_all(is_async):
    from agentkit_tools._errors import Refused

    def act(what: str) -> str:
        """Do it."""
        if what.startswith("refuse"):
            raise Refused(f"use another thing{what[6:]}")
        return {"good": "fine"}[what]

    async def act_later(what: str) -> str:
        """Do it."""
        return act(what)

    act_later.__name__ = "act"
    tool = strict_tool(act_later if is_async else act, annotations=READS, explain="so: {}".format)
    async with Client(make_server("x", "x", [tool]), mode="legacy") as client:
        answers = [
            (await client.call_tool("act", {"what": what})).content[0].text
            for what in ("good", "refuse", "secret")
        ]
        assert answers == [
            "fine",
            "Error executing tool act: so: use another thing",
            "Error executing tool act",
        ]
        long = await client.call_tool("act", {"what": "refuse" + "x" * 99_999})
        assert re.fullmatch(r"Error .*: so: use another thingx+ \.\.\. x+", long.content[0].text)
        assert len(long.content[0].text) < 9000
        many = await client.call_tool("act", {f"extra{n}\n{'x' * 99}": n for n in range(50)})
        assert "and 46 more" in many.content[0].text
        assert len(many.content[0].text) < 1000
        assert "\n" not in many.content[0].text


async def test_slow_calls_leave_the_threads_of_stdin_and_stdout_alone():
    held = threading.Event()

    def wait() -> str:
        """Wait."""
        return f"{held.wait(60)}"

    tool = strict_tool(wait, annotations=READS)
    n_usual = int(anyio.to_thread.current_default_thread_limiter().total_tokens)
    async with Client(make_server("x", "x", [tool]), mode="legacy") as client:
        calls = [asyncio.create_task(client.call_tool("wait", {})) for _ in range(n_usual + 5)]
        try:
            with anyio.fail_after(20):
                await client.list_tools()  # by then all calls wait, or have a thread
                # The transport over stdio reads and writes so.
                await anyio.to_thread.run_sync(str)
        finally:
            held.set()
        answers = await asyncio.gather(*calls)
    assert {answer.content[0].text for answer in answers} == {"True"}


def test_the_servers_leave_the_working_folder_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert notes.main([str(tmp_path / "no" / "notes.db")]) == 2
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("module", "options", "call", "words"),
    [
        (files, [], ("write_file", {"path": "x", "content": "x"}), "wrote x: 1 line, 1 bytes"),
        (files, ["--read-only"], ("write_file", {"path": "x", "content": "x"}), "Unknown tool"),
        (search, [], ("search", {"query": "tea"}), "notes/deep/c.md:1-1"),
        (search, ["--ignore", "notes"], ("search", {"query": "tea"}), "[nothing found; "),
        (search, ["--max-mb", "1"], ("search", {"query": "tea"}), "or 1048576 bytes of text"),
        (search, ["--max-mb", "3"], ("search", {"query": "tea"}), "notes/deep/c.md:1-1"),
        (search, ["--cache", "{cache}"], ("search", {"query": "tea"}), "notes/deep/c.md:1-1"),
        (notes, [], ("add_note", {"text": "x"}), "1: x"),
        (notes, ["--times"], ("add_note", {"text": "x"}), r"1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: x"),
    ],
)
def test_every_option_does_what_it_says(
    module, options, call, words, folder, tmp_path, monkeypatch
):
    for name in ("one.txt", "two.txt"):
        (folder / name).write_text("coffee " * 120_000)
    place = tmp_path / "notes.db" if module is notes else folder
    answers: list[str] = []

    def served(server: MCPServer, what: str, http_port: int | None, **_: float) -> int:
        async def ask() -> None:
            async with Client(server, mode="legacy") as client:
                answers.append((await client.call_tool(*call)).content[0].text)
                if module is notes:
                    answers.append((await client.call_tool("list_notes", {})).content[0].text)

        asyncio.run(ask())
        assert (what, http_port) == (repr(str(place)), 8000)
        return 5

    monkeypatch.setattr(module, "serve", served)
    cache = tmp_path / "cache.db"
    given = [option.format(cache=cache) for option in options]
    assert module.main([str(place), "--http", "8000", *given]) == 5
    pattern = words if module is notes else re.escape(words)
    assert re.search(pattern, answers[-1]), answers
    assert cache.exists() is ("--cache" in options)
