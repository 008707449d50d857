"""A bounded memory that tenants share: who fills it loses what is theirs, not what is others'."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class FairlyRecent(Generic[K, V]):
    """Values by tenant and key, each tenant's in the order of their last use."""

    def __init__(self) -> None:
        self._lines: dict[str, OrderedDict[K, V]] = {}
        self._size = 0

    def get(self, tenant: str, key: K) -> V | None:
        """The value, if there is one. Not a use."""
        line = self._lines.get(tenant)
        return None if line is None else line.get(key)

    def set(self, tenant: str, key: K, value: V) -> None:
        """Keep a value; it is the tenant's latest."""
        line = self._lines.setdefault(tenant, OrderedDict())
        self._size += key not in line
        line[key] = value
        line.move_to_end(key)

    def pop(self, tenant: str, key: K) -> V | None:
        """Take a value out."""
        line = self._lines.get(tenant)
        if line is None or key not in line:
            return None
        value = line.pop(key)
        self._size -= 1
        if not line:
            del self._lines[tenant]
        return value

    def surplus(self, tenant: str) -> tuple[str, K]:
        """What has to go for another one of `tenant`: its own oldest when it has as much as the
        average tenant, else the oldest of who has most. There must be something."""
        own = len(self._lines.get(tenant, ()))
        if not own or own * len(self._lines) < self._size:
            tenant = max(self._lines, key=lambda name: len(self._lines[name]))
        return tenant, next(iter(self._lines[tenant]))

    def latest(self, tenant: str | None = None) -> Iterator[V]:
        """Values of one tenant or of all; of each tenant the latest first."""
        for name in list(self._lines) if tenant is None else [tenant]:
            yield from reversed(self._lines.get(name, OrderedDict()).values())

    def __contains__(self, item: tuple[str, K]) -> bool:
        return item[1] in self._lines.get(item[0], ())

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[V]:
        for line in self._lines.values():
            yield from line.values()
