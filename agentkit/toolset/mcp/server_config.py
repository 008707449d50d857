"""Servers out of the JSON that many clients share: `{"mcpServers": {"files": {...}}}`.

There is no standard for it. What is read here is what most clients agree on; what only some have
is named in a warning, with what to write instead.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentkit.toolset.mcp.lists.names import MAX_ALIAS
from agentkit.warn import ServerConfigWarning, warn_user

if TYPE_CHECKING:
    from agentkit.toolset.mcp.server import McpServer

_SERVERS = "mcpServers"
_KINDS = {
    "stdio": None,
    "http": "streamable-http",
    "streamable-http": "streamable-http",
    "streamable_http": "streamable-http",
    "streamableHttp": "streamable-http",
    "sse": "sse",
}
_USED = frozenset(
    ("args", "command", "cwd", "disabled", "enabled", "env", "headers", "transport", "type", "url")
)
_SILENT = frozenset(("$schema", "comment", "description", "name"))
"""For people: whoever wrote them does not think that they do anything."""
_INSTEAD = {
    "allowedTools": "allow",
    "alwaysAllow": "policies",
    "autoApprove": "policies",
    "disabledTools": "deny",
    "envFile": "env",
    "excludeTools": "deny",
    "httpUrl": "url",
    "includeTools": "allow",
    "oauth": "auth",
    "serverUrl": "url",
    "timeout": "call_timeout_s",
    "trust": "policies",
}
"""What some clients call what `McpServer` has by another name, or in another unit."""
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{[^}]*\}")


def servers_of_config(
    config: Mapping[str, Any] | str | Path, environ: Mapping[str, str] | None = None
) -> tuple[McpServer, ...]:
    """See `McpServer.from_config`."""
    where = "the configuration" if isinstance(config, Mapping) else str(config)
    value = config if isinstance(config, Mapping) else _read(Path(config))
    entries = value.get(_SERVERS) if isinstance(value, Mapping) else None
    if not isinstance(entries, Mapping):
        there = sorted(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
        raise ValueError(
            f'{where} must be an object with the member "{_SERVERS}", an object of servers by '
            f"name; there is: {there}"
        )
    known = os.environ if environ is None else environ
    servers, names = [], dict[str, str]()
    for name, entry in entries.items():
        if not isinstance(entry, Mapping):
            raise ValueError(f"server {name!r} in {where} must be an object, not {entry!r:.100}")
        if entry.get("disabled") is True or entry.get("enabled") is False:
            continue
        alias = _alias(str(name))
        if alias in names:
            raise ValueError(
                f"servers {names[alias]!r} and {name!r} in {where} would both be {alias!r}; "
                "rename one"
            )
        names[alias] = str(name)
        servers.append(_server(alias, f"server {name!r} in {where}", entry, known))
    return tuple(servers)


def _read(path: Path) -> object:
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is one
        raise ValueError(f"{path} is no JSON: {error}") from None


def _alias(name: str) -> str:
    """A name that can lead those of tools: what it cannot hold is replaced."""
    plain = re.sub(r"_{2,}", "_", re.sub(r"[^a-zA-Z0-9_-]+", "-", name))
    return re.sub(r"\A[^a-zA-Z]+", "", plain)[:MAX_ALIAS].rstrip("_-") or name


def _server(
    alias: str, who: str, entry: Mapping[str, Any], environ: Mapping[str, str]
) -> McpServer:
    from agentkit.toolset.mcp.server import McpServer

    _warn_of_unused(who, entry)
    given = {key: _filled(entry[key], f"{key} of {who}", environ) for key in entry if key in _USED}
    kind = given.get("type", given.get("transport"))
    if kind is not None and kind not in _KINDS:
        raise ValueError(f"type of {who} must be 'stdio', 'http' or 'sse', not {kind!r}")
    if "command" in given and "url" in given:
        raise ValueError(f"{who} has command and url; give one of them")
    if kind is not None and (_KINDS[kind] is None) != ("command" in given):
        raise ValueError(
            f"type of {who} is {kind!r}, which has a {'command' if kind == 'stdio' else 'url'}"
        )
    settings = {name: given[name] for name in ("cwd", "env", "headers", "url") if given.get(name)}
    if kind is not None and (transport := _KINDS[kind]) is not None:
        settings["transport"] = transport
    try:
        return McpServer(alias=alias, command=_command(given), **settings)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{who}: {error}") from None


def _command(given: Mapping[str, Any]) -> Sequence[Any]:
    program, arguments = given.get("command"), given.get("args") or []
    if not isinstance(arguments, list):
        raise ValueError("args must be a list")
    if program is None and arguments:
        raise ValueError("args need a command")
    if program is None:
        return ()
    # Some clients take the whole command as a list, too.
    return [*program, *arguments] if isinstance(program, list) else [program, *arguments]


def _warn_of_unused(who: str, entry: Mapping[str, Any]) -> None:
    unused = sorted(str(key) for key in entry if key not in _USED | _SILENT)
    if not unused:
        return
    said = [f"{key!r} ({_INSTEAD[key]})" if key in _INSTEAD else repr(key) for key in unused]
    has_other = bool(_INSTEAD.keys() & set(unused))
    hint = "; set what is in brackets by dataclasses.replace(server, ...)" if has_other else ""
    warn_user(f"{who}: not used: {', '.join(said)}{hint}", ServerConfigWarning)


def _filled(value: Any, what: str, environ: Mapping[str, str]) -> Any:
    """Fill in `${VAR}` and `${VAR:-default}`, wherever a text stands. Values are not repeated."""
    if isinstance(value, str):
        return _REFERENCE.sub(lambda found: _value(found, what, environ), value)
    if isinstance(value, list):
        return [_filled(each, what, environ) for each in value]
    if isinstance(value, Mapping):
        return {key: _filled(each, what, environ) for key, each in value.items()}
    return value


def _value(found: re.Match[str], what: str, environ: Mapping[str, str]) -> str:
    name, default = found.groups()
    if name is None:
        raise ValueError(
            f"{found[0]} in {what} cannot be filled in; write the value, ${{VAR}} for an "
            "environment variable, or ${VAR:-default}"
        )
    # An empty one counts as not set where there is a default, as in a shell.
    if default is not None:
        return environ.get(name) or default
    if name not in environ:
        raise ValueError(
            f"{found[0]} in {what} names an environment variable that is not set; set it, or "
            f"write ${{{name}:-default}}"
        )
    return environ[name]
