"""A server's tool list: all pages, each tool judged by itself.

One bad tool costs that tool and not the others. What was left out, and why, is in the warnings.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from agentkit.toolset.errors import ToolDefinitionError
from agentkit.toolset.mcp.lists.names import final_names
from agentkit.toolset.mcp.lists.paging import all_pages, is_sendable
from agentkit.toolset.mcp.lists.words import bounded, excerpt
from agentkit.toolset.tool import ToolSpec

_MOST_TOOLS = 5_000
_MOST_BYTES = 2 * 1024 * 1024
"""Of the tools of one server together: half a million tokens."""
_MOST_TOOL_CHARS = 200_000
"""Of one tool's description and schema."""
_MANY_DIGITS = re.compile(r"\d{309}")
_NEVER_MS = 366 * 86_400_000
"""No list stays as it is for longer than a year."""

Request = Callable[[str, dict[str, object]], Awaitable[Mapping[str, object]]]
"""Sends a request (method, params) and returns the raw result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTool:
    """One usable tool: its original name for the wire, and its pinned spec under the final name."""

    original: str
    spec: ToolSpec
    refusal: str = ""
    """What a call is answered instead of being sent: it differs from what was approved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a server offers, sorted by original name, and what was wrong with the rest."""

    tools: tuple[ListedTool, ...]
    warnings: tuple[str, ...]
    ttl_s: float = 0.0
    """For how long the server says that the list may be used without asking again."""
    all_names: frozenset[str] | None = None
    """The server's own names of all that it lists, taken or not; None: it was kept on disk."""
    has_list: bool = True
    """Whether there was any list in what the server answered, an empty one say."""
    is_judged: bool = False
    """Whether it was looked through for what a model should not read, see `trust`."""

    @property
    def specs(self) -> dict[str, ToolSpec]:
        """The specs by their final names."""
        return {tool.spec.name: tool.spec for tool in self.tools}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which tools of a server to take, by original name. None takes all, or leaves none out."""

    allow: frozenset[str] | None = None
    deny: frozenset[str] | None = None
    by_header: bool = False
    """Whether arguments may have to go into HTTP headers too; tools whose schema asks for headers
    that cannot be are left out, as the protocol wants it."""

    def takes(self, name: str) -> bool:
        """Whether to take the tool of this name."""
        allowed = self.allow is None or name in self.allow
        return allowed and name not in (self.deny or ())


async def list_tools(alias: str, selection: Selection, request: Request) -> Listing:
    """Fetch and judge all tools. The result depends on their set, not on the order of listing."""
    warnings: list[str] = []
    raw_tools, pages = await all_pages(request, "tools/list", "tools", warnings)
    raw_by_name: dict[str, list[Mapping[str, object]]] = {}
    listed: set[str] = set()
    for raw in raw_tools:
        name = raw.get("name") if isinstance(raw, Mapping) else None
        if not isinstance(raw, Mapping) or not isinstance(name, str) or not name:
            warnings.append(f"a tool without a name was left out: {excerpt(raw)!r}")
            continue
        listed.add(name)
        if not is_sendable(name):
            warnings.append(
                f"tool {excerpt(name)!r} was left out: its name cannot be sent in UTF-8"
            )
        elif selection.takes(name):
            raw_by_name.setdefault(name, []).append(raw)
    by_name = await _specs(alias, raw_by_name, warnings, by_header=selection.by_header)
    warnings += _never_listed(selection, listed)
    chosen = {name: _choose(name, specs, warnings) for name, specs in by_name.items()}
    names = final_names(alias, chosen)
    tools = [
        ListedTool(original=original, spec=_renamed(chosen[original], final))
        for original, final in sorted(names.items())
    ]
    return Listing(
        tools=tuple(tools),
        warnings=tuple(bounded(sorted(warnings))),
        ttl_s=_shortest_ttl_s(pages),
        all_names=frozenset(listed),
        has_list=any(isinstance(page.get("tools"), list) for page in pages),
    )


async def _specs(
    alias: str,
    raw_by_name: Mapping[str, list[Mapping[str, object]]],
    warnings: list[str],
    *,
    by_header: bool,
) -> dict[str, list[ToolSpec]]:
    """The specs of each name, by what there is room for: the first in the order of their names."""
    by_name: dict[str, list[ToolSpec]] = {}
    n_bytes = n_left_out = 0
    for number, name in enumerate(sorted(raw_by_name)):
        if number >= _MOST_TOOLS or n_bytes > _MOST_BYTES:
            n_left_out += 1
            continue
        for raw in raw_by_name[name]:
            # A long list must not hold up what else runs here, nor the limit of time for it.
            await asyncio.sleep(0)
            spec = _spec(alias, raw, by_header=by_header)
            if isinstance(spec, ToolSpec):
                by_name.setdefault(name, []).append(spec)
            else:
                warnings.append(f"tool {excerpt(name)!r} was left out: {spec}")
        n_bytes += max((len(spec.bytes) for spec in by_name.get(name, ())), default=0)
    if n_left_out:
        warnings.append(
            f"{n_left_out} tools were left out: of one server, {_MOST_TOOLS} tools and "
            f"{_MOST_BYTES} bytes are taken; name those that you want in `allow`"
        )
    return by_name


def _shortest_ttl_s(pages: list[Mapping[str, object]]) -> float:
    """For how long all of them may be kept."""
    if pages[-1].get("nextCursor") is not None:
        return 0.0  # it was cut, and may go on differently next time
    return min(_ttl_s(page.get("ttlMs")) for page in pages)


def _ttl_s(ttl_ms: object) -> float:
    """A server's `ttlMs` in seconds; 0 where there is none that makes sense."""
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int | float):
        return 0.0
    return ttl_ms / 1000 if 0 < ttl_ms < _NEVER_MS else 0.0


def _spec(alias: str, raw: Mapping[str, object], *, by_header: bool) -> ToolSpec | str:
    """The tool's spec under a provisional name, or why there is none."""
    try:
        if (problem := _problem(raw, by_header=by_header)) is not None:
            return problem
        schema, description = raw.get("inputSchema"), raw.get("description")
        assert isinstance(schema, Mapping)
        return ToolSpec(
            name="provisional",
            description=description if isinstance(description, str) else "",
            parameters=schema,
            source=f"MCP server {alias!r}",
        )
    except RecursionError:
        return "its schema is nested too deeply"
    except ToolDefinitionError as error:
        return str(error.__cause__ or error)


def _problem(raw: Mapping[str, object], *, by_header: bool) -> str | None:
    execution = raw.get("execution")
    if isinstance(execution, Mapping) and execution.get("taskSupport") == "required":
        return "it can only run as a task, which this client does not do"
    if not isinstance(raw.get("inputSchema"), Mapping):
        return f"its inputSchema is no object: {excerpt(raw.get('inputSchema'))!r}"
    text = _text(raw)
    if len(text) > _MOST_TOOL_CHARS:
        return (
            f"its description and schema have {len(text)} characters, of {_MOST_TOOL_CHARS} at most"
        )
    if _MANY_DIGITS.search(text) and _has_huge_number(raw["inputSchema"]):
        # Parsers that make floats of numbers refuse the whole request.
        return "its schema has a number that no float can be"
    if by_header:
        from mcp.shared.inbound import find_invalid_x_mcp_header

        if (reason := find_invalid_x_mcp_header(raw["inputSchema"])) is not None:
            return f"its x-mcp-header is of no use: {reason}"
    return None


def _text(raw: Mapping[str, object]) -> str:
    """Description and schema. Quick: what follows takes a hundred times as long."""
    try:
        return json.dumps([raw.get("description"), raw["inputSchema"]], ensure_ascii=False)
    except (TypeError, ValueError):
        return ""  # no JSON: it has no spec either


def _has_huge_number(value: object) -> bool:
    match value:
        case int():
            return abs(value) > sys.float_info.max
        case Mapping():
            return any(map(_has_huge_number, value.values()))
        case list():
            return any(map(_has_huge_number, value))
        case _:
            return False


def _choose(name: str, specs: list[ToolSpec], warnings: list[str]) -> ToolSpec:
    """Of tools with one name take one, the same in whatever order they came."""
    if len(specs) > 1:
        kinds = len({spec.bytes for spec in specs})
        warnings.append(
            f"tool {excerpt(name)!r} is listed {len(specs)} times in {kinds} forms; one was kept"
        )
    return min(specs, key=lambda spec: spec.bytes)


def _renamed(spec: ToolSpec, name: str) -> ToolSpec:
    return ToolSpec(
        name=name, description=spec.description, parameters=spec.parameters, source=spec.source
    )


def _never_listed(selection: Selection, listed: set[str]) -> list[str]:
    """A chosen name that the server does not have is most likely a typing error."""
    chosen = {"allow": selection.allow or frozenset(), "deny": selection.deny or frozenset()}
    return [
        f"tool {name!r} is in `{option}`, but the server does not list it"
        for option, names in chosen.items()
        for name in sorted(names - listed)
    ]
