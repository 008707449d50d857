"""What an `McpServer` may hold, and that its secrets stay inside."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from mcp.server import MCPServer

from agentkit.toolset import McpServer

SECRET = "sesame-4711"


def make(**settings: Any) -> McpServer:
    return McpServer(alias="x", **settings)


URL = "https://tools.example/mcp"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "MCP server 'x' cannot be reached; give one of command, url, server"),
        ({"url": ""}, "cannot be reached; give one of command, url, server"),
        ({"command": ["a"], "url": URL}, "MCP server 'x' has command and url; give one of"),
        ({"url": URL, "env": {"A": "1"}}, "env belongs to a server with command, not with url"),
        ({"url": URL, "inherit_env": ["A"]}, "inherit_env belongs to a server with command"),
        ({"url": URL, "cwd": "/"}, "cwd belongs to a server with command, not with url"),
        ({"command": ["a"], "headers": {"A": "1"}}, "headers belongs to a server with url, not"),
        ({"command": ["a"], "auth": httpx2.BasicAuth("a", "b")}, "auth belongs to a server with"),
        ({"command": ["a"], "allow_http": True}, "allow_http belongs to a server with url"),
        ({"command": ["a"], "transport": "sse"}, "transport belongs to a server with url"),
        ({"server": MCPServer("s"), "headers": {"A": "1"}}, "headers belongs to a server with url"),
        ({"server": MCPServer("s"), "max_message_bytes": 9}, "max_message_bytes belongs to a"),
        ({"server": "server.py"}, "server must be a server object of the MCP SDK"),
        (
            {"url": URL, "transport": "http"},
            "transport must be 'streamable-http', which is the default",
        ),
        ({"url": "tools.example/mcp"}, "must be https://host/path"),
        ({"url": "ftp://tools.example/mcp"}, "not 'ftp://tools.example/mcp'"),
        ({"url": "https://:443/mcp"}, "must be https://host/path"),
        ({"url": "https://[half/mcp"}, "url of MCP server 'x' is no URL"),
        ({"url": "https://host:99999/mcp"}, "url of MCP server 'x' is no URL"),
        (
            {"url": f"https://me:{SECRET}@tools.example/mcp"},
            "has a user in it; use headers",
        ),
        ({"url": f"http://tools.example/mcp?k={SECRET}"}, "would send everything unencrypted"),
        ({"url": URL, "auth": ("me", SECRET)}, "auth must be an httpx2.Auth, not a tuple"),
        ({"url": URL, "http_client": object()}, "http_client must be an httpx2.AsyncClient"),
        ({"url": URL, "headers": {"bad name": SECRET}}, "headers has the name 'bad name'"),
        ({"url": URL, "headers": {"A": f"{SECRET}\n"}}, "headers has a value for 'A' that is no"),
        ({"url": URL, "headers": {"A": 4711}}, "headers has a value for 'A' that is no"),
        (
            {"url": URL, "headers": {"Mcp-Session-Id": "1"}},
            "headers must not have 'Mcp-Session-Id'",
        ),
        ({"command": ["a"], "env": {"A": 4711}}, "env must map str to str, but 'A' has a int"),
        ({"url": URL, "tool_timeouts_s": {"a": 0}}, "tool_timeouts_s must map names of tools"),
        ({"url": URL, "call_timeout_s": 0}, "call_timeout_s must be above 0, not 0"),
        ({"url": URL, "max_result_chars": "9"}, "max_result_chars must be above 0, not '9'"),
        ({"url": URL, "listing_ttl_s": "9"}, "listing_ttl_s must be at least 0 seconds or None"),
        ({"url": URL, "protocol": "2025-06-18"}, "protocol must be 'auto' or 'legacy'"),
        ({"url": URL, "elicits": "no"}, "elicits must be True or False, not 'no'"),
        ({"url": URL, "samples": 1}, "samples must be True or False, not 1"),
        ({"url": URL, "required": None}, "required must be True or False, not None"),
        ({"url": URL, "resource_tool": "x"}, "resource_tool must be True or False"),
        ({"url": URL, "trust": "mcp.lock.json"}, "use Trust(lock='mcp.lock.json')"),
        ({"url": URL, "trust": True}, "trust must be an agentkit.toolset.mcp.Trust"),
        ({"server": MCPServer}, "not the class MCPServer; make one: MCPServer(...)"),
    ],
)
def test_a_setting_that_cannot_be_is_an_error_that_names_it_and_no_secret(settings, words):
    with pytest.raises(ValueError) as caught:
        make(**settings)
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000/mcp",
        "http://127.0.0.1/mcp",
        "http://[::1]:8000/mcp",
        "http://app.localhost/mcp",
        "https://tools.example/mcp",
    ],
)
def test_without_encryption_only_this_machine_is_reached(url):
    assert make(url=url).url == url


def test_another_machine_is_reached_without_encryption_on_demand():
    assert make(url="http://10.0.0.7/mcp", allow_http=True).allow_http


def test_the_secrets_of_a_server_are_not_in_its_repr():
    over_http = make(
        url=f"{URL}?key={SECRET}",
        headers={"Authorization": f"Bearer {SECRET}"},
        auth=httpx2.BasicAuth("me", SECRET),
    )
    assert SECRET not in repr(over_http)
    assert SECRET not in repr(make(command=["a"], env={"TOKEN": SECRET}))


def test_servers_are_values_and_a_server_object_compares_by_identity():
    one, other = MCPServer("same"), MCPServer("same")
    assert make(server=one) == make(server=one)
    assert make(server=one) != make(server=other)
    assert make(url=URL, headers={"A": "1"}) == make(url=URL, headers={"A": "1"})
    assert make(url=URL, headers={"A": "1"}) != make(url=URL, headers={"A": "2"})
    assert hash(make(url=URL)) == hash(make(url=URL))
    assert len({make(server=one), make(server=one), make(server=other)}) == 2


def test_a_tool_may_take_another_time_than_the_others():
    server = make(url=URL, call_timeout_s=5, tool_timeouts_s={"slow": 600})
    assert (server.timeout_of("slow"), server.timeout_of("quick")) == (600, 5)


def test_calls_take_a_minute_unless_something_else_is_said():
    assert make(url=URL).timeout_of("anything") == 60
