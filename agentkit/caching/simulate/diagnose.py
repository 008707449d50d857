"""Why a simulated request read less than it might have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from agentkit.caching.chain import Boundary, Prefixes, changed_settings
from agentkit.caching.simulate.served import Miss, MissReason
from agentkit.caching.simulate.store import Store


def find_miss(
    prefixes: Prefixes,
    *,
    hit_tokens: int,
    store: Store,
    now_s: float,
    asks: bool = True,
    minimum: int = 0,
) -> Miss | None:
    """Return the cause of a shortfall, that of the longest lost prefix; None if nothing was lost.

    `asks` says whether the request asks for caching at all.
    """
    longer = list(takewhile(lambda prefix: prefix.n_tokens > hit_tokens, reversed(prefixes)))
    for prefix in longer:
        reason = _lost(prefix, store, now_s, asks=asks)
        if reason is not None:
            return _miss(reason, _SENTENCES[reason], prefix.n_tokens - hit_tokens)
    for prefix in longer:
        before = store.written_under(prefix.content)
        if before is not None and before != (now := prefixes.settings):
            names = ", ".join(changed_settings(before, now))
            detail = f"the same blocks were written under another {names}"
            return _miss(MissReason.SETTING_CHANGED, detail, prefix.n_tokens - hit_tokens)
    if hit_tokens:
        return None
    return _nothing_there(prefixes, asks=asks, minimum=minimum)


_SENTENCES = {
    MissReason.NO_MARKS: "a live entry is there, but the request asks for no caching",
    MissReason.OUT_OF_REACH: "a live entry is there, but no mark of this request leads to it",
    MissReason.NOT_YET_READABLE: "another request is still writing the prefix",
    MissReason.EXPIRED: "the entry is older than its lifetime",
}


def _lost(prefix: Boundary, store: Store, now_s: float, *, asks: bool) -> MissReason | None:
    if store.is_readable(prefix.key, now_s):
        return MissReason.OUT_OF_REACH if asks else MissReason.NO_MARKS
    if store.is_coming(prefix.key, now_s):
        return MissReason.NOT_YET_READABLE
    return MissReason.EXPIRED if store.was_there(prefix.key) else None


def _nothing_there(prefixes: Sequence[Boundary], *, asks: bool, minimum: int) -> Miss:
    total = prefixes[-1].n_tokens if prefixes else 0
    if not asks:
        return _miss(MissReason.NO_MARKS, "the request asks for no caching", 0)
    if total < minimum:
        detail = f"{total} tokens are fewer than the minimum of {minimum}"
        return _miss(MissReason.TOO_SHORT, detail, 0)
    return _miss(MissReason.NEVER_WRITTEN, "no earlier request wrote this prefix here", 0)


def _miss(reason: MissReason, detail: str, lost_tokens: int) -> Miss:
    return Miss(reason=reason, detail=detail, lost_tokens=lost_tokens)
