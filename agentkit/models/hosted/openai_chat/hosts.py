"""Holding the host behind a gateway that would rather change it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_MAX_KEYS = 1_024


@dataclass(slots=True)
class _Seen:
    host: str
    at_s: float
    moved: bool = False


class HostPins:
    """Remembers which host served a prefix, and names it once the gateway was seen to leave it.

    A gateway holds a conversation to its host by itself, or says so; only where one prefix was
    served by two hosts in a row, closer than `idle_s`, the last of them is asked for.
    """

    def __init__(self, now_s: Callable[[], float], idle_s: float) -> None:
        self._now_s = now_s
        self._idle_s = idle_s
        self._seen: OrderedDict[tuple[str, ...], _Seen] = OrderedDict()

    def wanted(self, key: tuple[str, ...]) -> str | None:
        """Return the host to ask for; None leaves the choice to the gateway."""
        seen = self._seen.get(key)
        if seen is None or not seen.moved or self._now_s() - seen.at_s > self._idle_s:
            return None
        return seen.host

    def served(self, key: tuple[str, ...], host: str) -> None:
        """Note who served a request."""
        now_s = self._now_s()
        before = self._seen.pop(key, None)
        lives = before is not None and now_s - before.at_s <= self._idle_s
        moved = before is not None and lives and (before.moved or before.host != host)
        self._seen[key] = _Seen(host, now_s, moved)
        while len(self._seen) > _MAX_KEYS:
            self._seen.popitem(last=False)
