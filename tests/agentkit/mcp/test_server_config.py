"""Servers out of the JSON that many clients share."""

from __future__ import annotations

import json
import sys
import warnings

import pytest

from agentkit import McpServer
from agentkit.warn import ServerConfigWarning
from tests.agentkit.mcp.conftest import LISTED


def servers(**entries):
    environ = {"TOKEN": "s3cret", "EMPTY": "", "HOST": "tracker.example"}
    return McpServer.from_config({"mcpServers": entries}, environ=environ)


def test_each_kind_of_server_is_read_in_the_order_of_the_file(tmp_path):
    path = tmp_path / "mcp.json"
    entries = {
        "zeta": {
            "command": "npx",
            "args": ["-y", "some-server", "."],
            "env": {"KEY": "x"},
            "cwd": "/",
        },
        "remote": {"type": "http", "url": "https://a.example/mcp", "headers": {"X-Key": "y"}},
        "older": {"type": "sse", "url": "https://b.example/sse"},
        "plain": {"url": "https://c.example/mcp"},
        "off": {"command": "no", "disabled": True},
        "also-off": {"command": "no", "enabled": False},
    }
    path.write_text("\ufeff" + json.dumps({"mcpServers": entries, "theme": "dark"}), "utf-8")
    expected = (
        McpServer(
            alias="zeta", command=["npx", "-y", "some-server", "."], env={"KEY": "x"}, cwd="/"
        ),
        McpServer(alias="remote", url="https://a.example/mcp", headers={"X-Key": "y"}),
        McpServer(alias="older", url="https://b.example/sse", transport="sse"),
        McpServer(alias="plain", url="https://c.example/mcp"),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert McpServer.from_config(path) == expected
        assert McpServer.from_config(str(path)) == expected
        assert McpServer.from_config(json.loads(path.read_text("utf-8-sig"))) == expected


def test_variables_are_filled_in_and_their_values_are_in_no_repr():
    (made,) = servers(
        one={
            "url": "https://${HOST}/mcp",
            "headers": {"Authorization": "Bearer ${TOKEN}", "X-Mode": "${MODE:-fast}"},
        }
    )
    assert made.url == "https://tracker.example/mcp"
    assert dict(made.headers) == {"Authorization": "Bearer s3cret", "X-Mode": "fast"}
    assert "s3cret" not in repr(made)
    (made,) = servers(
        two={
            "command": "${env:HOST}",
            "args": ["$TOKEN", "${EMPTY}", "${EMPTY:-x}", "${NO:-}", "{TOKEN}"],
            "env": {"T": "${TOKEN}${TOKEN}"},
        }
    )
    assert made.command == ("tracker.example", "$TOKEN", "", "x", "", "{TOKEN}")
    assert dict(made.env) == {"T": "s3crets3cret"}


def test_by_default_the_variables_are_those_of_this_process(monkeypatch):
    monkeypatch.setenv("AGENTKIT_TEST_HOST", "h.example")
    config = {"mcpServers": {"a": {"url": "https://${AGENTKIT_TEST_HOST}/mcp"}}}
    assert McpServer.from_config(config)[0].url == "https://h.example/mcp"


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        ("brave-search", "brave-search"),
        ("My Server", "My-Server"),
        ("io.github.someone/notes", "io-github-someone-notes"),
        ("a__b_", "a_b"),
        ("3d-tools", "d-tools"),
        ("x" * 40, "x" * 32),
    ],
)
def test_a_name_becomes_an_alias(name, alias):
    assert servers(**{name: {"command": "x"}})[0].alias == alias


def test_what_is_not_used_is_named_with_what_to_write_and_without_its_value():
    entry = {"command": "x", "timeout": 60, "autoApprove": ["rm"], "wat": "s3cret", "type": "stdio"}
    with pytest.warns(ServerConfigWarning) as caught:
        servers(files=entry | {"description": "Files."})
    (warning,) = caught
    assert str(warning.message) == (
        "server 'files' in the configuration: not used: 'autoApprove' (policies), 'timeout' "
        "(call_timeout_s), 'wat'; set what is in brackets by dataclasses.replace(server, ...)"
    )
    assert warning.filename == __file__


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"command": "${NOPE}"}, r"\$\{NOPE\} in command of server 'a' .* is not set; set it"),
        ({"command": "x", "env": {"K": "${NOPE}"}}, r"\$\{NOPE\} in env of server 'a'"),
        ({"url": "https://x", "headers": {"K": "${input:key}"}}, r"\$\{input:key\} in headers of"),
        ({"command": "x", "args": ["${}"]}, r"\$\{\} in args of server 'a'"),
        ({"command": "x", "url": "https://x"}, "has command and url; give one"),
        ({"command": "x", "type": "http"}, "type of server 'a' .* is 'http', which has a url"),
        ({"url": "https://x", "type": "stdio"}, "is 'stdio', which has a command"),
        ({"url": "https://x", "type": "websocket"}, "must be 'stdio', 'http' or 'sse', not 'webs"),
        ({"command": "x", "args": "-y"}, "server 'a' in the configuration: args must be a list"),
        ({"args": ["-y"]}, "args need a command"),
        ({}, "cannot be reached; give one of command, url"),
        ({"url": "http://x.example/mcp"}, "would send everything unencrypted"),
        ({"command": "x", "env": {"A": 1}}, "env must map str to str, but 'A' has a int"),
        ({"command": "x", "env": ["A"]}, "server 'a' in the configuration: "),
        ({"command": "x", "headers": {"A": "b"}}, "headers belongs to a server with url"),
        ("npx", "server 'a' in the configuration must be an object, not 'npx'"),
    ],
)
def test_what_cannot_be_read_is_refused_by_the_servers_name(entry, words):
    with pytest.raises(ValueError, match=words):
        servers(a=entry)


def test_what_is_no_list_of_servers_is_refused(tmp_path):
    path = tmp_path / "mcp.json"
    for text, words in (
        ('{"servers": {}}', r'mcp.json must be .*"mcpServers".*; there is: \[\'servers\'\]'),
        ("[]", "there is: list"),
        ('{"mcpServers": []}', "an object of servers by name"),
        ('{"mcpServers": {', r"mcp.json is no JSON: Expecting .* line 1"),
        ("[" * 100_000, "is no JSON"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            McpServer.from_config(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is no JSON"):
        McpServer.from_config(path)
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        McpServer.from_config(tmp_path / "none.json")
    with pytest.raises(ValueError, match=r"'a b' and 'a\.b' in .* would both be 'a-b'; rename one"):
        servers(**{"a b": {"command": "x"}, "a.b": {"command": "x"}})


async def test_a_server_that_was_read_answers(tool_file):
    entry = {"command": sys.executable, "args": ["-S", str(LISTED), "${FILE}"]}
    environ = {"FILE": str(tool_file.path)}
    (server,) = McpServer.from_config({"mcpServers": {"my files": entry}}, environ=environ)
    async with server.connect() as connection:
        output = await connection.call("my-files__echo", {"text": "hello"})
    assert not output.is_error
