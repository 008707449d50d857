"""Characters that a person does not see and a model reads."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from agentkit.toolset.mcp.trust.flag import Flag, Severity, excerpt

_SUSPECTS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000e0000-\U000e0fff]"
)
_VARIATIONS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}")
"""One behind a character chooses its form; more than one mean nothing."""
_SUBDIVISIONS = re.compile("\U0001f3f4[\U000e0061-\U000e007a]{5}\U000e007f")
"""The flags of England, Scotland and Wales: a black flag and tag characters."""
_MANY = 8
"""So many characters without a width can carry a message."""

_KINDS: dict[str, tuple[Severity, str]] = {
    "bidi": ("warning", "bidirectional controls, which can show text in another order"),
    "control": ("warning", "control characters"),
    "override": ("danger", "bidirectional overrides, which show text in another order"),
    "tag": ("danger", "tag characters, which nobody sees"),
    "terminal": ("danger", "escape sequences that steer a terminal"),
    "variation": ("danger", "variation selectors in runs, which can carry a message"),
    "zero-width": ("warning", "characters without a width"),
}


def hidden_flags(text: str, where: str) -> Iterator[Flag]:
    """Yield a flag for each kind of unseen character. What scripts and emoji need is none."""
    # Most texts have none; this is the whole cost for them.
    if _SUSPECTS.search(text) is None:
        return
    rest = _SUBDIVISIONS.sub("", text)
    is_right_to_left = any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in rest)
    counts = Counter(_kind(rest, found.start()) for found in _SUSPECTS.finditer(rest))
    counts["variation"] = sum(map(len, _VARIATIONS.findall(rest)))
    counts["bidi"] *= not is_right_to_left
    for kind, (severity, what) in _KINDS.items():
        if n := counts[kind]:
            is_worse = kind == "zero-width" and n >= _MANY
            message = _message(rest, kind)
            reads = f"; they read {excerpt(message)}" if message else ""
            yield Flag(
                "danger" if is_worse else severity, "hidden-text", where, f"has {n} {what}{reads}"
            )


def without_hidden(text: str) -> str:
    """Return a text without the characters that nobody sees."""
    return _SUSPECTS.sub("", text)


def _kind(text: str, at: int) -> str:
    """What kind of unseen character it is; empty where it does what it is made for."""
    code = ord(text[at])
    if code in (0x1B, 0x9B):
        return "terminal"
    if code < 0xA0:
        return "control"
    if code in (0x202D, 0x202E):
        return "override"
    if 0xE0000 <= code < 0xE0080:
        return "tag"
    if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
        return ""
    if code in (0x200E, 0x200F, 0x061C) or 0x202A <= code <= 0x202C or 0x2066 <= code <= 0x2069:
        return "bidi"
    # A joiner behind an emoji, or in a script that joins its letters; a mark of the byte order.
    is_joiner = code in (0x200C, 0x200D) or 0x180B <= code <= 0x180F
    is_at_work = is_joiner and _follows_joinable(text, at)
    return "" if is_at_work or (code == 0xFEFF and at == 0) else "zero-width"


def _follows_joinable(text: str, at: int) -> bool:
    before = text[at - 1] if at else ""
    return not before.isascii() and unicodedata.category(before) != "Cf"


def _message(text: str, kind: str) -> str:
    """What tag characters or variation selectors spell."""
    if kind == "tag":
        return "".join(chr(ord(c) - 0xE0000) for c in text if 0xE0020 <= ord(c) < 0xE007F)
    if kind == "variation":
        runs = "".join(_VARIATIONS.findall(text))
        octets = [ord(c) - 0xFE00 if ord(c) < 0xFE10 else ord(c) - 0xE0100 + 16 for c in runs]
        return bytes(octets).decode("utf-8", "replace")
    return ""
