"""Names for MCP tools: legal at every provider, unique, and independent of the listing's order."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

_MAX_LENGTH = 64
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_ALIAS = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,31}")


def check_alias(alias: str) -> None:
    """Raise `ValueError` unless the alias can lead a tool name."""
    if not isinstance(alias, str) or not _ALIAS.fullmatch(alias):
        raise ValueError(
            f"alias {alias!r} cannot lead a tool name; use 1 to 32 of the characters "
            "a-z, A-Z, 0-9, '_' and '-', beginning with a letter or digit"
        )


def final_names(alias: str, originals: Iterable[str]) -> dict[str, str]:
    """Map each original tool name to `{alias}__{tool}`, legal and unique.

    Characters outside `[a-zA-Z0-9_-]` become `_`. A name that had to be cut, and one that would
    meet another, ends in a hash of the original; of names that meet, the one that needed no
    change keeps its own. The result depends on the set of names only.
    """
    names = sorted(set(originals))
    plain = {name: f"{alias}__{_ILLEGAL.sub('_', name)}" for name in names}
    claims = Counter(plain.values())
    result = {
        name: plain[name]
        for name in names
        if len(plain[name]) <= _MAX_LENGTH
        and (claims[plain[name]] == 1 or plain[name] == f"{alias}__{name}")
    }
    taken = set(result.values())
    for name in names:
        if name not in result:
            result[name] = _hashed(plain[name], name, taken)
            taken.add(result[name])
    return result


def _hashed(plain: str, original: str, taken: set[str]) -> str:
    """The plain name, cut to make room for as much of the original's hash as makes it unique."""
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()
    for length in (8, 16, 32):
        candidate = f"{plain[: _MAX_LENGTH - length - 1]}_{digest[:length]}"
        if candidate not in taken:
            return candidate
    raise ValueError(f"no free name for tool {original!r}")  # pragma: no cover - 128 equal bits
