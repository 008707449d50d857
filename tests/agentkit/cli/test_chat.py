"""`agentkit chat`, with its lines from a pipe."""

from __future__ import annotations

import json

from tests.agentkit.cli.conftest import Cli


def test_a_conversation_goes_on_and_is_kept_as_one_session(cli: Cli) -> None:
    result = cli("chat", "cli_app:Desk", "--session", "talk", input="one\ntwo\n/quit\n")
    assert result.exit_code == 0, result.output
    assert "You said 'one', after 1 messages." in result.stdout
    assert "You said 'two', after 3 messages." in result.stdout
    assert "agentkit chat cli_app:Desk --session talk" in result.stderr
    kept = json.loads(cli("runs", "--session", "talk", "--json").stdout)
    assert [row["status"] for row in kept] == ["done", "done"]
    later = cli("chat", "cli_app:Desk", "--session", "talk", input="three\n")
    assert "You said 'three', after 5 messages." in later.stdout


def test_a_call_that_needs_approval_is_asked_about_in_the_middle(cli: Cli) -> None:
    result = cli("chat", "cli_app:Desk", input="pay\nyes\npay\nno, too dear\npay\n\n/quit\n")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("desk wants to call pay with") == 3
    assert "The tool says: paid 5 dollars" in result.stdout
    assert "did not agree to this call. too dear" in result.stdout
    assert result.stdout.count("The tool says: ") == 3  # no answer is a no


def test_a_failed_answer_does_not_end_the_conversation(cli: Cli) -> None:
    result = cli("chat", "cli_app:Desk", input="one\nfail\nafter that\n")
    assert result.exit_code == 0, result.output
    assert "error: the model is on fire" in result.stderr
    assert "You said 'after that'" in result.stdout


def test_an_interrupt_stops_the_answer_and_not_the_conversation(cli: Cli) -> None:
    result = cli("chat", "cli_app:Interrupted", "--session", "s", input="one\ntwo\n")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("stopped") == 2
    kept = json.loads(cli("runs", "--session", "s", "--json").stdout)
    assert [row["status"] for row in kept] == ["cancelled", "cancelled"]


def test_commands_begin_anew_and_say_what_it_has_cost(cli: Cli) -> None:
    result = cli("chat", "cli_app:Desk", input="one\n/cost\n/new\ntwo\n/help\n")
    assert "You said 'two', after 1 messages." in result.stdout
    assert "desk" in result.stderr
    assert "1    " in result.stderr or "calls" in result.stderr
    assert "/new begins a new conversation" in result.stderr.rpartition("two")[2]


def test_an_answer_that_does_not_fit_is_said_to_be_none(cli: Cli) -> None:
    result = cli("chat", "cli_app:Unsure", input="how many\n")
    assert result.exit_code == 0, result.output
    assert "the answer is rejected: Your answer does not fit" in result.stderr
    assert result.stdout.split()[-2:] == ["many", "[4]"]


def test_what_is_no_command_is_said_whatever_it_begins_with(cli: Cli) -> None:
    lines = "/etc/hosts is what?\n//quit\n///\n \n/quit\n"
    result = cli("chat", "cli_app:Desk", input=lines)
    assert result.exit_code == 0, result.output
    assert "You said '/etc/hosts is what?', after 1 messages." in result.stdout
    assert "You said '/quit', after 3 messages." in result.stdout
    assert "You said '//', after 5 messages." in result.stdout
    assert result.stdout.count("You said") == 3


def test_stdout_has_the_answers_and_nothing_else(cli: Cli) -> None:
    result = cli("chat", "cli_app:Desk", input="hello\n\npay\nyes\n/quit\n")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ("You said 'hello', after 1 messages.\nThe tool says: paid 5 dollars\n")
    assert result.stderr.count("you> ") == 4
