"""Names for MCP tools: legal at every provider, unique, and the same whatever else is listed.

A name says whose tool it is: an alias holds no `__` and does not end in `_`, so it is what lies
before the first `__`, and tools of two servers never meet.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_MAX_LENGTH = 64
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_ALIAS = re.compile(r"[a-zA-Z0-9](?:_?[a-zA-Z0-9-])*")
_MAX_ALIAS = 32
_BETWEEN = "__"


def check_alias(alias: str) -> None:
    """Raise `ValueError` unless the alias can lead a tool name."""
    is_text = isinstance(alias, str)
    if not is_text or len(alias) > _MAX_ALIAS or not _ALIAS.fullmatch(alias):
        raise ValueError(
            f"alias {alias!r} cannot lead a tool name; use 1 to {_MAX_ALIAS} of the characters "
            "a-z, A-Z, 0-9, '_' and '-', beginning with a letter or digit, without '__' and "
            "without '_' at the end"
        )


def alias_of(name: str) -> str:
    """Return the alias that leads a tool's final name; empty where none does."""
    alias, found, _ = name.partition(_BETWEEN)
    return alias if found else ""


def final_names(alias: str, originals: Iterable[str]) -> dict[str, str]:
    """Map each original tool name to `{alias}__{tool}`, legal and unique.

    A name that is legal stays as it is. Of others, illegal characters become `_`, what is too long
    is cut, and a hash of the original follows: so a name does not depend on what else a server
    lists, and never comes to mean another tool when the server's list changes.
    """
    names = sorted(set(originals))
    result = {name: final for name in names if (final := _legal(alias, name)) is not None}
    taken = set(result.values())
    for name in names:
        if name not in result:
            result[name] = _hashed(alias, name, taken)
            taken.add(result[name])
    return result


def _legal(alias: str, original: str) -> str | None:
    """The name of a tool whose own name needs no change."""
    name = f"{alias}{_BETWEEN}{original}"
    return name if len(name) <= _MAX_LENGTH and not _ILLEGAL.search(original) else None


def _hashed(alias: str, original: str, taken: set[str]) -> str:
    """A legal name, with as much of the original's hash as makes it unique."""
    plain = f"{alias}{_BETWEEN}{_ILLEGAL.sub('_', original)}"
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()
    for length in (8, 16, 32):
        candidate = f"{plain[: _MAX_LENGTH - length - 1]}_{digest[:length]}"
        if candidate not in taken:
            return candidate
    raise ValueError(f"no free name for tool {original!r}")  # pragma: no cover - 128 equal bits
