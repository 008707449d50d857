"""The orchestrators do offline what they claim; what they claim of caches they check themselves."""

from __future__ import annotations

import pytest

from examples import coding_team


def test_the_coding_team_ends_with_passing_tests_after_a_rejected_attempt(
    capsys: pytest.CaptureFixture[str],
) -> None:
    coding_team.main([])
    printed = capsys.readouterr().out
    assert "+        self._numbers[name] = self._numbers.get(name, 0) + number" in printed
    assert "planner/reviewer" in printed
    assert "anthropic  would read" in printed
