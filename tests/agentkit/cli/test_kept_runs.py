"""`agentkit runs`, `show` and `cost`: what a journal has, as text and as JSON."""

from __future__ import annotations

import json
import os
import sqlite3
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from agentkit.cli.timeline import Split
from agentkit.observe.amounts import one_line
from tests.agentkit.cli.conftest import Cli


@pytest.fixture
def read(cli: Cli) -> str:
    """The id of a run with a subagent."""
    run = cli("run", "cli_app:Desk", "please read", "--json", "--session", "a", "--user", "ann")
    assert run.exit_code == 0, run.output
    return str(json.loads(run.stdout)["run_id"])


def test_runs_lists_the_newest_first(cli: Cli, read: str) -> None:
    cli("run", "cli_app:Desk", "pay")
    rows = json.loads(cli("runs", "--json").stdout)
    assert [row["status"] for row in rows] == ["paused", "done"]
    assert rows[1]["run_id"] == read
    assert (rows[1]["n_runs"], rows[1]["n_requests"], rows[1]["user"]) == (2, 3, "ann")
    assert [row["run_id"] for row in json.loads(cli("runs", "--user", "ann", "--json").stdout)] == [
        read
    ]
    text = cli("runs").stdout
    assert read[:12] in text
    assert "please read" in text


def test_runs_without_a_process_are_listed_with_how_long_nothing_was_heard_of_them(
    cli: Cli, read: str
) -> None:
    assert json.loads(cli("runs", "--orphaned", "--json").stdout) == []
    assert "has been silent for 120 s" in cli("runs", "--orphaned").stderr
    with sqlite3.connect(os.environ["AGENTKIT_JOURNAL"]) as database:
        database.execute(
            "UPDATE agentkit_runs SET status = 'running', saved_at = saved_at - 600, seen_at = 0"
        )
    database.close()
    (row,) = json.loads(cli("runs", "--orphaned", "--json").stdout)
    assert (row["run_id"], row["n_adopted"]) == (read, 0)
    text = cli("runs", "--orphaned", "--older-than", "300").stdout
    assert read[:12] in text
    assert "10 min" in text
    assert read[:12] not in cli("runs", "--orphaned", "--older-than", "900").stdout
    assert cli("runs", "--orphaned", "--older-than", "3").exit_code == 1
    assert cli("runs", "--orphaned", "--status", "done").exit_code == 2
    assert cli("runs", "--older-than", "300").exit_code == 2


def test_show_has_a_bar_for_each_request_of_each_run(cli: Cli, read: str) -> None:
    text = cli("show", read[:8]).stdout
    assert "task: please read" in text
    bars = [line for line in text.splitlines() if "█" in line or "▓" in line][1:]
    assert len(bars) == 3
    assert "calls delegate_to_reader, add" in bars[0]
    assert "▓" in bars[0]
    assert "█" not in bars[0]  # the first request has nothing to read
    assert "█" in bars[1]
    assert "desk/reader  done" in text
    assert "answer: The tool says: It says: closed." in text


def test_show_as_json_has_everything(cli: Cli, read: str) -> None:
    shown: dict[str, Any] = json.loads(cli("show", read, "--json").stdout)
    root, below = shown["runs"]
    assert (root["parent"], below["parent"]) == (None, read)
    assert below["path"] == ["desk", "reader"]
    assert below["answer"] == "It says: closed."
    assert [len(run["requests"]) for run in (root, below)] == [2, 1]
    assert root["messages"][0]["blocks"][0]["text"] == "please read"
    assert shown["cache"]["total"]["requests"] == 3


def test_show_says_what_a_paused_run_waits_for(cli: Cli) -> None:
    run_id = json.loads(cli("run", "cli_app:Desk", "pay", "--json").stdout)["run_id"]
    assert 'pay {"usd": 5}: waits for a person' in cli("show", run_id).stdout


def test_show_names_who_goes_on_after_a_handoff(cli: Cli) -> None:
    run = cli("run", "cli_app:Router", "x", "--json")
    assert run.exit_code == 0, run.output
    text = cli("show", json.loads(run.stdout)["run_id"]).stdout
    assert "calls handoff_to_clerk" in text
    assert "clerk says 'refunded'" in text


def test_cost_adds_up_by_what_is_asked(cli: Cli, read: str) -> None:
    cli("run", "cli_app:Desk", "x", "--session", "b")
    by_agent = json.loads(cli("cost", "--by", "agent", "--json").stdout)
    assert [(row["agent"], row["requests"]) for row in by_agent["rows"]] == [
        ("desk", 3),
        ("desk/reader", 1),
    ]
    one = json.loads(cli("cost", read, "--json").stdout)
    assert one["total"]["requests"] == 3
    session = json.loads(cli("cost", "--session", "b", "--json").stdout)
    assert session["total"]["requests"] == 1
    assert json.loads(cli("cost", "--since", "1h", "--json").stdout)["total"]["requests"] == 4
    assert json.loads(cli("cost", "--since", "2099-01-01", "--json").stdout)["rows"] == []
    assert "total" in cli("cost").stdout
    assert cli("cost", read, "--user", "ann").exit_code == 2


@pytest.mark.parametrize(
    ("split", "bar"),
    [
        (Split(total=100, read=0, written=0), "░" * 24),
        (Split(total=100, read=100, written=0), "█" * 24),
        (Split(total=100, read=50, written=25), "█" * 12 + "▓" * 6 + "░" * 6),
        (Split(total=50, read=25, written=25), "█" * 6 + "▓" * 6),
        (Split(total=1, read=0, written=1), "▓"),
    ],
)
def test_a_bar_is_as_long_as_its_prompt(split: Split, bar: str) -> None:
    assert split.bar(100) == bar


def test_a_long_text_is_one_short_line() -> None:
    assert one_line("a\n b" + "x" * 200, 5) == "a bxx..."


def test_show_has_the_conversation_with_calls_and_results(cli: Cli, read: str) -> None:
    text = cli("show", read, "--messages").stdout
    assert text.splitlines() == [
        f"desk  done  run {read}",
        "  user: please read",
        '  turn 1 calls delegate_to_reader {"task": "read it"}',
        '  turn 1 calls add {"a": 1, "b": 2}',
        "  delegate_to_reader: It says: closed.",
        "  add: 3",
        "  turn 2: The tool says: It says: closed.",
        "",
        *text.splitlines()[8:9],
        "  user: read it",
        "  turn 1: It says: closed.",
    ]
    assert text.splitlines()[8].startswith("desk/reader  done  run ")


def test_show_has_what_a_paused_run_has_said_and_done_so_far(cli: Cli) -> None:
    run_id = json.loads(cli("run", "cli_app:Desk", "pay", "--json").stdout)["run_id"]
    lines = cli("show", run_id, "--messages").stdout.splitlines()
    assert lines[-2:] == ['  turn 1 calls pay {"usd": 5}', "  pay: waits for a person"]
    (run,) = json.loads(cli("show", run_id, "--json").stdout)["runs"]
    assert run["messages"][-1]["kind"] == "assistant"
    assert (run["turn"], run["open_results"]) == (1, [])


def test_long_parts_of_a_conversation_are_cut(cli: Cli) -> None:
    question = f"{'x' * 4_000}yz\nand so on"
    run_id = json.loads(cli("run", "cli_app:Desk", question, "--json").stdout)["run_id"]
    line = cli("show", run_id, "--messages").stdout.splitlines()[1]
    assert line == f"  user: {'x' * 4_000}... (4,012 characters)"


def test_turns_have_the_same_numbers_when_a_run_goes_on(cli: Cli) -> None:
    paused = cli("run", "cli_app:Desk", "pay")
    assert "turn 1: " in paused.stderr
    run_id = json.loads(cli("runs", "--json").stdout)[0]["run_id"]
    resumed = cli("resume", run_id, "cli_app:Desk", "--approve", "all", "--watch")
    assert "desk: turn 2: " in resumed.stderr
    assert "turn 1" not in resumed.stderr


@pytest.mark.parametrize("place", ["typo.db", "sqlite:///typo.db"])
@pytest.mark.parametrize("command", [("show", "r"), ("runs",), ("cost",)])
def test_looking_at_a_journal_that_is_not_there_makes_none(
    cli: Cli, place: str, command: tuple[str, ...]
) -> None:
    result = cli(*command, "--journal", place)
    assert result.exit_code == 1
    assert "there is no journal typo.db" in result.stderr
    assert not Path("typo.db").exists()


def test_the_version_is_said(cli: Cli) -> None:
    assert cli("--version").stdout == f"agentkit {version('agentkit-radix')}\n"
