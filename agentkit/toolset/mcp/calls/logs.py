"""What a server logs, as lines of the logger `agentkit.mcp.<alias>`.

The words are the server's, and untrusted: one bounded line each, no control characters, and no
more than a log can bear.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable

from agentkit.toolset.mcp.calls.flood import Floodgate
from agentkit.toolset.results import encodable, finite

_MOST_CHARS = 1_000
_BURST, _PER_S = 100, 10.0
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}
_ASKED_FOR = ("debug", "info", "warning", "error")


class ServerLog:
    """Where one server's log lines go. `hidden` takes the server's secrets out of a text."""

    def __init__(
        self,
        alias: str,
        hidden: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logging.getLogger(f"agentkit.mcp.{alias}")
        self._hidden = hidden
        self._gate = Floodgate(_BURST, _PER_S, clock)

    @property
    def level(self) -> str:
        """The least that anybody here listens to; servers need not send less."""
        heard = (name for name in _ASKED_FOR if self._logger.isEnabledFor(_LEVELS[name]))
        return next(heard, "critical")

    def write(self, level: str, logger: str | None, data: object) -> None:
        """Log one line, unless there were too many."""
        number = _LEVELS.get(level, logging.INFO)
        if not self._logger.isEnabledFor(number) or not self._gate.passes():
            return
        if held := self._gate.n_held():
            self._logger.warning("%d lines of the server were left out: it logs too much", held)
        self._logger.log(
            number, "%s%s", f"[{self._line(logger)}] " if logger else "", self._line(data)
        )

    def _line(self, data: object) -> str:
        text = self._hidden(_text(data))
        text = "".join(each if each.isprintable() else " " for each in text[: 2 * _MOST_CHARS])
        return text if len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 3]}..."


def _text(data: object) -> str:
    """Anything that JSON can say, as text that has a UTF-8 form."""
    if not isinstance(data, str):
        try:
            data = json.dumps(finite(data), ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            data = "(data that has no JSON form)"
    return encodable(data)
