"""Those who watch a request, told one by one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentkit_runtime.chat import ChatEvent

if TYPE_CHECKING:
    from agentkit_runtime.api.asked import Asked, Watch, Watcher

_LOG = logging.getLogger(__name__)


class Watches:
    """The watches of one request, as one. None of them can fail it."""

    def __init__(self, watchers: Sequence[Watcher], asked: Asked) -> None:
        self._watches: list[Watch] = []
        for watcher in watchers:
            with _logged():
                self._watches.append(watcher.asked(asked))

    def event(self, index: int, event: ChatEvent) -> None:
        """Tell all."""
        for watch in self._watches:
            with _logged():
                watch.event(index, event)

    def closed(self, failure: BaseException | None) -> None:
        """Tell all."""
        for watch in self._watches:
            with _logged():
                watch.closed(failure)


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except Exception:  # measuring must not cost anybody an answer
        _LOG.exception("a watcher of requests failed")
