"""The files server as a server: in memory in both protocol eras, and as a process over stdio."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client

from agentkit.toolset import McpServer, Toolset
from agentkit_tools._root import Root
from agentkit_tools._text import version_of
from agentkit_tools.files import build_server, main
from tests.tools.started import TOOLS_FOLDER

READING = ["list_files", "read_lines", "search_text"]
ALL = sorted([*READING, "delete_file", "edit_file", "make_folder", "move_file", "write_file"])

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_tools_are_the_same_in_both_protocol_eras(root: Root, mode: str):
    server = build_server(root, read_only=True)
    async with asyncio.timeout(30), Client(server, mode=mode) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == READING
        for tool in listed.tools:
            assert tool.output_schema is None
            assert tool.input_schema["additionalProperties"] is False
            assert tool.description
            assert "  " not in tool.description
        if mode == "auto":
            assert (listed.ttl_ms, listed.cache_scope) == (3_600_000, "public")
        result = await client.call_tool("read_lines", {"path": "a.txt", "start": 2, "end": 2})
        assert [block.text for block in result.content] == ["a.txt: lines 2-2 of 3\n  2| two"]
        assert (result.is_error, result.structured_content) == (False, None)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read_lines", {"path": "../outside/secret.txt"}, "contains '..'"),
        ("read_lines", {"path": "file_link"}, "links are not followed"),
        ("read_lines", {"path": "a.tx"}, "no such file 'a.tx' in '.'; in it are: a.txt, "),
        ("read_lines", {"path": "a.txt", "start": 0}, "greater than or equal to 1"),
        ("list_files", {"path": "folder_link/x"}, "is a link"),
        ("search_text", {"query": "x", "path": "pipe"}, "is a pipe"),
        ("search_text", {}, "search_text was not run: query: Field required"),
        ("write_file", {"path": "../outside/x", "content": "x"}, "contains '..'"),
        (
            "write_file",
            {"path": "a.txt", "content": "x", "overwite": True},
            "overwite: there is no such argument; the arguments are: path, content, overwrite, ver",
        ),
        (
            "write_file",
            {"path": "no/x", "content": "x"},
            "no such file 'no' in '.'; in it are: notes/, ",
        ),
        ("write_file", {"path": "no/x", "content": "x"}, "; make_folder makes folders"),
        ("edit_file", {"path": "a.txt", "old": 1, "new": "x"}, "old: Input should be a valid str"),
    ],
)
async def test_refusals_are_tool_errors(root: Root, mode: str, name: str, arguments, words: str):
    async with asyncio.timeout(30), Client(build_server(root), mode=mode) as client:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        assert words in result.content[0].text
        assert "SECRET" not in result.content[0].text


def server(folder: Path, **env: str) -> McpServer:
    return McpServer(
        alias="files",
        command=[sys.executable, "-m", "agentkit_tools.files", str(folder)],
        env={"PYTHONPATH": TOOLS_FOLDER} | env,
        connect_timeout_s=60,
    )


async def test_it_serves_over_stdio_and_nothing_is_left(folder: Path):
    async with asyncio.timeout(50):
        async with server(folder).connect() as connection:
            pid = connection.pid
            assert connection.warnings == ()
            assert [tool.original_name for tool in connection.tools] == ALL
            output = await connection.call("read_lines", {"path": "notes/grüße 🎈.txt"})
            version = version_of("Grüße aus Köln\n".encode())
            assert output.content == (
                f"notes/grüße 🎈.txt: lines 1-1 of 1, version {version}\n  1| Grüße aus Köln"
            )
            edit = {"path": "notes/grüße 🎈.txt", "old": "Köln", "new": "Ulm", "version": version}
            assert not (await connection.call("edit_file", edit)).is_error
            assert (await connection.call("edit_file", edit)).is_error
            assert (folder / "notes/grüße 🎈.txt").read_text() == "Grüße aus Ulm\n"
            escape = await connection.call("read_lines", {"path": "folder_link/secret.txt"})
            assert escape.is_error
            assert "SECRET" not in escape.content
            many = await asyncio.gather(
                *(connection.call("search_text", {"query": "tea"}) for _ in range(8))
            )
            assert {each.content for each in many} == {many[0].content}
            slow = await connection.call("search_text", {"query": "(t+e*a)+", "regex": True})
            assert slow.content.startswith("notes/b.md:3: ")
            assert connection.warnings == ()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_its_listing_has_the_same_bytes_under_every_hash_seed(folder: Path):
    digests: set[str] = set()
    for seed in ("1", "2"):
        async with asyncio.timeout(50), server(folder, PYTHONHASHSEED=seed).connect() as connection:
            digests.add(Toolset(connection.tools).digest)
    assert len(digests) == 1


def test_it_ends_when_stdin_ends_and_keeps_stdout_clean(folder: Path):
    done = subprocess.run(
        [sys.executable, "-m", "agentkit_tools.files", str(folder)],
        input=b"",
        capture_output=True,
        timeout=60,
        env={"PYTHONPATH": TOOLS_FOLDER},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_folder_that_cannot_be_served_is_said_on_stderr(tmp_path: Path, capsys):
    assert main([str(tmp_path / "absent")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "cannot serve" in captured.err
    assert "No such file or directory" in captured.err
