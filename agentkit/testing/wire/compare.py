"""Where a request parts from the one that was recorded."""

from __future__ import annotations

import difflib
import json
from itertools import islice

_NEAR = 60
_MOST_LINES = 30


def difference(recorded: bytes, sent: bytes) -> str:
    """Return the first byte that differs with its surroundings, and the changes as JSON."""
    shorter = min(len(recorded), len(sent))
    pairs = zip(recorded, sent, strict=False)
    at = next((index for index, (a, b) in enumerate(pairs) if a != b), shorter)
    start, end = max(0, at - _NEAR), at + _NEAR
    lines = [
        f"  they part at byte {at} of {len(recorded)} and {len(sent)}",
        f"  recorded: {recorded[start:end]!r}",
        f"  sent:     {sent[start:end]!r}",
    ]
    changes = difflib.unified_diff(
        _pretty(recorded), _pretty(sent), "recorded", "sent", lineterm="", n=1
    )
    found = [line[:200] for line in islice(changes, _MOST_LINES)]
    return "\n".join([*lines, *(f"  {line}" for line in found)])


def _pretty(data: bytes) -> list[str]:
    try:
        return json.dumps(json.loads(data), indent=1, ensure_ascii=False).splitlines()
    except ValueError:
        return data.decode(errors="replace").splitlines()
