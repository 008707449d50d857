"""What is odd about a text of a server: a value, for logs, listings and decisions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Severity = Literal["note", "warning", "danger"]
"""`danger`: no honest server has a reason for it. `warning`: somebody should look. `note`: for
listings only."""

FlagKind = Literal[
    "hidden-text",
    "override",
    "secrecy",
    "secret-place",
    "disguise",
    "steering",
    "exfiltration",
    "image",
    "encoded",
    "size",
    "shadowing",
    "look-alike",
]

UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U000e0000-\U000e0fff]"
)


@dataclass(frozen=True, slots=True)
class Flag:
    """One finding. It is made of the server's own words, so it is as untrusted as they are."""

    severity: Severity
    kind: FlagKind
    where: str
    """Which text, e.g. `tool 'add', /properties/note/description`."""
    what: str
    """What is odd about it, in one line that can be printed as it is."""

    def __str__(self) -> str:
        return f"{self.severity}: {self.where}: {self.what}"


def visible(text: str) -> str:
    """Return a text with everything that would not be seen, or would steer a terminal, spelt out.

    Line breaks and tabs stay; U+200B becomes `<U+200B>`.
    """
    if text.isascii() and text.isprintable():
        return text
    return UNSEEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def excerpt(text: str, limit: int = 80) -> str:
    """Return a text as one visible line of at most `limit` characters, in quotes."""
    line = " ".join(visible(text[: 4 * limit]).split())
    return repr(line if len(line) <= limit else f"{line[: limit - 3]}...")
