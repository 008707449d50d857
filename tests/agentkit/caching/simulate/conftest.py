"""A clock for every test."""

from __future__ import annotations

import pytest

from agentkit.caching.simulate import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """Friday, 2026-11-27, noon UTC."""
    return ManualClock()
