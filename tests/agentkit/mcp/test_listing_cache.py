"""Tool lists on disk: a run begins before its server is started, and nobody gets another's list."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit import Agent, McpServer
from agentkit.events import ToolsChanged
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from agentkit.toolset.mcp.connection import McpConnection
from agentkit.toolset.mcp.lists.listing import ListedTool, Listing
from agentkit.toolset.mcp.lists.listing_cache import ListingCache
from agentkit.toolset.policy import ToolPolicy
from agentkit.toolset.tool import ToolSpec

pytestmark = pytest.mark.usefixtures("quick")

SERVER = McpServer(alias="s", command=["server"], env={"TOKEN": "secret"})


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def listing(*names: str, ttl_s: float = 60.0) -> Listing:
    tools = tuple(
        ListedTool(
            original=name,
            spec=ToolSpec(name=f"s__{name}", description=f"Ü {name}", parameters={"default": 1.0}),
        )
        for name in names
    )
    return Listing(tools=tools, warnings=("half \ud800",), ttl_s=ttl_s)


def changed(data: bytes, **members: object) -> bytes:
    return json.dumps(json.loads(data) | members).encode()


def tool(name: str) -> str:
    return ToolSpec(name=name, description="", parameters={"type": "object"}).bytes.decode()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(tmp_path: Path, clock: Clock) -> ListingCache:
    return ListingCache(tmp_path / "lists", clock)


def test_a_list_comes_back_with_the_same_bytes_until_its_time_is_over(cache, clock):
    kept = listing("a", "b")
    cache.keep(SERVER, kept)
    found = cache.load(SERVER)
    assert found.tools == kept.tools
    assert [tool.spec.bytes for tool in found.tools] == [tool.spec.bytes for tool in kept.tools]
    clock.now_s += 59
    assert cache.load(SERVER) is not None
    clock.now_s += 1
    assert cache.load(SERVER) is None
    assert cache.load(SERVER, at_any_age=True).tools == kept.tools
    clock.now_s = 10  # a clock that was set back says nothing of an age
    assert cache.load(SERVER) is None


def test_a_list_without_a_time_is_not_kept_and_takes_the_older_one_away(cache):
    cache.keep(SERVER, listing("a"))
    cache.keep(SERVER, listing("a", ttl_s=0.0))
    assert cache.load(SERVER, at_any_age=True) is None


def test_the_users_word_counts_more_than_the_servers(cache, clock):
    long = McpServer(alias="s", command=["server"], listing_ttl_s=1_000)
    cache.keep(long, listing("a", ttl_s=0.0))
    clock.now_s += 999
    assert cache.load(long) is not None
    never = McpServer(alias="s", command=["server"], listing_ttl_s=0)
    cache.keep(never, listing("a"))
    assert cache.load(never, at_any_age=True) is None


@pytest.mark.parametrize(
    "other",
    [
        {"env": {"TOKEN": "other"}},
        {"command": ["server", "--all"]},
        {"alias": "t"},
        {"cwd": "/"},
        {"deny": {"a"}},
        {"elicits": True},
    ],
)
def test_nobody_gets_the_list_of_another_server_or_user(cache, other):
    cache.keep(SERVER, listing("a"))
    given = {"alias": "s", "command": ["server"], "env": {"TOKEN": "secret"}} | other
    assert cache.load(McpServer(**given)) is None


@pytest.mark.parametrize(
    "name", ["HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM", "PYTHONHASHSEED"]
)
def test_every_variable_that_is_given_tells_servers_apart(cache, name):
    """A list that was made in the home of one user was another's."""
    cache.keep(McpServer(alias="s", command=["server"], env={name: "/alice"}), listing("a"))
    other = McpServer(alias="s", command=["server"], env={name: "/bob"})
    assert cache.load(other, at_any_age=True) is None


@pytest.mark.parametrize("name", ["HOME", "PATH", "USER", "LOGNAME"])
def test_what_a_server_inherits_tells_servers_apart_too(cache, monkeypatch, name):
    cache.keep(SERVER, listing("a"))
    monkeypatch.setenv(name, "/other")
    assert cache.load(SERVER, at_any_age=True) is None


def test_another_terminal_is_the_same_server_unless_its_name_is_asked_for(cache, monkeypatch):
    asking = McpServer(alias="s", command=["server"], inherit_env=["TERM"])
    for server in (SERVER, asking):
        cache.keep(server, listing("a"))
    monkeypatch.setenv("TERM", "another")
    assert cache.load(SERVER) is not None
    assert cache.load(asking) is None


def test_no_secret_is_on_disk(cache, tmp_path):
    cache.keep(SERVER, listing("a"))
    (path,) = (tmp_path / "lists").iterdir()
    assert b"secret" not in path.read_bytes()
    assert "secret" not in path.name


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"format": 0}',
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'"format": 1', b'"format": 2'),
        lambda data: data.replace(b"s__a", b"s..a"),
        lambda data: data.replace(b'"stored_at": 1000.0', b'"stored_at": "now"'),
        lambda data: b"[" * 100_000,
        lambda data: changed(data, stored_at=10**400),
        lambda data: changed(data, stored_at=float("nan")),
        lambda data: changed(data, ttl_s=10**400),
        lambda data: changed(data, ttl_s=-1),
        lambda data: changed(data, tools=None),
        lambda data: changed(data, tools=[["a", None]]),
        lambda data: changed(data, tools=[["a", 5]]),
        lambda data: changed(data, tools=[["a", tool("s__a"), "more"]]),
        lambda data: changed(data, tools=[["", tool("s__")]]),
        lambda data: changed(data, tools=[["a", tool("other__a")]]),
        lambda data: changed(data, tools=[["a", tool("s__b")]]),
        lambda data: changed(data, tools=[["a", tool("s__a")], ["a", tool("s__a")]]),
        lambda data: changed(data, tools=[["a", tool("s__a")], ["b", tool("s__a")]]),
        lambda data: changed(data, tools=[["a\ud800", tool("s__a")]]),
        lambda data: changed(data, warnings=[1]),
        lambda data: changed(data, is_judged=1),
    ],
)
def test_a_damaged_file_is_as_good_as_none(cache, tmp_path, damage):
    cache.keep(SERVER, listing("a"))
    (path,) = (tmp_path / "lists").iterdir()
    path.write_bytes(damage if isinstance(damage, bytes) else damage(path.read_bytes()))
    assert cache.load(SERVER, at_any_age=True) is None
    cache.keep(SERVER, listing("a"))
    assert cache.load(SERVER) is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "a"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(
    member=st.sampled_from(["format", "stored_at", "ttl_s", "tools", "warnings", "is_judged"]),
    value=JSON,
    parameters=JSON,
    is_tool=st.booleans(),
)
def test_whatever_lies_there_loading_never_fails(
    tmp_path_factory, member, value, parameters, is_tool
):
    folder = tmp_path_factory.mktemp("lists")
    cache = ListingCache(folder, lambda: 1_000.0)
    cache.keep(SERVER, listing("a"))
    (path,) = folder.iterdir()
    text = json.dumps({"description": "", "name": "s__a", "parameters": parameters})
    change = {"tools": [["a", text]]} if is_tool else {member: value}
    path.write_bytes(changed(path.read_bytes(), **change))
    found = cache.load(SERVER, at_any_age=True)
    assert found is None or {tool.spec.name for tool in found.tools} <= {"s__a"}


def test_two_that_write_at_once_leave_one_list_or_the_other(tmp_path):
    lists = [listing("a", "b"), listing(*(f"t{n}" for n in range(40)))]
    whole = [kept.tools for kept in lists]
    reader, start = ListingCache(tmp_path), threading.Barrier(3)
    reader.keep(SERVER, lists[0])

    def write(kept: Listing) -> None:
        cache = ListingCache(tmp_path)
        start.wait()
        for _ in range(40):
            cache.keep(SERVER, kept)

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, kept) for kept in lists]
        start.wait()
        found = []
        while not all(writer.done() for writer in writers):
            found.append(reader.load(SERVER, at_any_age=True))
        for writer in writers:
            writer.result()
    assert all(each is not None and each.tools in whole for each in found)
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


async def test_a_list_on_disk_that_does_not_fit_the_settings_is_asked_for_again(tool_file):
    """A policy for a tool that is new was an error as long as the old list was kept."""
    tool_file.write(ttl_ms=60_000)
    async with tool_file.server().connect():
        pass
    tool_file.set("echo", "new")
    server = tool_file.server(policies={"new": ToolPolicy(requires_approval=True)})
    async with McpConnection(server) as connection:
        assert [tool.original_name for tool in connection.tools] == ["echo", "new"]


def test_the_folder_has_a_bounded_number_of_files(cache, tmp_path, monkeypatch):
    monkeypatch.setattr("agentkit.toolset.mcp.lists.listing_cache._MOST_FILES", 3)
    for number in range(6):
        cache.keep(McpServer(alias="s", command=["server", str(number)]), listing("a"))
    assert len(list((tmp_path / "lists").iterdir())) == 3


def test_what_a_killed_process_has_left_in_the_folder_goes_with_the_next_list(cache, tmp_path):
    cache.keep(SERVER, listing("a"))
    folder = tmp_path / "lists"
    (kept,) = folder.iterdir()
    for name in (".new-abc123", ".other.json.new-0123456789ab"):
        (folder / name).write_text("half")
        os.utime(folder / name, (0, 0))
    cache.keep(SERVER, listing("a", "b"))
    assert list(folder.iterdir()) == [kept]
    assert kept.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_costs_the_cache_and_nothing_else(tmp_path, clock):
    (tmp_path / "file").write_text("in the way")
    cache = ListingCache(tmp_path / "file" / "lists", clock)
    cache.keep(SERVER, listing("a"))
    assert cache.load(SERVER) is None


async def test_a_run_begins_from_disk_and_its_server_is_started_at_the_first_call(tool_file):
    tool_file.write(ttl_ms=60_000)
    async with tool_file.server().connect() as connection:
        assert connection.pid is not None

    connection = McpConnection(tool_file.server())
    async with connection:
        assert connection.pid is None
        assert [tool.spec.name for tool in connection.tools] == [
            "s__announce",
            "s__crash",
            "s__echo",
        ]
        output = await connection.call("echo", {"text": "x"})
        assert json.loads(output.content)["name"] == "echo"
        assert connection.pid is not None


async def test_what_was_wrong_on_disk_is_a_change_like_any_other(tool_file):
    tool_file.write(ttl_ms=60_000)
    steps = ["first", Call("s__echo", {"text": "x"}), Call("s__new", {"text": "y"}), "done"]
    model = ScriptedModel(steps, takes_tools=True)
    agent = Agent(model=model, tools=[tool_file.server()])
    first = await agent.run("x")
    tool_file.set("echo", "new")
    async with agent.stream("y", context=first.context) as stream:
        events = [event async for event in stream if isinstance(event, ToolsChanged)]
    assert [(event.turn, event.added) for event in events] == [(1, ("s__new",))]
    assert_prefix_stable(model.calls)
    assert len({call.request.toolset.bytes for call in model.calls}) == 1


async def test_a_server_that_is_not_required_and_not_there_has_the_tools_of_its_last_list(
    tool_file, tmp_path
):
    switch = tmp_path / "is_there"
    switch.write_text("")
    script = f'[ -e {switch} ] || {{ echo gone >&2; exit 1; }}; exec "$@"'
    command = ["sh", "-c", script, "sh", *tool_file.server().command]

    def agent(*steps):
        server = McpServer(
            alias="s", command=command, protocol="legacy", required=False, listing_ttl_s=0.000_001
        )
        return Agent(model=ScriptedModel(list(steps)), tools=[server])

    first = await agent("done").run("x")
    switch.unlink()
    second = await agent(Call("s__echo", {"text": "x"}), "done").run("x")
    assert second.context.front == first.context.front
    assert "gone" in second.context.messages[2].results[0].content


async def test_a_list_whose_time_is_over_is_asked_for_again(tool_file, monkeypatch):
    """A server that announces nothing is believed for as long as it says, and no longer."""
    from agentkit.toolset.mcp.lists import lists

    now_s = 1_000.0
    monkeypatch.setattr(lists, "_now_s", lambda: now_s)
    tool_file.write(ttl_ms=60_000, announces=False)
    async with McpConnection(tool_file.server()) as connection:
        tool_file.set("echo", "new")
        now_s += 59
        assert not connection.may_have_changed
        now_s += 2
        assert connection.may_have_changed
        await connection.recheck()
        assert connection.offered.get("s__new") is not None
        assert not connection.may_have_changed
