"""`agentkit run` and `agentkit resume`, with a scripted model and a real journal."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from agentkit.cli import journals
from tests.agentkit.cli.conftest import Cli


def done(result: Result) -> Result:
    assert result.exit_code == 0, result.output
    return result


def found(result: Result, code: int = 0) -> Any:
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_the_answer_goes_to_stdout_and_everything_else_to_stderr(cli: Cli) -> None:
    result = done(cli("run", "cli_app:Desk", "please read"))
    assert result.stdout == "The tool says: It says: closed.\n"
    assert "turn 1: " in result.stderr
    assert "; calls delegate_to_reader, add" in result.stderr
    assert re.search(r"run [0-9a-f]{32} · 3 requests · .* read, \d+ out · ", result.stderr)


def test_json_has_the_typed_output_and_what_the_run_used(cli: Cli) -> None:
    run = found(cli("run", "cli_app:Heading", "count", "--json", "--session", "numbers"))
    assert run["output"] == [1, 2, 3]
    assert (run["status"], run["text"], run["finish"]) == ("done", "[1, 2, 3]", "stop")
    assert (run["session"], run["agent"], run["requests"]) == ("numbers", "heading", 1)
    assert run["cost_usd"] is None
    assert run["cache"]["total"]["input_tokens"] > 0


def test_json_leaves_stderr_to_errors(cli: Cli) -> None:
    assert cli("run", "cli_app:Desk", "please read", "--json").stderr == ""


def test_a_question_may_come_from_stdin(cli: Cli) -> None:
    result = done(cli("run", "cli_app:Desk", "-", input="from a pipe"))
    assert "You said 'from a pipe'" in result.stdout


def test_watch_shows_the_team_and_then_the_answer(cli: Cli) -> None:
    result = done(cli("run", "cli_app:Desk", "please read", "--watch"))
    assert result.stdout == "The tool says: It says: closed.\n"
    assert "desk/reader: turn 1: " in result.stderr
    assert "desk: done" in result.stderr


def test_a_session_goes_on_over_several_commands(cli: Cli) -> None:
    done(cli("run", "cli_app:Desk", "one", "--session", "talk"))
    second = done(cli("run", "cli_app:Desk", "two", "--session", "talk"))
    assert "You said 'two', after 3 messages." in second.stdout
    other = done(cli("run", "cli_app:Desk", "three", "--session", "another"))
    assert "after 1 messages" in other.stdout


def test_another_model_may_be_named(cli: Cli) -> None:
    result = cli("run", "cli_app:Desk", "x", "--model", "unheard:of")
    assert result.exit_code == 1
    assert "unheard:of" in result.stderr
    assert "Traceback" not in result.output


def test_a_call_that_needs_approval_ends_the_command_with_3_and_says_how_to_go_on(
    cli: Cli,
) -> None:
    waits = cli("run", "cli_app:Desk", "pay")
    assert waits.exit_code == 3, waits.output
    assert "desk wants to call pay with" in waits.stderr
    [line] = [line for line in waits.stderr.splitlines() if "go on with" in line]
    run_id = re.findall(r"[0-9a-f]{32}", line)[0]
    [call_id] = re.findall(r"id: (\S+)", waits.stderr)
    result = done(cli("resume", run_id, "cli_app:Desk", "--approve", call_id))
    assert result.stdout == "The tool says: paid 5 dollars\n"


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (("--approve", "all"), "paid 5 dollars"),
        (("--deny", "all=too dear"), "A person did not agree to this call. too dear"),
        (("--answer", "all=paid by bank"), "paid by bank"),
    ],
)
def test_a_pending_call_is_answered_by_options(
    cli: Cli, options: tuple[str, ...], answer: str
) -> None:
    waiting = found(cli("run", "cli_app:Desk", "pay", "--json"), 3)
    assert waiting["status"] == "paused"
    assert waiting["pending"][0]["tool"] == "pay"
    assert json.loads(waiting["pending"][0]["arguments"]) == {"usd": 5}
    # The beginning of an id is enough.
    run = found(cli("resume", waiting["run_id"][:10], "cli_app:Desk", "--json", *options))
    assert run["output"] == f"The tool says: {answer}"
    assert run["run_id"] == waiting["run_id"]


def test_an_answer_to_no_pending_call_is_an_error_that_names_those_that_wait(cli: Cli) -> None:
    waiting = found(cli("run", "cli_app:Desk", "pay", "--json"), 3)
    result = cli("resume", waiting["run_id"], "cli_app:Desk", "--approve", "another")
    assert result.exit_code == 1
    assert waiting["pending"][0]["id"] in result.stderr
    usage = cli("resume", waiting["run_id"], "cli_app:Desk", "--answer", "no-text")
    assert usage.exit_code == 2


def test_without_answers_it_waits_on(cli: Cli) -> None:
    waiting = found(cli("run", "cli_app:Desk", "pay", "--json"), 3)
    assert found(cli("resume", waiting["run_id"], "cli_app:Desk", "--json"), 3) == waiting


def test_a_run_that_failed_says_why_and_can_be_resumed(cli: Cli) -> None:
    failed = cli("run", "cli_app:Desk", "fail", "--json")
    run = found(failed, 1)
    assert run["status"] == "failed"
    assert run["error"] == "ModelError: the model is on fire"
    assert failed.stderr == "error: the model is on fire\n"
    again = cli("resume", run["run_id"], "cli_app:Desk")
    assert again.exit_code == 1
    assert "Traceback" not in again.output


def test_an_interrupt_says_how_to_go_on(cli: Cli) -> None:
    result = cli("run", "cli_app:Interrupted", "x")
    assert result.exit_code == 130, result.output
    assert re.search(
        r"error: interrupted; go on with: agentkit resume [0-9a-f]{32} cli_app:Interrupted",
        result.stderr,
    )


def test_how_to_go_on_names_the_journal_that_was_given(cli: Cli, tmp_path: Path) -> None:
    place = str(tmp_path / "other runs.db")
    waits = cli("run", "cli_app:Desk", "pay", "--journal", place)
    said = re.search(r"go on with: agentkit (.*) --approve ID", waits.stderr)
    assert said is not None, waits.stderr
    goes_on = cli(*shlex.split(said[1]), "--approve", "all")
    assert goes_on.exit_code == 0, goes_on.output


def test_without_a_journal_nothing_is_kept(cli: Cli, tmp_path: Path) -> None:
    done(cli("run", "cli_app:Desk", "x", "--journal", "none"))
    assert not (tmp_path / "runs.db").exists()
    waits = cli("run", "cli_app:Desk", "pay", "--journal", "none")
    assert waits.exit_code == 3
    assert "is lost" in waits.stderr


def test_by_default_runs_are_kept_in_the_users_data_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(journals.VARIABLE)
    place = tmp_path / "data" / "runs.db"
    monkeypatch.setattr(journals, "default_place", lambda: place)
    nothing = cli("runs")
    assert nothing.exit_code == 1
    assert f"there is no {place}" in nothing.stderr
    done(cli("run", "cli_app:Desk", "x"))
    assert place.exists()
    assert len(found(cli("runs", "--json"))) == 1


def test_an_agents_own_journal_counts_where_nothing_else_is_said(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(journals.VARIABLE)
    monkeypatch.setattr(journals, "default_place", lambda: Path("/nowhere/runs.db"))
    waiting = found(cli("run", "cli_app:Keeper", "pay", "--json"), 3)
    unknown = cli("resume", waiting["run_id"][:8], "cli_app:Keeper", "--approve", "all")
    assert "there is no run" in unknown.stderr  # such a journal lists nothing
    run = found(cli("resume", waiting["run_id"], "cli_app:Keeper", "--approve", "all", "--json"))
    assert run["output"] == "The tool says: paid 5 dollars"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("run", "cli_app", "x"), 1, "names no agent; write my_app:MyAgent"),
        (("run", "cli_app:Nobody", "x"), 1, "its agents are: Clerk, Desk, Heading"),
        (("run", "no_such_app:Desk", "x"), 1, "there is no module 'no_such_app'"),
        (("resume", "feedface", "cli_app:Desk"), 1, "there is no run 'feedface'"),
        (("show", "feedface"), 1, "`agentkit runs` lists them"),
        (("runs", "--status", "odd"), 2, "it can be: running, paused, done, failed"),
        (("cost", "--since", "yesterday"), 2, "no age like 12h or 7d"),
        (("cost", "--by", "color"), 2, "it can be: agent, team"),
        (("runs", "--journal", "none"), 2, "there are no runs without a journal"),
    ],
)
def test_mistakes_end_with_one_line_that_says_the_fix(
    cli: Cli, arguments: tuple[str, ...], code: int, says: str
) -> None:
    if arguments[0] in ("show", "resume"):
        cli("run", "cli_app:Heading", "x")
    result = cli(*arguments)
    assert result.exit_code == code, result.output
    assert says in result.stderr
    assert "Traceback" not in result.output
    assert len(result.stderr.splitlines()) == 1


def test_help_imports_no_sdk_no_database_and_no_telemetry() -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom agentkit.cli import app\n"
        "assert CliRunner().invoke(app, ['run', '--help']).exit_code == 0\n"
        "heavy = {'sqlalchemy', 'opentelemetry', 'mcp', 'torch', 'anthropic', 'openai', 'google',"
        " 'httpx2', 'uvicorn', 'agentkit_runtime'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


SLOW = """
import asyncio, os, signal
from agentkit import Agent, tool
from agentkit.testing import Call, ScriptedModel

# As on a terminal: what is begun in the background of a script inherits that it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

def respond(request):
    last = request.context.messages[-1]
    return Call("wait") if last.kind == "user" else f"It said: {last.results[0].content[:40]}"

class Slow(Agent):
    model = ScriptedModel(respond)
    @tool
    async def wait(self) -> str:
        "Wait."
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        return ""
"""


def test_ctrl_c_ends_the_process_and_another_goes_on(tmp_path: Path) -> None:
    (tmp_path / "slow_app.py").write_text(SLOW)
    command = [sys.executable, "-m", "agentkit"]
    more: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 60}
    where = ("slow_app:Slow", "--journal", "runs.db")
    first = subprocess.run([*command, "run", where[0], "x", *where[1:]], **more)
    assert first.returncode == 130, first.stderr
    assert "Traceback" not in first.stderr
    [run_id] = re.findall(r"agentkit resume ([0-9a-f]{32}) slow_app:Slow", first.stderr)
    second = subprocess.run([*command, "resume", run_id, *where], **more)
    assert second.returncode == 0, second.stderr
    assert second.stdout.startswith("It said: This call was")


NOISY = """
from agentkit import Agent, tool
from agentkit.testing import Call, ScriptedModel

print("loading")

class Noisy(Agent):
    model = ScriptedModel([Call("pay"), "paid"])
    @tool(requires_approval=True)
    def pay(self) -> str:
        "Pay."
        print("paying")
        return "ok"
"""


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_questions_and_what_an_app_prints_do_not_get_into_the_answer(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """With a real terminal for questions, and stdout in a pipe."""
    (tmp_path / "noisy_app.py").write_text(NOISY)
    terminal, its_end = os.openpty()
    try:
        os.write(terminal, b"yes\n")
        command = [sys.executable, "-m", "agentkit", "run", "noisy_app:Noisy", "x", *options]
        run = subprocess.run(
            [*command, "--journal", "none"],
            cwd=tmp_path,
            stdin=its_end,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    finally:
        os.close(its_end)
        os.close(terminal)
    assert (json.loads(run.stdout)["output"] + "\n" if options else run.stdout) == "paid\n"
    assert "agree? (yes, no, or no with a reason; empty: later): " in run.stderr
    assert "loading" in run.stderr
    assert "paying" in run.stderr


def test_more_runs_than_a_journal_can_count_are_not_asked_for(cli: Cli) -> None:
    result = cli("runs", "--limit", str(10**20))
    assert result.exit_code == 2
    assert "Traceback" not in result.output
