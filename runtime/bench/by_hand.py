"""An executor for runs that must be the same each time: it works only when it is told to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class ByHand(Executor):
    """Keeps what is submitted until `run`. Whoever waits for a result runs all before it, too."""

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], None]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Keep a call for later."""
        promise = _Promise(self)
        self.waiting.append(lambda: promise.set_result(fn(*args, **kwargs)))
        return promise

    def run(self, n: int | None = None) -> None:
        """Run the first `n` calls, or all that are there now."""
        for _ in range(len(self.waiting) if n is None else min(n, len(self.waiting))):
            self.waiting.popleft()()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Run what is left, or forget it."""
        if cancel_futures:
            self.waiting.clear()
        while self.waiting:
            self.run()


class _Promise(Future[Any]):
    def __init__(self, executor: ByHand) -> None:
        super().__init__()
        self._executor = executor

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            self._executor.run()
        return super().result(0)
