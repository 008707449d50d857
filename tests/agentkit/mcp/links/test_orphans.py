"""No process of a server outlives it, nor us, whatever ends us."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentkit.toolset.mcp.links import orphans

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and process groups"),
]

APP = Path(__file__).parent / "crashing_app.py"


@contextmanager
def running_app(how: str, command: list[str]) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    app = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(APP), how, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert app.stdout is not None
    with app:
        yield app, [int(pid) for pid in app.stdout.readline().split()]


async def test_a_daemon_that_left_the_group_does_not_outlive_the_server(server, is_gone):
    async with asyncio.timeout(30), server("plain").connect() as connection:
        daemon = int((await connection.call("daemon", {})).content)
        assert daemon in orphans._process_ids()
    assert is_gone(daemon)


async def test_a_daemon_does_not_outlive_a_server_that_crashed(server, is_gone):
    async with asyncio.timeout(30), server("plain").connect() as connection:
        daemon = int((await connection.call("daemon", {})).content)
        await connection.call("crash", {})
        await connection.call("echo", {"text": "anew"})
        assert is_gone(daemon)


def test_nothing_outlives_a_program_that_is_killed(server, is_gone):
    with running_app("killed", list(server("stubborn").command)) as (app, pids):
        assert len(pids) == 3
        app.kill()
    assert all(is_gone(pid) for pid in pids)


def test_nothing_outlives_a_program_that_closed_its_loop_and_nothing_else(server, is_gone):
    with running_app("forgets", list(server("stubborn").command)) as (_, pids):
        assert len(pids) == 3
    assert all(is_gone(pid) for pid in pids)


async def test_a_server_that_ended_leaves_no_guard_behind(server, monkeypatch, is_gone):
    guards = []
    start = orphans.CrashGuard.start

    def remembering(*args: object) -> orphans.CrashGuard | None:
        guards.append(start(*args))  # type: ignore[arg-type]
        return guards[-1]

    monkeypatch.setattr(orphans.CrashGuard, "start", remembering)
    async with asyncio.timeout(30), server("plain").connect():
        assert guards[0]._process.poll() is None
    assert guards[0]._process.poll() is not None


def test_only_what_has_the_mark_is_killed(is_gone):
    sleep = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    mark, other = orphans.new_mark(), orphans.new_mark()
    marked = subprocess.Popen(sleep, env={orphans.MARK: mark})
    spared = subprocess.Popen(sleep, env={orphans.MARK: other})
    try:
        orphans.kill_marked(mark)
        assert marked.wait(10) == -9
        assert spared.poll() is None
    finally:
        spared.kill()
        spared.wait()


async def test_a_flood_of_noise_on_both_outputs_is_survived_in_little_memory(server):
    async with asyncio.timeout(30), server("flood").connect() as connection:
        output = await connection.call("echo", {"text": "dry"})
        assert output.content == "dry"
        (warning,) = connection.warnings
        assert warning.startswith("100020 lines on stdout are no messages; the first is '\ufffd")
        assert len(warning) < 300
        crashed = await connection.call("crash", {})
        assert "its stderr says" in crashed.content
        assert len(crashed.content) < 2000
