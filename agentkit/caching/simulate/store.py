"""Entries of a simulated cache, by prefix key."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from typing import overload

from agentkit.caching.plan.draft import LiveEntries, LiveEntry
from agentkit.caching.policy import Change, Ttl
from agentkit.caching.recent import Recent


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """An entry that a request will leave behind."""

    key: bytes
    ttl_s: float
    """Life without use, in seconds."""
    max_age_s: float | None = None
    """Life with any use, from its creation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A cached prefix. Times are seconds of the same clock."""

    ttl_s: float
    max_age_s: float | None
    created_s: float
    used_s: float
    readable_s: float
    live: LiveEntry = field(init=False, repr=False, compare=False)
    """What a planner is told of it while it lives."""

    def __post_init__(self) -> None:
        expires_s = self.used_s + self.ttl_s
        if self.max_age_s is not None:
            expires_s = min(expires_s, self.created_s + self.max_age_s)
        live = LiveEntry(ttl=_TTLS.get(self.ttl_s), expires_s=expires_s, readable_s=self.readable_s)
        object.__setattr__(self, "live", live)

    @property
    def expires_s(self) -> float:
        """When it is gone, if nobody uses it before."""
        return self.live.expires_s


class StoredEntries(LiveEntries):
    """The entries of a prompt's prefixes at one moment. Of many, only a few are ever looked at."""

    def __init__(
        self, found: tuple[Entry | None, ...], *, now_s: float, coming: Mapping[int, float]
    ) -> None:
        """`coming`: the prefixes that somebody is writing, and for how many seconds."""
        self._found = found
        self._now_s = now_s
        self._coming = coming

    @overload
    def __getitem__(self, index: int) -> LiveEntry | None: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[LiveEntry | None]: ...
    def __getitem__(self, index: int | slice) -> LiveEntry | Sequence[LiveEntry | None] | None:
        if isinstance(index, slice):
            return [self[at] for at in range(len(self._found))[index]]
        entry = self._found[index]
        if entry is not None and self._now_s < (live := entry.live).expires_s:
            return live
        if self._coming:
            ttl_s = self._coming.get(index % len(self._found))
            return None if ttl_s is None else _coming(ttl_s)
        return None

    def __len__(self) -> int:
        return len(self._found)

    @property
    def places(self) -> Sequence[int]:
        """Where there may be entries, in order."""
        found = list(compress(count(), self._found))
        return sorted({*found, *self._coming}) if self._coming else found

    def places_of(self, ttl: Ttl) -> Sequence[int]:
        """Return where there may be entries of a lifetime, in order."""
        found = self._found
        places = compress(count(), found)
        if not self._coming:
            return [at for at in places if (entry := found[at]) and entry.live.ttl is ttl]
        return self.places


def _coming(ttl_s: float) -> LiveEntry:
    """Return an entry that is being written."""
    return LiveEntry(ttl=_TTLS.get(ttl_s), expires_s=math.inf, readable_s=math.inf)


class Store:
    """All entries, the dead ones too: they explain misses. Of very many, only the latest used."""

    def __init__(self, n_kept: int = 100_000) -> None:
        """`n_kept`: entries that are remembered, dead or alive; one has about 500 bytes."""
        self._entries: Recent[bytes, Entry] = Recent(n_kept)
        self._coming: Counter[bytes] = Counter()
        self._coming_ttl_s: dict[bytes, float] = {}
        self._written_under: Recent[bytes, tuple[tuple[Change, str], ...]] = Recent(n_kept)

    def is_readable(self, key: bytes, now_s: float) -> bool:
        """Return whether the prefix can be read now."""
        entry = self._entries.get(key)
        return entry is not None and entry.readable_s <= now_s < entry.expires_s

    def is_coming(self, key: bytes, now_s: float) -> bool:
        """Return whether somebody is writing the prefix."""
        entry = self._entries.get(key)
        return self._coming[key] > 0 or (entry is not None and now_s < entry.readable_s)

    def lives(self, keys: Sequence[bytes], now_s: float) -> StoredEntries:
        """Return `live` of each prefix, as it is now."""
        coming = self._coming.keys() & set(keys) if self._coming else ()
        return StoredEntries(
            tuple(map(self._entries.get, keys)),
            now_s=now_s,
            coming={keys.index(key): self._coming_ttl_s[key] for key in coming},
        )

    def live(self, key: bytes, now_s: float) -> LiveEntry | None:
        """Return the entry of a prefix, if it lives now or is being written."""
        entry = self._entries.get(key)
        if entry is not None and now_s < entry.live.expires_s:
            return entry.live
        if self._coming[key] > 0:
            return _coming(self._coming_ttl_s[key])
        return None

    def drop(self, key: bytes) -> None:
        """Forget an entry."""
        self._entries.pop(key, None)

    def was_there(self, key: bytes) -> bool:
        """Return whether the prefix was ever written."""
        return key in self._entries

    def touch(self, key: bytes, now_s: float) -> None:
        """Use an entry: its life begins anew. Nothing happens to what is not readable."""
        if self.is_readable(key, now_s):
            entry = self._entries[key]
            self._entries[key] = Entry(
                ttl_s=entry.ttl_s,
                max_age_s=entry.max_age_s,
                created_s=entry.created_s,
                used_s=max(entry.used_s, now_s),
                readable_s=entry.readable_s,
            )

    def expect(self, write: Write) -> None:
        """Note that a request in flight will write this."""
        self._coming[write.key] += 1
        self._coming_ttl_s[write.key] = write.ttl_s

    def forget(self, write: Write) -> None:
        """Take back `expect`."""
        self._coming[write.key] -= 1
        if not self._coming[write.key]:
            del self._coming[write.key], self._coming_ttl_s[write.key]

    def put(self, write: Write, *, used_s: float, readable_s: float) -> None:
        """Write an entry. A live one of the same prefix stays, if it would live longer."""
        old = self._entries.get(write.key)
        lives = old is not None and readable_s < old.expires_s
        new = Entry(
            ttl_s=write.ttl_s,
            max_age_s=write.max_age_s,
            created_s=old.created_s if old is not None and lives else used_s,
            used_s=used_s,
            readable_s=min(old.readable_s, readable_s) if old and lives else readable_s,
        )
        if old is None or not lives or new.expires_s >= old.expires_s:
            self._entries[write.key] = new

    def remember(self, content: bytes, settings: tuple[tuple[Change, str], ...]) -> None:
        """Note under which settings these blocks were written last."""
        self._written_under[content] = settings

    def written_under(self, content: bytes) -> tuple[tuple[Change, str], ...] | None:
        """Return the settings under which these blocks were written last; None if never."""
        return self._written_under.get(content)


_TTLS = {float(ttl.seconds): ttl for ttl in Ttl}
