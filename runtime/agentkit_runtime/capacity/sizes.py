"""Sizes as people write them."""

from __future__ import annotations

import re

_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_TOKENS = re.compile(r"(\d+(?:\.\d+)?)\s*([km]?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_bytes(text: str) -> int:
    """`80GB` is 80e9 and `80GiB` 80 * 2**30. Raises ValueError."""
    found = _BYTES.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"a memory size is a number with a unit such as 80GB or 24GiB, not {text!r}"
        )
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** _POWERS[found[2].lower()])


def parse_tokens(text: str) -> int:
    """`32k` is 32 * 1024, as models' limits are counted. Raises ValueError."""
    found = _TOKENS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"a number of tokens is one such as 4096 or 32k: {text!r}")
    return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])
