"""Making one call of an MCP server's tool, from the arguments to what the model reads.

Whatever goes wrong is an answer for the model; only cancellation is raised, and `Suspended` where
the call waits for a person. A call is never sent twice by itself: once it was written, nobody
knows whether it had an effect. (A server of the modern protocol that needs an answer first says
so in place of a result, and is then called again with the answer and its own state: `rounds.py`.)
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentkit.toolset.caller import NOBODY, Caller
from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.calls.asking import Asking, Refused
from agentkit.toolset.mcp.calls.flood import Floodgate
from agentkit.toolset.mcp.calls.results import cut, to_tool_output
from agentkit.toolset.mcp.calls.rounds import with_answers
from agentkit.toolset.mcp.calls.size import is_large
from agentkit.toolset.mcp.links.link import McpLink
from agentkit.toolset.mcp.links.transport import LOST, NOT_CARRIED_OUT, TOO_LATE
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.results import encodable
from agentkit.toolset.threads import run_in_thread
from agentkit.toolset.tool import ToolOutput

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT

_LOGGER = logging.getLogger("agentkit.mcp")

_MOST_ERROR_CHARS = 10_000
"""Of what a server says in an error of the protocol: it is untrusted, and no result."""
_MOST_URLS = 5
_MESSAGE_CHARS = 500
_PROGRESS_BURST, _PROGRESS_PER_S = 50, 10.0
"""Reports of progress that one call passes on; a server may send thousands."""
_NOT_AS_PROMISED = (
    "(This result is not of the form that the tool promises; it is shown as it came.)"
)
_NO_WAY_TO_ASK = "no back-channel for server-initiated requests"
"""Words of the MCP SDK. A server that fails otherwise gets no hint, and no harm comes of it."""
_URL_REQUIRED = -32042
"""Code of 2025-11-25: a person must have visited a URL before the call can be made."""


async def make_call(
    server: McpServer,
    live_link: Callable[[], Awaitable[McpLink]],
    name: str,
    arguments: Mapping[str, object],
    caller: Caller = NOBODY,
    *,
    logged: set[str] | None = None,
) -> ToolOutput:
    """Call a tool and answer with its result.

    Args:
        server: whose tool it is.
        live_link: returns a link that can be used, started anew if need be.
        name: the server's own name of the tool.
        arguments: as the model gave them.
        caller: who makes the call, for progress and for what the server asks meanwhile.
        logged: what is logged once for a server and was; it grows.

    Raises:
        Suspended: the call waits for a person; see `Caller.ask`.
    """
    try:
        canonical_json({"name": name, "arguments": dict(arguments)})
        link = await live_link()
    except ValueError as error:
        return ToolOutput.error(f"The call cannot be sent: {error}.")
    except McpConnectError as error:
        return ToolOutput.error(f"{error}. The call was not sent.", may_pass=True)
    asking = Asking(server, caller)
    hidden = link.transport.secrets.hidden
    on_progress = None if caller is NOBODY else _progress_of(caller, hidden)

    async def send(more: Mapping[str, object]) -> Mapping[str, object]:
        params = {"name": name, "arguments": dict(arguments), **more}
        return await link.request("tools/call", params, server.timeout_of(name), on_progress)

    try:
        async with link.callbacks.answering(asking, is_modern=link.is_modern):
            result = await with_answers(send, asking)
    except Refused as error:
        output = ToolOutput.error(f"The call was given up: {error}.")
    except Exception as error:
        # Whatever the SDK raises: the call may have reached the server, and the model must know.
        problem = await _explain(error, link, server, name)
        output = ToolOutput.error(cut(problem, _MOST_ERROR_CHARS), may_pass=True)
    else:
        output = await _read(result, link, server, name)
    if output.is_error and link.is_modern and _NO_WAY_TO_ASK in output.content:
        output = _could_not_ask(server, output, set() if logged is None else logged)
    output = _noted(output, asking.notes)
    # At last: what was added counts, too.
    return replace(output, content=cut(output.content, server.max_result_chars))


async def _read(
    result: Mapping[str, object], link: McpLink, server: McpServer, name: str
) -> ToolOutput:
    """Read a raw result, a large one beside the event loop, and say so if its form is another."""

    def read() -> tuple[ToolOutput, str | None]:
        shown = link.transport.secrets.out_of_result(result)
        output = to_tool_output(shown, server.max_result_chars, server.max_attachment_bytes)
        return output, link.promised.problem_with(name, result)

    is_quick = link.promised.is_quick(name) and not is_large(result)
    output, broken = read() if is_quick else await run_in_thread(read, "read-mcp-result")
    if broken is None:
        return output
    _LOGGER.info("%s: result of %r is not what was promised: %s", server.alias, name, broken)
    return replace(output, content=f"{output.content}\n{_NOT_AS_PROMISED}")


def _could_not_ask(server: McpServer, output: ToolOutput, logged: set[str]) -> ToolOutput:
    """Say what helps a tool that sends a request where the protocol has no way for that."""
    cure = (
        f"the tool sends its question as a request (as `ctx.elicit` does), which protocol "
        f"2026-07-28 does not have; set McpServer(alias={server.alias!r}, protocol='legacy', "
        "elicits=True), or have the server ask by `Resolve` and `Elicit`"
    )
    if not server.elicits and not server.samples:
        cure = "the tool may not ask here (McpServer.elicits and samples are off)"
    if cure not in logged:
        logged.add(cure)
        _LOGGER.warning("MCP server %r could not ask: %s", server.alias, cure)
    said = f"{output.content}\n(For who runs this program: {cure}.)"
    return replace(output, content=said)


def _progress_of(caller: Caller, hidden: Callable[[str], str]) -> ProgressFnT:
    """Return what hands a server's reports on, unless they are nonsense or too many."""
    gate, has_ended = Floodgate(_PROGRESS_BURST, _PROGRESS_PER_S), False

    async def report(progress: float, total: float | None, message: str | None) -> None:
        nonlocal has_ended
        is_last = total is not None and progress >= total and not has_ended
        has_ended = has_ended or is_last
        if math.isfinite(progress) and (gate.passes() or is_last):
            known = total if total is not None and math.isfinite(total) else None
            said = hidden(message or "")[:_MESSAGE_CHARS]
            caller.progress(progress, known, encodable(said))

    return report


def _noted(output: ToolOutput, notes: list[str]) -> ToolOutput:
    """What a server was not told, said to the model before the result."""
    if not notes:
        return output
    content = "\n".join([*map(encodable, notes), output.content])
    return replace(output, content=content)


async def _explain(error: Exception, link: McpLink, server: McpServer, name: str) -> str:
    """What to tell the model about a call that got no result."""
    from mcp import MCPError
    from mcp_types import (
        CONNECTION_CLOSED,
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        PARSE_ERROR,
    )

    who = f"MCP server {server.alias!r}"
    if isinstance(error, MCPError) and error.code in NOT_CARRIED_OUT:
        return f"{who} {error.message}. The call was not carried out."
    if isinstance(error, MCPError) and error.code == LOST:
        return f"{who} {error.message}. Whether the call had an effect is unknown."
    if not link.is_alive:
        return (
            f"{who} {await link.problem()}. Whether the call had an effect is unknown; "
            "the next call starts the server again."
        )
    if isinstance(error, MCPError) and error.code in (CONNECTION_CLOSED, PARSE_ERROR):
        problem = encodable(error.message)
        return f"{who} broke off its answer ({problem}). Whether the call had an effect is unknown."
    if not isinstance(error, MCPError):
        said = link.transport.secrets.hidden(str(error))
        return f"{who} could not be asked: {type(error).__name__}: {said}"
    if error.code == TOO_LATE:
        return (
            f"{who} did not answer within {server.timeout_of(name):g} s. "
            "Whether the call had an effect is unknown."
        )
    if error.code == MISSING_REQUIRED_CLIENT_CAPABILITY:
        _LOGGER.warning("%s wants more than it may: set elicits or samples of its McpServer", who)
    wanted = _urls(error.error.data) if error.code == _URL_REQUIRED else ""
    return f"{who} answered with an error: {encodable(error.message)} (code {error.code}).{wanted}"


def _urls(data: Any) -> str:
    """The pages that a person must visit first, from the data of such an error."""
    asked = data.get("elicitations") if isinstance(data, Mapping) else None
    each = [one for one in asked if isinstance(one, Mapping)] if isinstance(asked, list) else []
    urls = [str(one.get("url")) for one in each[:_MOST_URLS]]
    return f" A person must first visit: {', '.join(map(encodable, urls))}" if urls else ""
