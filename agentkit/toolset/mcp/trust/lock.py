"""The file of approved tools: deterministic, and made to be read in a review.

{
  "agentkit_mcp_lock": 1,
  "servers": {
    "files": {
      "read_lines": {
        "description": ["Read lines of a text file.", "Each line comes with its number."],
        "digest": "sha256:...",
        "parameters": {...}

Descriptions are lists of lines, and characters that nobody sees are written as `\\uXXXX`, so that
a diff shows what a model would read. The digest tells a merge that went wrong from an approval.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.errors import McpLockError
from agentkit.toolset.frozen_json import freeze
from agentkit.toolset.mcp.trust.flag import UNSEEN
from agentkit.toolset.tool import ToolSpec
from agentkit.whole_file import whole_file

_FORMAT = 1
_KEY = "agentkit_mcp_lock"


@dataclass(frozen=True, slots=True)
class ApprovedTool:
    """What a model reads of a tool, as somebody has approved it. The name is not part of it."""

    description: str
    parameters: Mapping[str, object]

    @classmethod
    def of(cls, spec: ToolSpec) -> ApprovedTool:
        """Return what there is to approve of a tool."""
        return cls(spec.description, spec.parameters)

    @property
    def digest(self) -> str:
        """Tagged SHA-256 of the canonical form."""
        value = {"description": self.description, "parameters": self.parameters}
        return f"sha256:{hashlib.sha256(canonical_json(value)).hexdigest()}"

    def spec(self, name: str, source: str) -> ToolSpec:
        """Return the spec to show: to the byte what was approved, under a final name."""
        value = {"name": name, "description": self.description, "parameters": self.parameters}
        return ToolSpec.pinned(canonical_json(value), source)

    def covers(self, spec: ToolSpec) -> bool:
        """Whether a tool reads to the byte as it was approved. Order says something: of the parts
        of a `prefixItems`, of the words of a sentence."""
        approved = ToolSpec(
            name=spec.name, description=self.description, parameters=self.parameters
        )
        return approved.bytes == spec.bytes


@dataclass(frozen=True, slots=True)
class McpLock:
    """Approved tools by server alias and by the server's own name of the tool."""

    servers: Mapping[str, Mapping[str, ApprovedTool]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> McpLock:
        """Read a lock file. One that has not changed since is not parsed again.

        Raises:
            McpLockError: there is none, or it is damaged.
        """
        try:
            status = os.stat(path)
        except OSError as error:
            raise McpLockError(
                f"there is no lock of MCP tools at {str(path)!r} ({error.strerror}); write it with "
                "`agentkit mcp lock`"
            ) from error
        return _read(str(path), (status.st_mtime_ns, status.st_size, status.st_ino))

    def approved(self, alias: str) -> Mapping[str, ApprovedTool]:
        """Return the approved tools of a server."""
        return self.servers.get(alias, {})

    def with_server(self, alias: str, tools: Iterable[tuple[str, ToolSpec]]) -> McpLock:
        """Return the lock with all of a server's tools, and nothing else of it, approved.

        Args:
            alias: the server's.
            tools: the server's own name of each tool, and its spec.
        """
        approved = {name: ApprovedTool.of(spec) for name, spec in tools}
        return McpLock({**self.servers, alias: approved})

    def to_bytes(self) -> bytes:
        """Return the file's bytes; equal locks have equal ones."""
        servers = {
            alias: {
                name: {
                    "description": tool.description.split("\n"),
                    "digest": tool.digest,
                    "parameters": tool.parameters,
                }
                for name, tool in tools.items()
            }
            for alias, tools in self.servers.items()
        }
        text = json.dumps(
            {_KEY: _FORMAT, "servers": servers}, indent=2, sort_keys=True, ensure_ascii=False
        )
        # Only strings have such characters, and in a string an escape is the same text.
        return f"{UNSEEN.sub(_escaped, text)}\n".encode()

    def write(self, path: str | Path) -> None:
        """Write the file, whole or not at all.

        Raises:
            McpLockError: it cannot be written.
        """
        try:
            with whole_file(Path(path)) as unfinished:
                unfinished.write_bytes(self.to_bytes())
        except OSError as error:
            raise McpLockError(f"cannot write {str(path)!r}: {error.strerror}") from error


@lru_cache(maxsize=16)
def _read(path: str, state: tuple[int, ...]) -> McpLock:
    """Read a file in one state of it."""
    try:
        value = json.loads(Path(path).read_bytes())
        form = value[_KEY]
        if form == _FORMAT:
            return McpLock(
                MappingProxyType(
                    {
                        alias: MappingProxyType(
                            {name: _tool(name, entry) for name, entry in tools.items()}
                        )
                        for alias, tools in value["servers"].items()
                    }
                )
            )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise McpLockError(
            f"{path!r} is no lock of MCP tools, or it is damaged ({type(error).__name__}: "
            f"{error}); restore it from version control, or write it anew with `agentkit mcp lock`"
        ) from error
    raise McpLockError(
        f"{path!r} has the format {form!r}, and this version of agentkit reads {_FORMAT}"
    )


def _tool(name: str, entry: Mapping[str, object]) -> ApprovedTool:
    lines, parameters = entry["description"], entry["parameters"]
    if not isinstance(lines, list) or not isinstance(parameters, dict):
        raise ValueError(f"tool {name!r} has no list of lines, or no schema")
    tool = ApprovedTool("\n".join(lines), parameters)
    if tool.digest != entry["digest"]:
        raise ValueError(f"the digest of tool {name!r} is not that of its text")
    frozen = freeze(parameters)
    assert isinstance(frozen, dict)
    return ApprovedTool(tool.description, frozen)


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]
