"""Claude's cache at the hands of a clock, for tests of the planner."""

from __future__ import annotations

import pytest

from agentkit.caching.policy import Policy
from agentkit.caching.simulate import ManualClock, SimulatedAnthropic
from tests.agentkit.caching.plan.planning import CLAUDE, policy_of


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cache(clock: ManualClock) -> SimulatedAnthropic:
    return SimulatedAnthropic(clock=clock)


@pytest.fixture
def policy() -> Policy:
    return policy_of("anthropic", CLAUDE)
