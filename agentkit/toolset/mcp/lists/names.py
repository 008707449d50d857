"""Names for MCP tools: legal at every provider, unique, and the same whatever else is listed.

A name says whose tool it is: an alias holds no `__` and does not end in `_`, so it is what lies
before the first `__`, and tools of two servers never meet.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

_MAX_LENGTH = 64
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_ALIAS = re.compile(r"[a-zA-Z](?:_?[a-zA-Z0-9-])*")
MAX_ALIAS = 32
"""Characters of an alias."""
_BETWEEN = "__"
_DIGITS = (8, 16, 24)
"""Hexadecimal digits of a hash. With the most of them there is still room for any alias."""
_LOOKS_HASHED = re.compile(r"_(?:[0-9a-f]{8}|[0-9a-f]{16}|[0-9a-f]{24})\Z")


def check_alias(alias: str) -> None:
    """Raise `ValueError` unless the alias can lead a tool name."""
    is_text = isinstance(alias, str)
    if not is_text or len(alias) > MAX_ALIAS or not _ALIAS.fullmatch(alias):
        raise ValueError(
            f"alias {alias!r} cannot lead a tool name; use 1 to {MAX_ALIAS} of the characters "
            "a-z, A-Z, 0-9, '_' and '-', beginning with a letter (Gemini takes no other names), "
            "without '__' and without '_' at the end"
        )


def alias_of(name: str) -> str:
    """Return the alias that leads a tool's final name; empty where none does."""
    alias, found, _ = name.partition(_BETWEEN)
    return alias if found else ""


def final_names(alias: str, originals: Iterable[str]) -> dict[str, str]:
    """Map each original tool name to `{alias}__{tool}`, legal and unique.

    A name that is legal stays as it is. Of others, illegal characters become `_`, what is too long
    is cut, and a hash of the original follows; also of a name that ends like one with a hash. So
    what ends like that is always the hash of the tool's own name: a name does not depend on what
    else a server lists, and no tool can take that of another.

    The hash has 8 digits. Should two names of one server have the same ones, both get 16, so that
    the short name, which may have been shown, then names neither.
    """
    names = set(originals)
    result = {name: final for name in names if (final := _legal(alias, name)) is not None}
    left = names - result.keys()
    for n_digits in _DIGITS:
        hashed = {name: _hashed(alias, name, n_digits) for name in left}
        times = Counter(hashed.values())
        result |= {name: final for name, final in hashed.items() if times[final] == 1}
        left -= result.keys()
    if left:  # pragma: no cover - 96 equal bits
        raise ValueError(f"no free names for the tools {sorted(left)!r}")
    return result


def _legal(alias: str, original: str) -> str | None:
    """The name of a tool whose own name needs no change."""
    name = f"{alias}{_BETWEEN}{original}"
    is_plain = not _ILLEGAL.search(original) and not _LOOKS_HASHED.search(original)
    return name if is_plain and len(name) <= _MAX_LENGTH else None


def _hashed(alias: str, original: str, n_digits: int) -> str:
    """A legal name, with so much of the original's hash."""
    plain = f"{alias}{_BETWEEN}{_ILLEGAL.sub('_', original)}"
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{plain[: _MAX_LENGTH - n_digits - 1]}_{digest[:n_digits]}"
