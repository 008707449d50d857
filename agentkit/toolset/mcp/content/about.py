"""What a server says of itself when it is connected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentkit.toolset.results import encodable

if TYPE_CHECKING:
    from mcp import ClientSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAbout:
    """A server's own words. Nothing of it reaches a model, and names are no proof of identity."""

    name: str
    """Empty if it does not say."""
    version: str
    protocol: str
    """The version of the protocol that was agreed on, e.g. `2026-07-28`."""
    instructions: str
    """How it wants to be used; empty if it does not say."""


def about(session: ClientSession) -> ServerAbout:
    """Return what the server of a session has said of itself."""
    info = session.server_info
    return ServerAbout(
        name="" if info is None else encodable(info.name),
        version="" if info is None else encodable(info.version),
        protocol=session.protocol_version or "",
        instructions=encodable(session.instructions or ""),
    )
