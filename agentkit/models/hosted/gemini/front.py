"""What a cached-content object holds, and the API's calls for objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontKey:
    """What an object is found by. Tenants never share one."""

    model: str
    digest: str
    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """What an object is to hold."""

    key: FrontKey
    data: bytes = field(repr=False)
    """JSON object with `tools`, `systemInstruction` and `contents`; only those that there are."""
    n_contents: int
    n_tokens: int
    """Of the front alone, estimated."""
    ttl_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """The API's answer to a create."""

    name: str
    n_tokens: int | None = None
    """None: the API did not say."""


class ObjectApi(Protocol):
    """The calls that objects need. All raise `ModelError` or `RequestRefused`."""

    async def create(self, front: Front) -> Created:
        """Make an object."""
        ...

    async def renew(self, name: str, ttl_s: int) -> None:
        """Let an object live for `ttl_s` from now."""
        ...

    async def delete(self, name: str) -> None:
        """End an object."""
        ...
