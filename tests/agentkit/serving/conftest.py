"""Fixtures for tests of served agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client

from agentkit import Agent
from agentkit.serving import serve_mcp


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    """How the client speaks: today's protocol, or that of the handshake."""
    return str(request.param)


@pytest.fixture
def client(mode: str) -> Callable[..., Client]:
    """`client(agent, callbacks..., serve={...})`: the SDK's client of a served agent."""

    def make(agent: Agent[Any, Any], serve: dict[str, Any] | None = None, **more: Any) -> Client:
        server = serve_mcp(agent, **(serve or {}))
        return Client(server, mode=mode, read_timeout_seconds=30, **more)

    return make
