"""Fixtures for the toolset's tests."""

from __future__ import annotations

import pytest

from agentkit.toolset import ToolContext


@pytest.fixture
def context() -> ToolContext[None]:
    return ToolContext(deps=None, agent="tester", run_id="run-1", call_id="call-1")
