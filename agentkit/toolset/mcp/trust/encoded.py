"""Texts within texts, and texts that nobody reads to their end."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from agentkit.toolset.mcp.trust.flag import Flag, excerpt
from agentkit.toolset.mcp.trust.phrases import phrase_flags

_LONG = 8_000
"""Hardly one tool in a thousand has a longer description."""
_RUN = re.compile(r"[A-Za-z0-9+/_=-]{40,}")
_BLOB = 160
"""From this length on a run without a break is more than an id or a path."""
_BLANK = re.compile(r"\s{30,}")
_WIDE, _HIGH = 200, 30
"""So many blanks or line breaks push what follows out of sight."""
_IMAGE = re.compile(
    r"!\[[^\]]{0,200}\]\(\s*(?:https?:)?//|<img\b[^>]{0,200}\bsrc\b|javascript:|data:text/html"
)


def form_flags(text: str, where: str) -> Iterator[Flag]:
    """Yield flags for what is said in a form that a person skips."""
    if len(text) > _LONG:
        yield Flag("note", "size", where, f"has {len(text):,} characters")
    if any(_hides(run[0]) and run.end() < len(text) for run in _BLANK.finditer(text)):
        yield Flag("warning", "size", where, "goes on behind a gap that hides its rest from view")
    if hit := _IMAGE.search(text):
        shown = excerpt(text[hit.start() : hit.end() + 40])
        yield Flag("warning", "image", where, f"has an image or link that loads by itself: {shown}")
    for run in _RUN.findall(text):
        if hidden := _decoded(run):
            yield Flag("warning", "encoded", where, f"has encoded text: {excerpt(hidden)}")
            yield from phrase_flags(hidden, f"{where}, decoded")
        elif len(run) >= _BLOB:
            yield Flag("warning", "encoded", where, f"has {len(run)} characters without a break")


def _hides(blanks: str) -> bool:
    n_lines = blanks.count("\n")
    return n_lines >= _HIGH or len(blanks) - n_lines >= _WIDE


def _decoded(run: str) -> str:
    """Return the text that a run of base64 or hexadecimal stands for; empty if it is none."""
    for decode in (bytes.fromhex, _from_base64):
        try:
            text = decode(run).decode()
        except (ValueError, binascii.Error):
            continue
        # Random bytes are hardly ever this many printable characters with a space among them.
        if text.isprintable() and " " in text:
            return text
    return ""


def _from_base64(run: str) -> bytes:
    digits = run.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
