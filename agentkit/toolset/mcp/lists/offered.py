"""What a server offers, as far as is known, and what was odd about that."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from agentkit.toolset.mcp.lists.changes import compare
from agentkit.toolset.mcp.lists.listing import ListedTool, Listing
from agentkit.toolset.mcp.lists.words import Notes
from agentkit.toolset.tool import ToolSpec


class CallRefused(Exception):
    """A tool may not be called. The text is for the model."""


class OfferedTools:
    """The latest list of one server, by final names.

    What conversations were shown before is no matter here: they keep it, and compare.
    """

    def __init__(self) -> None:
        self.revision = 0
        """How often the list has become another one. 0: there is none yet."""
        self.notes = Notes()
        """How it has changed, for logs."""
        self._warnings: tuple[str, ...] = ()
        self._tools: Mapping[str, ListedTool] = {}
        self._specs: Mapping[str, ToolSpec] = {}
        self._first: Mapping[str, ToolSpec] = {}
        self._digest = ""

    def take(self, listing: Listing) -> None:
        """Take the list as the server's latest. Where nothing in it is new, nothing happens."""
        specs = listing.specs
        changes = compare(self._specs, specs)
        self._warnings = listing.warnings
        self._tools = {tool.spec.name: tool for tool in listing.tools}
        if changes.reordered:
            self.notes.add(f"only the order of words differs in {', '.join(changes.reordered)}")
        if self.revision and not changes:
            return
        if self.revision:
            self.notes.add(f"the tools have changed ({changes})")
        else:
            self._first = specs
        kept = {name: self._specs[name] for name in changes.reordered}
        self._specs = {**specs, **kept}
        self._digest = _digest(self._specs)
        self.revision += 1

    def get(self, name: str) -> ListedTool | None:
        """Return the tool of this final name, if the server offers it now."""
        return self._tools.get(name)

    def own_name(self, name: str) -> str:
        """Return the server's own name for a tool, which may be given by its final name."""
        is_own = any(tool.original == name for tool in self._tools.values())
        tool = self._tools.get(name)
        return name if is_own or tool is None else tool.original

    def check_call(self, original: str) -> None:
        """Check that a tool may be called, by the server's own name for it.

        Raises:
            CallRefused: it is not what was approved.
        """
        for tool in self._tools.values():
            if tool.original == original and tool.refusal:
                raise CallRefused(tool.refusal)

    @property
    def is_known(self) -> bool:
        """Whether there is a list."""
        return self.revision > 0

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        """What the server offers now."""
        return self._specs

    @property
    def digest(self) -> str:
        """Names what it offers now, in every process; empty while that is not known."""
        return self._digest

    @property
    def first_specs(self) -> Mapping[str, ToolSpec]:
        """What it offered at first."""
        return self._first

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd about the latest list, and how lists have changed."""
        return (*self._warnings, *self.notes)


def _digest(specs: Mapping[str, ToolSpec]) -> str:
    found = hashlib.sha256()
    for name in sorted(specs):
        found.update(hashlib.sha256(specs[name].bytes).digest())
    return found.hexdigest()
