"""How to start one MCP server: a value, checked at construction."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from agentkit.toolset.mcp.names import check_alias
from agentkit.toolset.policy import ToolPolicy

if TYPE_CHECKING:
    from agentkit.toolset.mcp.connection import McpConnection

Protocol = Literal["auto", "legacy"]
"""How to begin: probe for the modern protocol first, or only shake hands in the old way."""

_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""What a server gets from our environment: enough to start programs, and no secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """How to start one MCP server over stdio. A plain value; `connect` gives a live connection.

    Raises:
        ValueError: at construction, for an illegal alias, command, environment, choice or limit.
    """

    alias: str
    """Leads the names of its tools: `{alias}__{tool}`. Unique among the servers of a team."""
    command: Sequence[str]
    """Program and arguments. No shell is involved."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Additional environment variables."""
    inherit_env: Sequence[str] = ()
    """Names of our own environment variables to pass on, besides HOME, PATH, USER and the like."""
    cwd: str | Path | None = None
    connect_timeout_s: float = 15.0
    """For start, handshake and listing together."""
    call_timeout_s: float = 60.0
    max_result_chars: int = 10_000_000
    """A longer result is cut to its head and tail for good. Far above what a model reads whole:
    that is the agent's `max_result_chars`."""
    max_message_bytes: int = 16 * 1024 * 1024
    """A longer line on the server's stdout is not read; the call it answers fails."""
    allow: frozenset[str] | None = None
    """Take only these tools (the server's own names). None takes all."""
    deny: frozenset[str] | None = None
    """Leave these out."""
    policies: Mapping[str, ToolPolicy] = field(default_factory=dict)
    """How calls are handled, by the server's own name of the tool: approval, retries, limits.

    A name that the server does not have is an error when it is connected, so that no call runs
    without the approval that was meant for it.
    """
    protocol: Protocol = "auto"
    """`legacy` skips the probe for the modern protocol, for servers that cannot bear it."""

    def __post_init__(self) -> None:
        check_alias(self.alias)
        if isinstance(self.command, str) or not self.command:
            raise ValueError(
                f"command must be a list of program and arguments, not {self.command!r}; "
                "use shlex.split for a command line"
            )
        for name in (
            "connect_timeout_s",
            "call_timeout_s",
            "max_result_chars",
            "max_message_bytes",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)!r}")
        for name in ("inherit_env", "allow", "deny"):
            given = getattr(self, name)
            # An iterator can be read only once.
            if isinstance(given, Iterator):
                object.__setattr__(self, name, tuple(given))
            _check_names(name, getattr(self, name))
        for key, value in dict(self.env).items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise ValueError(f"env must map str to str, not {key!r} to {value!r}; use str()")
        for name, policy in dict(self.policies).items():
            if not isinstance(name, str) or not isinstance(policy, ToolPolicy):
                raise ValueError(f"policies must map str to ToolPolicy, not {name!r} to {policy!r}")
        object.__setattr__(self, "policies", MappingProxyType(dict(self.policies)))
        object.__setattr__(self, "command", tuple(map(str, self.command)))
        object.__setattr__(self, "inherit_env", tuple(self.inherit_env))
        object.__setattr__(self, "env", MappingProxyType(dict(self.env)))
        for name in ("allow", "deny"):
            chosen = getattr(self, name)
            object.__setattr__(self, name, None if chosen is None else frozenset(chosen))

    def __hash__(self) -> int:
        return hash((self.alias, self.command))

    @property
    def process_env(self) -> dict[str, str]:
        """The whole environment of the server process."""
        names = (*_INHERITED, *self.inherit_env)
        inherited = {name: os.environ[name] for name in names if name in os.environ}
        # Servers that build schemas from sets list other bytes at each start, unless hashing is
        # fixed.
        return {"PYTHONHASHSEED": "0", **inherited, **self.env}

    def connect(self) -> McpConnection:
        """A connection to this server; it starts when entered (`async with`)."""
        from agentkit.toolset.mcp.connection import McpConnection

        return McpConnection(self)


def _check_names(field_name: str, names: object) -> None:
    """A single `str` would be taken for the collection of its letters."""
    if names is None and field_name != "inherit_env":
        return
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise ValueError(f"{field_name} must be a collection of names, not {names!r}; use [...]")
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"{field_name} must hold names of type str, not {name!r}")
