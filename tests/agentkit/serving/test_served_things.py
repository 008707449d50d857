"""What can be served: agents, and nothing that only looks like one."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit import Agent, ConfigurationError
from agentkit.serving import http_app, serve_mcp
from agentkit.testing import ScriptedModel


class Desk(Agent[None, str]):
    """You answer."""


@pytest.mark.parametrize(
    ("given", "words"), [(Desk, r"not the class Desk; make one: Desk\("), ("x", "not a str")]
)
def test_what_is_no_agent_is_not_served(given: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        serve_mcp(given)


def test_an_agent_is_made_a_server_before_it_is_an_application() -> None:
    agent: Any = Desk(model=ScriptedModel([]))
    with pytest.raises(ConfigurationError, match=r"http_app\(serve_mcp\(agent\)\)"):
        http_app(agent)
