"""File names, as they are shown on one line."""

from __future__ import annotations


def shown_name(name: str) -> str:
    """A file name for showing on one line: control characters and undecodable bytes are escaped."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in name
    )
