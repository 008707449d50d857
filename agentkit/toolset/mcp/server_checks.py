"""What an `McpServer` may hold. Every error names the setting and the fix, and no secret."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urljoin, urlsplit

from agentkit.toolset.mcp.trust.setting import Trust
from agentkit.toolset.policy import ToolPolicy

if TYPE_CHECKING:
    from agentkit.toolset.mcp.server import McpServer

_WAYS = ("command", "url", "server")
"""The three ways to reach a server. Exactly one is given."""

_SETTINGS_OF = {
    "command": ("env", "inherit_env", "cwd"),
    "url": ("headers", "auth", "http_client", "allow_http"),
}
"""Settings that mean something for one way only."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

_HEADER_VALUE = re.compile(r"(?![ \t])[\t\x20-\x7e]*(?<![ \t])")

_OWN_HEADERS = frozenset({"accept", "content-type", "content-length", "host", "mcp-session-id"})
"""What the transport says itself, and would not let itself be told otherwise."""


def check_way(server: McpServer) -> None:
    """Check that there is one way to the server, and that all settings belong to it."""
    given = [way for way in _WAYS if _is_given(getattr(server, way))]
    if isinstance(server.command, str) or not given:
        raise ValueError(_no_way(server))
    if len(given) != 1:
        raise ValueError(
            f"MCP server {server.alias!r} has {' and '.join(given)}; "
            "give one of command, url, server"
        )
    for way, settings in _SETTINGS_OF.items():
        wrong = [name for name in settings if getattr(server, name)]
        if way != given[0] and wrong:
            raise ValueError(f"{wrong[0]} belongs to a server with {way}, not with {given[0]}")
    if given == ["url"]:
        _check_url(server)
    elif server.transport != "streamable-http":
        raise ValueError(f"transport belongs to a server with url, not with {given[0]}")
    if given == ["server"]:
        _check_object(server)


def check_changes(server: McpServer) -> None:
    """Check what is said of a list that changes."""
    if server.on_change not in ("append", "pin"):
        raise ValueError(f"on_change must be 'append' or 'pin', not {server.on_change!r}")
    ttl_s = server.listing_ttl_s
    is_number = isinstance(ttl_s, int | float) and not isinstance(ttl_s, bool)
    if ttl_s is not None and not (is_number and ttl_s >= 0):
        raise ValueError(f"listing_ttl_s must be at least 0 seconds or None, not {ttl_s!r}")


def check_choices(server: McpServer) -> None:
    """Check what is one of few values. `"no"` would count as yes."""
    if server.protocol not in ("auto", "legacy"):
        raise ValueError(
            f"protocol must be 'auto' or 'legacy', not {server.protocol!r}; which version is "
            "spoken is settled with the server"
        )
    for name in ("elicits", "samples", "required", "resource_tool", "allow_http", "defer_loading"):
        if not isinstance(given := getattr(server, name), bool):
            raise ValueError(f"{name} must be True or False, not {given!r}")
    if not isinstance(server.trust, Trust):
        is_path = isinstance(server.trust, str | Path)
        hint = f"use Trust(lock={str(server.trust)!r})" if is_path else "use Trust(...)"
        raise ValueError(f"trust must be an agentkit.toolset.mcp.Trust: {hint}")


def check_limits(server: McpServer) -> None:
    """Check that all numbers are above 0."""
    for name in (
        "connect_timeout_s",
        "call_timeout_s",
        "max_result_chars",
        "max_attachment_bytes",
        "max_message_bytes",
    ):
        given = getattr(server, name)
        if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
            raise ValueError(f"{name} must be above 0, not {given!r}")
    for tool, limit_s in dict(server.tool_timeouts_s).items():
        if not isinstance(tool, str) or not isinstance(limit_s, int | float) or not limit_s > 0:
            raise ValueError(
                f"tool_timeouts_s must map names of tools to seconds above 0, "
                f"not {tool!r} to {limit_s!r}"
            )


def check_mappings(server: McpServer) -> None:
    """Check environment, headers and policies. Values that may be secret are not repeated."""
    for key, value in dict(server.env).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ValueError(
                f"env must map str to str, but {key!r} has a {type(value).__name__}; use str()"
            )
    for name, text in dict(server.headers).items():
        _check_header(name, text)
    for tool, policy in dict(server.policies).items():
        if not isinstance(tool, str) or not isinstance(policy, ToolPolicy):
            raise ValueError(f"policies must map str to ToolPolicy, not {tool!r} to {policy!r}")


def check_names(field_name: str, names: object) -> None:
    """Check a collection of names. A single `str` would be taken for that of its letters."""
    if names is None and field_name != "inherit_env":
        return
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise ValueError(f"{field_name} must be a collection of names, not {names!r}; use [...]")
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"{field_name} must hold names of type str, not {name!r}")


def _is_given(value: object) -> bool:
    return value is not None and not (isinstance(value, Sequence) and len(value) == 0)


def _no_way(server: McpServer) -> str:
    if isinstance(server.command, str):
        return (
            f"command must be a list of program and arguments, not {server.command!r}; "
            "use shlex.split for a command line"
        )
    return f"MCP server {server.alias!r} cannot be reached; give one of command, url, server"


def _check_url(server: McpServer) -> None:
    try:
        parts = urlsplit(server.url or "")
        port = parts.port
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"url of MCP server {server.alias!r} is no URL") from None
    if "://" not in str(server.url):
        raise ValueError(
            f"url of MCP server {server.alias!r} must be https://host/path "
            "(or http: to this machine); this one has no scheme"
        )
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise ValueError(
            f"url of MCP server {server.alias!r} must be https://host/path "
            f"(or http: to this machine), not {_shown(parts)!r}"
        )
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            f"url of MCP server {server.alias!r} has a user in it; use headers or auth instead"
        )
    if parts.scheme == "http" and not server.allow_http and not _is_loopback(parts.hostname):
        raise ValueError(
            f"url {_shown(parts)!r} would send everything unencrypted to another machine; "
            "use https:, or set allow_http=True inside a network that you trust"
        )
    if server.transport not in ("streamable-http", "sse"):
        raise ValueError(
            "transport must be 'streamable-http', which is the default and what others call http, "
            f"or 'sse', not {server.transport!r}"
        )
    _check_senders(server)


def _check_senders(server: McpServer) -> None:
    """Check by their methods, since importing the HTTP library takes long."""
    if server.auth is not None and not _has(server.auth, "async_auth_flow"):
        raise ValueError(f"auth must be an httpx2.Auth, not a {type(server.auth).__name__}")
    if server.http_client is not None and not (
        _has(server.http_client, "send") and _has(server.http_client, "aclose")
    ):
        raise ValueError(
            f"http_client must be an httpx2.AsyncClient, not a {type(server.http_client).__name__}"
        )


def _check_object(server: McpServer) -> None:
    if isinstance(server.server, type):
        raise ValueError(
            f"server must be a server object, not the class {server.server.__name__}; make one: "
            f"{server.server.__name__}(...)"
        )
    if not _has(server.server, "streamable_http_app"):
        raise ValueError(
            "server must be a server object of the MCP SDK (mcp.server.MCPServer or Server; an "
            f"agent becomes one by serve_mcp), not a {type(server.server).__name__}"
        )
    default = type(server).__dataclass_fields__["max_message_bytes"].default
    if server.max_message_bytes != default:
        raise ValueError("max_message_bytes belongs to a server with command or url")


def _check_header(name: object, text: object) -> None:
    if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"headers has the name {name!r}, which HTTP does not allow")
    if name.lower() in _OWN_HEADERS:
        raise ValueError(f"headers must not have {name!r}; the MCP transport sets it")
    if not isinstance(text, str) or not _HEADER_VALUE.fullmatch(text):
        raise ValueError(
            f"headers has a value for {name!r} that is no printable ASCII text without blanks "
            "around it"
        )


def _shown(parts: SplitResult) -> str:
    """The address without what may be secret."""
    host = parts.hostname or ""
    where = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{where}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _has(value: object, method: str) -> bool:
    found: Callable[..., object] | None = getattr(value, method, None)
    return callable(found)


def shown_url(url: str) -> str:
    """Return an address for messages: without the query, which may be secret."""
    return _shown(urlsplit(url))


def is_same_origin(url: str, address: str) -> bool:
    """Whether an address, which may be relative to a URL, leads to the same scheme and host."""
    try:
        one, other = urlsplit(url), urlsplit(urljoin(url, address))
    except ValueError:
        return False
    return (one.scheme, one.netloc) == (other.scheme, other.netloc)


def without_queries(text: str) -> str:
    """Return a text for messages without the queries of the addresses in it."""
    return re.sub(r"\?[^\s'\"]*", "?...", text)
