"""Which names may be given to something new, and below which nothing is changed."""

from __future__ import annotations

import re
import unicodedata

from agentkit_tools._errors import Refused
from agentkit_tools._root import MAX_DEPTH

_MAX_NEW_DEPTH = MAX_DEPTH - 4
_IGNORABLE = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""`Default_Ignorable_Code_Point` of Unicode, which file systems that fold case leave out."""

_SHORT_NAME = re.compile(r"git~\d+")


def check_new(parts: tuple[str, ...], path: str) -> None:
    """Refuse names that could not be listed, read or typed afterwards."""
    check_depth(parts, path)
    if not parts[-1].isprintable() or "\\" in parts[-1]:
        raise Refused(
            f"{parts[-1]!r} has characters that a new name cannot have here (control characters, "
            "invisible ones, a backslash); folders are parted by '/'"
        )


def check_depth(parts: tuple[str, ...], path: str) -> None:
    """Refuse what would lie too deep to be entered."""
    if len(parts) > _MAX_NEW_DEPTH:
        raise Refused(f"{path[:100]!r}... lies deeper than {_MAX_NEW_DEPTH} folders")


def check_untouchable(parts: tuple[str, ...], path: str) -> None:
    """Refuse what is, or lies in, a folder whose content is run by git."""
    if any(is_git(part) for part in parts):
        raise Refused(f"{path!r} is inside '.git', where nothing is changed: hooks there would run")


def is_git(name: str) -> bool:
    """Whether some file system takes a name for `.git`; these are the spellings git itself guards.

    Some fold case, leave out what is not seen, or normalize; those of Windows drop blanks and dots
    at the end, have short names, and name streams of a file after a colon.
    """
    plain = unicodedata.normalize("NFKC", _IGNORABLE.sub("", name)).casefold()
    plain = _IGNORABLE.sub("", plain).split(":")[0].rstrip(" .")
    return plain == ".git" or _SHORT_NAME.fullmatch(plain) is not None
