"""An agent as an MCP server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentkit.errors import ConfigurationError
from agentkit.journal import Journal
from agentkit.serving.calls import Calls
from agentkit.serving.opened import OpenedAgent
from agentkit.serving.tools import ASK, DECIDE, served
from agentkit.team.plan import plan_team

if TYPE_CHECKING:
    from mcp.server import Server, ServerRequestContext
    from mcp_types import ListToolsResult, PaginatedRequestParams

    from agentkit.agent import Agent

_LISTING_TTL_MS = 24 * 60 * 60 * 1_000
"""The tools do not change while the server runs."""


def serve_mcp(
    agent: Agent[Any, Any],
    *,
    name: str | None = None,
    tool: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    decide_tool: bool = False,
    journal: Journal | None = None,
    max_runs: int = 8,
    max_sessions: int = 1_000,
) -> Server[Any]:
    """Return an MCP server whose tool asks the agent.

    What happens in a run is told as progress; a client that cancels its call cancels the run, and
    what it has done stays in its session. Calls that wait for approval are shown to the client's
    user, if the client can do that. Else they are declined; or wait, if there is a journal or the
    second tool. A result's `_meta` has the run's id, tokens and cost under `agentkit/run`, an error
    result's too.

    Whoever reaches the server may ask the agent, and may go on with any session whose name they
    know: one server is for people who trust each other.

    Args:
        agent: also the agent's own MCP servers are connected once, for all clients.
        name: the server's name; the agent's by default.
        tool: the tool's name; `ask_<agent>` by default.
        description: what clients' models read of it; by default it is made of the agent's role,
            whose first paragraph it has.
        read_only: say that the agent changes nothing; clients may then ask their users less.
        decide_tool: have a second tool `<tool>_decide` that answers calls which wait. The client's
            model could call it without asking anybody: for clients that confirm calls with their
            user, and cannot show forms.
        journal: keeps each step of the runs; by default that of the agent.
        max_runs: runs at the same time; others wait for their turn.
        max_sessions: conversations, and waiting runs, that are kept in memory. Of more, those
            that were used last are kept. A journal keeps them all.

    Raises:
        ConfigurationError: the agent is put together wrongly, or a name or number is of no use.
    """
    for option, value in (("max_runs", max_runs), ("max_sessions", max_sessions)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigurationError(f"{option} must be an int of at least 1, got {value!r}")
    check_agent(agent)
    plan_team(agent)
    tools = served(
        agent, tool=tool, description=description, read_only=read_only, decides=decide_tool
    )
    from mcp.server import Server
    from mcp.server.caching import CacheHint
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
    from mcp_types import ListToolsResult

    opened = OpenedAgent(agent)
    calls = Calls(
        agent, tools, opened, journal=journal, max_runs=max_runs, max_sessions=max_sessions
    )
    schemas = {tools.ask: ASK} | ({} if tools.decide is None else {tools.decide: DECIDE})

    async def list_tools(
        ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=tools.tools())

    @asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncGenerator[dict[str, Any], None]:
        async with opened.held():
            yield {}

    server = Server[Any](
        agent.name if name is None else name,
        version=_version(),
        lifespan=lifespan,
        cache_hints={"tools/list": CacheHint(ttl_ms=_LISTING_TTL_MS, scope="public")},
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=calls.call,
    )
    # What a client sends back with the answers is sealed, and good for one call.
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
    return server


def check_agent(agent: object) -> None:
    """Check that what is to be served is an agent.

    Raises:
        ConfigurationError: it is its class, or something else.
    """
    from agentkit.agent import Agent

    if isinstance(agent, type) and issubclass(agent, Agent):
        raise ConfigurationError(
            f"serve_mcp takes an agent, not the class {agent.__name__}; make one: "
            f"{agent.__name__}(...)"
        )
    if not isinstance(agent, Agent):
        raise ConfigurationError(f"serve_mcp takes an agent, not a {type(agent).__name__}")


def _version() -> str:
    from importlib.metadata import version

    return version("agentkit-radix")
