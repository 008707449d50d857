"""The orchestrators do offline what they claim; what they claim of caches they check themselves."""

from __future__ import annotations

import pytest

from examples import coding_team, compliance_check, overnight, research, support_desk


def test_the_coding_team_ends_with_passing_tests_after_a_rejected_attempt(
    capsys: pytest.CaptureFixture[str],
) -> None:
    coding_team.main([])
    printed = capsys.readouterr().out
    assert "+        self._numbers[name] = self._numbers.get(name, 0) + number" in printed
    assert "planner/reviewer" in printed
    assert "anthropic  would read" in printed


def test_the_support_desk_hands_over_and_resumes_an_approved_refund_in_another_process(
    capfd: pytest.CaptureFixture[str],
) -> None:
    support_desk.main([])
    printed = capfd.readouterr().out
    assert 'triage wants refund {"order": "4711", "euros": 240}: approved' in printed
    assert "240 euros are on their way. That takes up to five working days." in printed
    assert "anthropic  would read" in printed


def test_the_compliance_check_judges_by_the_policies_of_the_day(
    capsys: pytest.CaptureFixture[str],
) -> None:
    compliance_check.main([])
    printed = capsys.readouterr().out
    assert "caterer  version  3 breaches []" in printed
    assert "caterer  version  4 breaches ['payment.md']" in printed
    assert "1 new epoch(s): ['begin anew" in printed


def test_research_goes_on_without_a_reader_that_fails_and_believes_no_invented_quote(
    capsys: pytest.CaptureFixture[str],
) -> None:
    research.main([])
    printed = capsys.readouterr().out
    assert "loan.md: The museum returns the painting to the Lund Collection" in printed
    assert "keeps the painting" not in printed
    assert "not read: ['What did the director dream?']" in printed


def test_the_nights_answer_each_letter_once_within_their_budgets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    overnight.main([])
    printed = capsys.readouterr().out
    assert "night 1: 3," in printed
    assert "night 2: " in printed
    assert "0 left" in printed
