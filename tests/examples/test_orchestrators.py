"""The orchestrators do offline what they claim; what they claim of caches they check themselves."""

from __future__ import annotations

import pytest

from examples import coding_team, support_desk


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
