"""A server's listing, as far as it is trusted. What reads texts is loaded when there are some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.toolset.errors import McpConnectError, McpLockError
from agentkit.toolset.mcp.lists.describing import describe_change
from agentkit.toolset.mcp.lists.listing import ListedTool, Listing, Selection
from agentkit.toolset.mcp.lists.names import final_names
from agentkit.toolset.mcp.lists.words import bounded
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.mcp.trust.flag import Flag
from agentkit.toolset.mcp.trust.setting import Trust

if TYPE_CHECKING:
    from agentkit.toolset.mcp.trust.diff import LockDifference
    from agentkit.toolset.mcp.trust.lock import ApprovedTool

_REFUSAL = (
    "This tool is not any more what was approved, and what it does may have changed. It was not "
    "called, and cannot be until a person has approved its new form."
)


def trusted(server: McpServer, listing: Listing) -> Listing:
    """Return what of a server's listing may be shown, see `judged`.

    Raises:
        McpConnectError: its lock cannot be read.
    """
    selection = Selection(allow=server.allow, deny=server.deny)
    try:
        return judged(server.alias, listing, server.trust, selection)
    except McpLockError as error:
        raise McpConnectError(server.alias, f"cannot be trusted: {error}") from error


def judged(alias: str, listing: Listing, trust: Trust, selection: Selection) -> Listing:
    """Return what of a listing may be shown. Depends on the listing, the setting and the lock.

    Flags become warnings, but for notes. With a lock, the tools are those that were approved and
    are still offered, to the byte; `refusal` says which of them are not to be called.

    Args:
        alias: the server's.
        listing: what it offers, as it came.
        trust: its setting.
        selection: which of its tools are taken: others need no approval.

    Raises:
        McpLockError: there is no lock, or it is damaged.
    """
    flagged = {tool.original: _flags(tool) for tool in listing.tools}
    if trust.lock is not None:
        from agentkit.toolset.mcp.trust.lock import McpLock

        approved = McpLock.read(trust.lock).approved(alias)
        taken = {name: tool for name, tool in approved.items() if selection.takes(name)}
        return _approved(alias, listing, trust, taken, flagged)
    said = _said(flagged)
    if not trust.refuses_flagged:
        return replace(listing, warnings=(*listing.warnings, *said), is_judged=True)
    refused = {name for name, flags in flagged.items() if _is_dangerous(flags)}
    said += [f"tool {name!r} was left out, because of its flags" for name in sorted(refused)]
    tools = tuple(tool for tool in listing.tools if tool.original not in refused)
    warnings = (*listing.warnings, *said)
    return replace(listing, tools=tools, warnings=warnings, is_judged=True)


def _said(flagged: Mapping[str, tuple[Flag, ...]]) -> list[str]:
    """Flags in words, the worst first; a server can have any number of them."""
    flags = [flag for each in flagged.values() for flag in each if flag.severity != "note"]
    flags.sort(key=lambda flag: flag.severity != "danger")
    return list(bounded([str(flag) for flag in flags]))


def _approved(
    alias: str,
    listing: Listing,
    trust: Trust,
    approved: Mapping[str, ApprovedTool],
    flagged: Mapping[str, tuple[Flag, ...]],
) -> Listing:
    from agentkit.toolset.mcp.trust.diff import compare

    offered = {tool.original: tool for tool in listing.tools}
    difference = compare(approved, {name: tool.spec for name, tool in offered.items()})
    # By all that were approved: a tool that comes or goes must not rename the others.
    names = final_names(alias, approved)
    tools = tuple(
        ListedTool(
            original=name,
            spec=approved[name].spec(names[name], offered[name].spec.source),
            refusal=_REFUSAL if name in difference.changed and not trust.calls_changed else "",
        )
        for name in sorted(offered.keys() & approved.keys())
    )
    shown = {tool.original: tool for tool in tools}
    warnings = _warnings(difference, offered, shown, trust, flagged)
    return replace(listing, tools=tools, warnings=(*listing.warnings, *warnings))


def _warnings(
    difference: LockDifference,
    offered: Mapping[str, ListedTool],
    shown: Mapping[str, ListedTool],
    trust: Trust,
    flagged: Mapping[str, tuple[Flag, ...]],
) -> list[str]:
    """What differs from the lock. Flags of what was approved were seen by whoever approved it."""
    said = []
    for name in difference.added:
        flags = "".join(f"; {flag}" for flag in flagged[name] if flag.severity != "note")
        said.append(f"tool {name!r} is new and was left out until it is approved{flags}")
    for name in difference.changed:
        handling = "still called" if trust.calls_changed else "not called until it is approved"
        flags = "".join(f"\n{flag}" for flag in flagged[name] if flag.severity != "note")
        change = describe_change(shown[name].spec, offered[name].spec)
        said.append(
            f"tool {name!r} has changed since it was approved; it is shown as it was, and "
            f"{handling}:\n{change}{flags}"
        )
    said += [f"tool {name!r} is approved, and no longer offered" for name in difference.removed]
    return said


def _flags(tool: ListedTool) -> tuple[Flag, ...]:
    from agentkit.toolset.mcp.trust.scan import flags_of_tool

    return flags_of_tool(tool.original, tool.spec.description, tool.spec.parameters)


def _is_dangerous(flags: tuple[Flag, ...]) -> bool:
    return any(flag.severity == "danger" for flag in flags)
