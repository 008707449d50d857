"""The toolset: sorted, frozen, hashed. It leads every prompt, so its bytes must never move."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from agentkit.toolset.errors import ToolNameConflict
from agentkit.toolset.tool import Tool, ToolSpec


class Toolset:
    """Tools in code-point order of their names, immutable. Equal sets have equal `bytes` and
    `digest`.

    The order of arrival, the process and its hash seed do not matter. Of two tools with the same
    name and the same bytes the first one given answers calls; with different bytes they are
    refused.

    Raises:
        ToolNameConflict: two different tools have one name.
    """

    __slots__ = ("_by_name", "_bytes", "_digest")

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        by_name: dict[str, Tool] = {}
        for tool in tools:
            known = by_name.setdefault(tool.spec.name, tool)
            _check_same(known.spec, tool.spec)
        self._by_name = dict(sorted(by_name.items()))
        self._bytes = b"[" + b",".join(spec.bytes for spec in self.specs) + b"]"
        self._digest = "sha256:" + hashlib.sha256(self._bytes).hexdigest()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs in the order in which every prompt shows them."""
        return tuple(tool.spec for tool in self._by_name.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the same order."""
        return tuple(self._by_name)

    @property
    def bytes(self) -> bytes:
        """The canonical JSON array of all specs."""
        return self._bytes

    @property
    def digest(self) -> str:
        """The tagged SHA-256 of `bytes`, e.g. `sha256:4f53...`."""
        return self._digest

    def get(self, name: str) -> Tool | None:
        """The tool with this name, or None."""
        return self._by_name.get(name)

    def union(self, other: Toolset) -> Toolset:
        """All tools of both. Where both have a tool, the one of `self` answers calls.

        So `child.union(team)` has the bytes of the team's superset, and the child's own tools run.

        Raises:
            ToolNameConflict: the two sets have different tools under one name.
        """
        return self if self._bytes == other._bytes else Toolset((*self, *other))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Toolset) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return f"Toolset({list(self._by_name)!r}, digest={self._digest[:15]!r})"


def _check_same(first: ToolSpec, second: ToolSpec) -> None:
    if first.bytes != second.bytes:
        raise ToolNameConflict(first.name, (first.source, second.source))
