"""Warnings to the people who write agents. They point at those people's code, not at ours."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_PASSED_THROUGH = frozenset(("agentkit", "asyncio", "contextlib"))
"""Packages that lie between a user's line and ours: an event loop calls what the user has begun."""


class MissingDescriptionWarning(UserWarning):
    """A model must choose among tools or agents, and is told nothing about one of them."""


class PinnedToolsWarning(UserWarning):
    """An agent has tools that a conversation was begun without, and stays without."""


class LostMarkWarning(UserWarning):
    """A breakpoint that the user set is left out, or has another lifetime: the API's rules."""


class ServerConfigWarning(UserWarning):
    """A list of MCP servers says something that is not used."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Emit a warning at the line outside this package that led here.

    Python 3.12 has `skip_file_prefixes` for this; 3.11 has not.
    """
    frame = _users_frame(sys._getframe(1))
    warnings.warn_explicit(
        message,
        category,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=_module(frame),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def users_line() -> tuple[str, int]:
    """Return file and number of the line outside this package that led here."""
    frame = _users_frame(sys._getframe(1))
    return frame.f_code.co_filename, frame.f_lineno


def _users_frame(frame: FrameType) -> FrameType:
    while frame.f_back is not None and _module(frame).partition(".")[0] in _PASSED_THROUGH:
        frame = frame.f_back
    return frame


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "<unknown>"))
