"""Listing the tools of real server processes, and pinning them."""

from __future__ import annotations

import asyncio
import sys

import pytest

from agentkit.toolset import McpConnectError, McpServer, Toolset, connect_all

pytestmark = pytest.mark.timeout(60)


async def listed(server: McpServer) -> tuple[Toolset, tuple[str, ...]]:
    async with asyncio.timeout(30), server.connect() as connection:
        return Toolset(connection.tools), connection.warnings


async def test_all_pages_are_listed_and_an_empty_cursor_is_a_cursor(server):
    toolset, warnings = await listed(server("pages"))
    assert toolset.names == ("bad__one", "bad__three", "bad__two")
    assert warnings == ()


async def test_a_cursor_that_repeats_ends_the_listing_with_a_warning(server):
    toolset, warnings = await listed(server("cursor_loop"))
    assert toolset.names == ("bad__t1", "bad__t2")
    assert warnings == ("the tool list repeats its page 'again'; listing stopped there",)


async def test_a_cursor_that_is_no_text_ends_the_listing_with_a_warning(server):
    toolset, warnings = await listed(server("cursor_number"))
    assert toolset.names == ("bad__one",)
    assert warnings == ("the tool list has a cursor that is no text: '1'; listing stopped there",)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("allow", "echo", "allow must be a collection of names, not 'echo'"),
        ("deny", "echo", "deny must be a collection of names, not 'echo'"),
        ("deny", [1], "deny must hold names of type str, not 1"),
        ("inherit_env", "FOO", "inherit_env must be a collection of names, not 'FOO'"),
        ("env", {"A": 1}, "env must map str to str, but 'A' has a int"),
    ],
)
def test_a_configuration_that_would_mean_something_else_is_refused(server, option, value, words):
    with pytest.raises(ValueError, match=words):
        server("plain", **{option: value})


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (
            {"allow": ["echo", "ecco"]},
            r"has no tools \['ecco'\], which are in allow; it has .*'echo'",
        ),
        ({"deny": ["hung"]}, r"has no tools \['hung'\], which are in deny; it has .*'echo'"),
        ({"deny": ["bad__hang"]}, r"Write the server's own name: 'hang', without 'bad__'"),
    ],
)
async def test_a_chosen_name_that_the_server_does_not_list_is_an_error(server, chosen, words):
    with pytest.raises(McpConnectError, match=words):
        await listed(server("plain", **chosen))


async def test_shuffled_tools_and_keys_have_the_same_bytes_each_time(server):
    first, _ = await listed(server("shuffle"))
    for _ in range(3):
        again, _ = await listed(server("shuffle"))
        assert again.bytes == first.bytes
    assert first.names == ("bad__alpha", "bad__beta", "bad__delta", "bad__gamma")


async def test_python_servers_that_build_schemas_from_sets_list_the_same_bytes(server):
    digests = {(await listed(server("sets")))[0].digest for _ in range(3)}
    assert len(digests) == 1


async def test_bad_tools_are_left_out_one_by_one_with_a_reason(server):
    toolset, warnings = await listed(server("bad_tools"))
    assert toolset.names == ("bad__good", "bad__untyped")
    assert [warning.split(": ")[0] for warning in warnings] == [
        "a tool without a name was left out",
        "a tool without a name was left out",
        "tool 'array' was left out",
        "tool 'deep' was left out",
        "tool 'nan' was left out",
        "tool 'no_schema' was left out",
        "tool 'surrogate \\ud800' was left out",
        "tool 'task' was left out",
    ]
    assert "must be a schema of type 'object', not 'array'" in warnings[2]


async def test_of_tools_listed_twice_one_is_kept_whatever_the_order(server):
    results = [await listed(server("duplicates")) for _ in range(4)]
    assert len({toolset.bytes for toolset, _ in results}) == 1
    toolset, warnings = results[0]
    names = [name for name in toolset.names if "a_b" not in name]
    assert names == ["bad__once", "bad__twice"]
    assert toolset.names[0] == "bad__a_b"
    assert toolset.names[1].startswith("bad__a_b_")
    assert len(toolset) == 4
    assert warnings == ("tool 'twice' is listed 2 times in 2 forms; one was kept",)


async def test_allow_and_deny_choose_by_the_servers_own_names(server):
    allowed = {"echo", "hang"}
    toolset, warnings = await listed(server("plain", allow=allowed, deny={"hang"}))
    assert toolset.names == ("bad__echo",)
    assert warnings == ()


async def test_a_listing_that_fails_or_hangs_names_the_server(server):
    with pytest.raises(
        McpConnectError, match="'bad' could not list its tools: the database is down"
    ):
        await listed(server("list_fails"))
    with pytest.raises(McpConnectError, match=r"'bad' did not come up within 0\.7 s"):
        await listed(server("list_hangs", connect_timeout_s=0.7))


async def test_servers_with_equal_tool_names_live_side_by_side(server):
    async with asyncio.timeout(30):
        connections = await connect_all([server("plain", alias="b"), server("plain", alias="a")])
        try:
            toolsets = [Toolset(connection.tools) for connection in connections]
            both = toolsets[0].union(toolsets[1])
            assert both.names[::4] == ("a__crash", "b__crash")
            assert both.digest == toolsets[1].union(toolsets[0]).digest
        finally:
            await asyncio.gather(*(connection.close() for connection in connections))


async def test_one_broken_server_is_reported_by_name_and_does_not_stop_the_others(server):
    async with asyncio.timeout(30):
        fine, broken, missing = await connect_all(
            [
                server("plain", alias="fine"),
                server("fails_at_start", alias="broken"),
                McpServer(alias="missing", command=["/no/such/program"]),
            ]
        )
        try:
            assert fine.error is None
            assert len(fine.tools) == 4
            assert broken.tools == ()
            assert (
                "MCP server 'broken' ended with exit code 1; its stderr says: cannot find my"
                in str(broken.error)
            )
            assert "MCP server 'missing' cannot be started: " in str(missing.error)
        finally:
            await asyncio.gather(*(each.close() for each in (fine, broken, missing)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"command": [sys.executable], "cwd": "no/such/folder"},
            "cwd 'no/such/folder' is no folder that is there; make it, or set another cwd",
        ),
        (
            {"command": [sys.executable], "cwd": __file__},
            f"cwd {__file__!r} is no folder that is there",
        ),
        (
            {"command": ["no-such-program-at-all", "x"]},
            "there is no program 'no-such-program-at-all' in its PATH; install it, or give its",
        ),
        (
            {"command": ["npx -y server"]},
            "there is no program 'npx -y server'; command is a list: ['npx', '-y', 'server']",
        ),
        ({"command": ["/no/such/program"]}, "No such file or directory: '/no/such/program'"),
    ],
)
async def test_a_program_that_cannot_be_started_says_what_is_missing(options, words):
    with pytest.raises(McpConnectError) as caught:
        await McpServer(alias="missing", **options).connect().open()
    assert f"MCP server 'missing' cannot be started: {words}" in str(caught.value).replace(
        "[Errno 2] ", ""
    )


async def test_two_servers_cannot_share_an_alias(server):
    with pytest.raises(ValueError, match="aliases must be unique"):
        await connect_all([server("plain"), server("pages")])
