"""How to reach one MCP server: a value, checked at construction."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from agentkit.toolset.mcp import server_checks as checks
from agentkit.toolset.mcp.lists.names import check_alias
from agentkit.toolset.mcp.server_keywords import check_keywords
from agentkit.toolset.mcp.trust.setting import Trust
from agentkit.toolset.policy import ToolPolicy

if TYPE_CHECKING:
    import httpx2
    from mcp.server import MCPServer, Server

    from agentkit.toolset.mcp.connection import McpConnection

EVERY_TOOL = "*"
"""Stands in `McpServer.policies` for each tool that has no policy of its own."""

Protocol = Literal["auto", "legacy"]
"""How to begin: probe for the modern protocol first, or only shake hands in the old way."""

HttpTransport = Literal["streamable-http", "sse"]
"""How a URL is spoken to: in the current way, or in that of before 2025-03-26."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024

_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""What a server gets from our environment: enough to start programs, and no secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """How to reach one MCP server: start it (`command`), call it (`url`), run it here (`server`).

    A plain value; `connect` gives a live connection. Its secrets (`env`, `headers`, `auth`, what
    the URL carries behind its path) are in no repr and no message.

    Raises:
        ValueError: at construction, for an illegal alias, address, environment, choice or limit,
            or a setting that belongs to another way of reaching a server.
    """

    alias: str
    """Leads the names of its tools: `{alias}__{tool}`. Unique among the servers of a team."""
    command: Sequence[str] = ()
    """Program and arguments of a server over stdio. No shell is involved."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Additional environment variables."""
    inherit_env: Sequence[str] = ()
    """Names of our own environment variables to pass on, besides HOME, PATH, USER and the like."""
    cwd: str | Path | None = None
    url: str | None = field(default=None, repr=False)
    """Address of a server over HTTP. `http:` reaches only this machine, unless `allow_http`."""
    transport: HttpTransport = "streamable-http"
    """`sse` is for servers of before 2025-03-26. Their messages end at 1 MiB each."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each request, e.g. `{"Authorization": "Bearer ..."}`."""
    auth: httpx2.Auth | None = field(default=None, repr=False)
    """Authorizes each request, e.g. an `OAuthClientProvider` of the MCP SDK. It sees each request
    after `headers`, and may use the network itself."""
    http_client: httpx2.AsyncClient | None = field(default=None, repr=False)
    """Sends the requests, for proxies, certificates and tests. It stays yours to close; its
    timeouts are not used. By default each connection has a client of its own."""
    allow_http: bool = False
    """Whether `url` may name another machine without encryption, as inside a private network."""
    server: MCPServer | Server[Any] | None = field(default=None, repr=False)
    """A server object of the MCP SDK, run in this process at each connect. Compares by identity."""
    connect_timeout_s: float = 15.0
    """For start, handshake and listing together."""
    call_timeout_s: float = 60.0
    """How long a call may take. A server that reports progress gets this long again after each
    report, up to ten times as long in all. The time in which it waits for an answer from us (a
    question to the user, say) does not count."""
    tool_timeouts_s: Mapping[str, float] = field(default_factory=dict)
    """The same for single tools, by the server's own names, instead of `call_timeout_s`. A name
    that the server does not have is an error when it is connected."""
    max_result_chars: int = 10_000_000
    """A longer result is cut to its head and tail for good. Far above what a model reads whole:
    that is the agent's `max_result_chars`."""
    max_attachment_bytes: int = 5_000_000
    """Images and documents of one result, together and decoded. What goes beyond leaves a note."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    """A longer line on the server's stdout, HTTP answer or event is not read; the call it answers
    fails. A server run in this process sends objects, not bytes, and has no such limit."""
    allow: frozenset[str] | None = None
    """Take only these tools (the server's own names). None takes all. A name that the server does
    not list when it is first connected is an error; one that it drops later is not."""
    deny: frozenset[str] | None = None
    """Leave these out. An unknown name is an error, as in `allow`."""
    policies: Mapping[str, ToolPolicy] = field(default_factory=dict)
    """How calls are handled, by the server's own name of the tool: approval, retries, limits.

    `"*"` stands for every tool without an entry of its own, also for those that come later:
    `{"*": ToolPolicy(requires_approval=True), "search": ToolPolicy()}`. The two are not mixed.
    A name that the server does not have is an error when it is connected, so that no call runs
    without the approval that was meant for it.
    """
    protocol: Protocol = "auto"
    """`legacy` skips the probe for the modern protocol, for servers that cannot bear it."""
    elicits: bool = False
    """Whether the server may ask the user. Some servers list other tools to a client that says so,
    therefore it is off unless wanted. Tools that ask by `ctx.elicit` can do so only with
    `protocol="legacy"`: that of 2026-07-28 has no way for a server to send a request."""
    samples: bool = False
    """Whether the server may ask the model. Off for the same reason."""
    required: bool = True
    """Whether a run fails when the server cannot be connected. Else an event says so
    (`ServerFailed`), the run has the tools of the last list that was kept on disk, if there is one,
    and the server is tried again meanwhile."""
    on_change: Literal["append", "pin"] = "append"
    """Whether conversations get what the server adds.

    What was sent never moves, whatever the server does: a tool that is gone stays in the list, and
    its calls say that it is; one that has changed keeps its old description, and is called as it is
    now. With `append` a tool that was added comes behind what was sent, where the model takes tools
    there (`TakesTools`); else new conversations have it, and those that go on from a summary. With
    `pin` all have what was listed first. Each difference is an event (`ToolsChanged`)."""
    defer_loading: bool = False
    """Whether its tools stay out of the prompt until the model has found them with `find_tools`,
    which the agent then has. For servers with many tools: their definitions would lead every
    prompt. No search changes what was sent. For some of its tools: see `ToolPolicy`."""
    listing_ttl_s: float | None = None
    """For how many seconds its list may be kept on disk, so that a run can begin before the server
    is started. None: for as long as the server says; 0: never."""
    resource_tool: bool = False
    """Whether there is one tool more, `{alias}__read_resource`: the model reads resources by their
    URIs with it. For servers whose results name resources."""
    trust: Trust = field(default_factory=Trust)
    """Which of its tools are shown and called. By default all, with a warning for what is odd about
    their texts; with a lock, `Trust(lock="mcp.lock.json")`, what somebody has approved."""

    if not TYPE_CHECKING:  # type checkers find such mistakes by the fields

        def __new__(cls, *args: object, **given: object) -> McpServer:
            """Refuse what is no setting, with a word on what was meant."""
            check_keywords(args, given, cls.__dataclass_fields__)
            return object.__new__(cls)

    def __post_init__(self) -> None:
        check_alias(self.alias)
        for name in ("inherit_env", "allow", "deny"):
            # An iterator can be read only once.
            if isinstance(given := getattr(self, name), Iterator):
                object.__setattr__(self, name, tuple(given))
            checks.check_names(name, getattr(self, name))
        checks.check_way(self)
        checks.check_choices(self)
        checks.check_limits(self)
        checks.check_changes(self)
        checks.check_mappings(self)
        object.__setattr__(self, "command", tuple(map(str, self.command)))
        object.__setattr__(self, "inherit_env", tuple(self.inherit_env))
        for name in ("env", "headers", "policies", "tool_timeouts_s"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        for name in ("allow", "deny"):
            chosen = getattr(self, name)
            object.__setattr__(self, name, None if chosen is None else frozenset(chosen))

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any] | str | Path,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> tuple[McpServer, ...]:
        """Read servers from the JSON that many clients share, in its order.

        `{"mcpServers": {NAME: {"command": ..., "args": [...], "env": {...}}}}`, or with `url`,
        `headers` and `type` ("http" or "sse"). `${VAR}` and `${VAR:-default}` are filled in. A name
        becomes the alias, with `-` for what an alias cannot hold. What is disabled there is left
        out.

        Args:
            config: that object, or the path of a file with it.
            environ: the environment variables; by default those of this process.

        Raises:
            ValueError: it has another form, a variable that is not set, or a server that
                `McpServer` refuses.
            OSError: the file cannot be read.

        Warns:
            ServerConfigWarning: of keys that are not used, by their names.
        """
        from agentkit.toolset.mcp.server_config import servers_of_config

        return servers_of_config(config, environ)

    def __hash__(self) -> int:
        return hash((self.alias, self.command, self.url, id(self.server)))

    @property
    def may_defer(self) -> bool:
        """Whether some of its tools may be shown only when they are found."""
        return self.defer_loading or any(each.defer_loading for each in self.policies.values())

    @property
    def process_env(self) -> dict[str, str]:
        """The whole environment of the server process."""
        names = (*_INHERITED, *self.inherit_env)
        inherited = {name: os.environ[name] for name in names if name in os.environ}
        # Servers that build schemas from sets list other bytes at each start, unless hashing is
        # fixed.
        return {"PYTHONHASHSEED": "0", **inherited, **self.env}

    def timeout_of(self, tool: str) -> float:
        """How long a call of this tool may take, in seconds. `tool` is the server's own name."""
        return self.tool_timeouts_s.get(tool, self.call_timeout_s)

    def connect(self) -> McpConnection:
        """A connection to this server; it starts when entered (`async with`)."""
        from agentkit.toolset.mcp.connection import McpConnection

        return McpConnection(self)
