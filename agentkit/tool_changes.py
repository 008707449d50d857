"""Between two turns: a conversation meets what its MCP servers have changed.

What was sent never moves. Tools that a server has added come behind it, where the model takes tools
there; whatever else differs waits for the next epoch. An event says what, and what that would cost.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TypeAlias

from agentkit.blocks import ToolMessage, ToolsMessage, UserMessage
from agentkit.caching.tokens import data_tokens
from agentkit.context import Context, SystemPart, SystemText, Tier, ToolList
from agentkit.context.segment import Content, Segment
from agentkit.events import ServerFailed, ToolsChanged
from agentkit.finding import MOST_LATER, found_specs
from agentkit.models.base import takes_tools
from agentkit.models.prices import prices_of
from agentkit.shown_tools import own_names
from agentkit.state import RunState
from agentkit.toolset import (
    McpConnectError,
    McpConnection,
    McpTool,
    ToolNameConflict,
    Toolset,
    ToolSpec,
)
from agentkit.toolset.mcp.lists.changes import ToolChanges, compare, describe

_LOGGER = logging.getLogger("agentkit.mcp")

_Price: TypeAlias = tuple[int, Decimal | None]
"""Tokens, and USD if the price is known."""


async def tell_tools(run: RunState, turn: int) -> list[ToolsChanged | ServerFailed]:
    """Take in what the agent's servers have changed since it was looked at; returns the events.

    The last thing before the model is asked: what comes with it stands behind all that is said.
    """
    await learn_tools(run)
    news, added = _news(run), found_specs(run)
    if not (news or added) or not _may_append(run.context):
        return []
    run.told_tools = {**run.told_tools, **{each.server.alias: _state(each) for each in news}}
    shown = _shown(run)
    events: list[ToolsChanged | ServerFailed] = []
    price: _Price | None = None
    for connection in news:
        if connection.error is not None:
            events.append(_failed(connection, connection.error, turn))
        if connection.offered.is_known and (changes := _changes(run, connection, shown)):
            specs = _to_show(run, connection, changes, len(added))
            added += specs
            if not specs and _is_told(run, connection):
                continue
            price = price or _price(run)
            events.append(_changed(run, connection, changes, price, turn, is_shown=bool(specs)))
    run.lists_told = {**run.lists_told, **{each.server.alias: each.offered.digest for each in news}}
    if added:
        run.say(ToolsMessage(tuple(spec.bytes.decode() for spec in _sorted(added))))
    for event in events:
        _LOGGER.warning("agent %r: %s", run.member.name, _text(event))
    return events


async def learn_tools(run: RunState) -> None:
    """Learn what the agent's servers offer now, if that may have changed. Bounded; never fails."""
    member = run.member
    if member.served is not None and member.aliases:
        await member.served.recheck(member.aliases)


def with_newest_tools(run: RunState, context: Context) -> Context:
    """Return a new epoch of the run with the tools of now in front, and none behind it."""
    toolset = _newest(run)
    if toolset is None and not run.member.deferred:
        return context
    front = context.front
    if toolset is not None and toolset != run.member.toolset:
        front = _with_tools(front, toolset)
    return front.append(*(each for each in context.messages if not isinstance(each, ToolsMessage)))


def show_newest_tools(run: RunState) -> bool:
    """Let the agent go on behind the front of a context that `with_newest_tools` has made.

    Returns whether there are other tools in it than before.
    """
    toolset = _newest(run)
    shown = next((s.content for s in run.context.front if s.tier is Tier.TOOLS), None)
    data = shown.data if isinstance(shown, ToolList) else b"[]"
    if toolset is None or toolset == run.member.toolset or toolset.bytes != data:
        return False
    member = run.member.behind(run.context.front)
    run.member = replace(member, toolset=toolset, own_tools=own_names(member, toolset))
    run.told_tools = {}
    return True


def _news(run: RunState) -> list[McpConnection]:
    served, aliases = run.member.served, run.member.aliases
    return [] if served is None else [each for each in served.of(aliases) if _is_news(run, each)]


def _is_news(run: RunState, connection: McpConnection) -> bool:
    told = run.told_tools.get(connection.server.alias)
    return told != _state(connection)


def _state(connection: McpConnection) -> tuple[int, bool]:
    """What a conversation is told of: how often the list has changed, and whether it failed."""
    return connection.offered.revision, connection.error is not None


def _is_told(run: RunState, connection: McpConnection) -> bool:
    """Whether the conversation was told of this very list, in a run before say."""
    return run.lists_told.get(connection.server.alias) == connection.offered.digest


def _may_append(context: Context) -> bool:
    """Whether tools may stand here: behind what a user or a tool says, and once."""
    last = next(reversed(context), None)
    return last is not None and isinstance(last.content, UserMessage | ToolMessage)


def _shown(run: RunState) -> Mapping[str, Mapping[str, ToolSpec]]:
    """Return what the conversation is shown, by server."""
    shown: defaultdict[str, dict[str, ToolSpec]] = defaultdict(dict)
    for tool in run.toolset:
        if isinstance(tool, McpTool):
            shown[tool.alias][tool.spec.name] = tool.spec
    return shown


def _changes(
    run: RunState, connection: McpConnection, shown: Mapping[str, Mapping[str, ToolSpec]]
) -> ToolChanges:
    alias = connection.server.alias
    changes = compare(shown.get(alias, {}), connection.offered.specs)
    if connection.server.may_defer:  # what is deferred is shown when it is found
        changes = replace(changes, added=tuple(_not_deferred(connection, changes.added)))
    taken = [name for name in changes.added if name in run.toolset]
    if not taken:
        return changes
    _LOGGER.warning("MCP server %r: there are other tools named %s", alias, ", ".join(taken))
    return replace(changes, added=tuple(n for n in changes.added if n not in taken))


def _not_deferred(connection: McpConnection, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if not McpTool(connection, connection.offered.specs[name]).policy.defer_loading:
            yield name


def _to_show(
    run: RunState, connection: McpConnection, changes: ToolChanges, n_more: int
) -> list[ToolSpec]:
    """Return the added tools that the conversation gets now."""
    follows = connection.server.on_change == "append" and takes_tools(run.member.model)
    n_later = len(run.context.later_tools) + n_more + len(changes.added)
    if not follows or n_later > MOST_LATER:
        return []
    return [connection.offered.specs[name] for name in changes.added]


def _changed(
    run: RunState,
    connection: McpConnection,
    changes: ToolChanges,
    price: _Price,
    turn: int,
    *,
    is_shown: bool,
) -> ToolsChanged:
    tokens, usd = price
    shown = {tool.spec.name: tool.spec for tool in run.toolset}
    return ToolsChanged(
        turn=turn,
        server=connection.server.alias,
        added=changes.added,
        removed=changes.removed,
        changed=changes.changed,
        is_shown=is_shown,
        tokens=tokens,
        usd=usd,
        details=describe(shown, connection.offered.specs, changes.changed),
    )


def _failed(connection: McpConnection, error: McpConnectError, turn: int) -> ServerFailed:
    return ServerFailed(turn=turn, server=connection.server.alias, problem=error.problem)


def _price(run: RunState) -> _Price:
    """Return what a new epoch with the tools of now would write, and what that costs more."""
    toolset = _newest(run)
    if toolset is None:
        return 0, None
    front = _with_tools(run.context.front, toolset)
    n_shared = run.context.front.common_length(front)
    shared = _n_tokens(front.segments[:n_shared])
    written = _n_tokens(front.segments[n_shared:])
    written += _n_tokens(each for each in run.context if each.tier is Tier.HISTORY)
    prices = prices_of(run.member.model)
    anew = prices.request(read=shared, written=written)
    usd = anew - prices.request(read=_n_tokens(run.context)) if prices.is_known else None
    return written, usd


def _newest(run: RunState) -> Toolset | None:
    """Return what a new epoch of the run would show; None where that has no form.

    The agent's own tools as they are, those that its team's servers offer now, and of servers of
    which that is not known those that it was shown.
    """
    served, member = run.member.served, run.member
    if served is None:
        return None
    known = served.known_aliases
    own = (tool for tool in member.toolset if not isinstance(tool, McpTool))
    unknown = (
        tool
        for tool in run.toolset
        if isinstance(tool, McpTool) and tool.alias not in known and not tool.policy.defer_loading
    )
    try:
        return Toolset((*own, *unknown, *served.tools))
    except ToolNameConflict:
        return None


def _with_tools(front: Context, toolset: Toolset) -> Context:
    contents: list[Content] = [each.content for each in front if each.tier is not Tier.TOOLS]
    if len(toolset):
        first = contents[0] if contents else None
        has_rules = isinstance(first, SystemText) and first.part is SystemPart.RULES
        contents.insert(int(has_rules), ToolList(toolset.bytes))
    return Context(*contents)


def _sorted(specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    return sorted(specs, key=lambda spec: spec.name)


def _n_tokens(segments: Iterable[Segment]) -> int:
    return sum(data_tokens(segment.data) for segment in segments)


def _text(event: ToolsChanged | ServerFailed) -> str:
    if isinstance(event, ServerFailed):
        return f"goes on without MCP server {event.server!r}, which {event.problem}"
    kinds: Mapping[str, tuple[str, ...]] = {
        "added": event.added,
        "removed": event.removed,
        "changed": event.changed,
    }
    what = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)
    where = "from here on" if event.is_shown else "with its next epoch"
    shown = f"the model has what was added {where}; " if event.added else ""
    cost = "" if event.usd is None else f", {event.usd:.4f} USD"
    return (
        f"MCP server {event.server!r} has other tools than the conversation was shown ({what}); "
        f"{shown}a new epoch now would write {event.tokens} tokens{cost}"
    )
