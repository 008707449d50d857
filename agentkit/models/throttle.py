"""How many requests go to a provider at once and in a minute, as the app says and as it is told.

One throttle for each model object, so for all runs of a process that use it. Who came first goes
first. Waiting costs nothing there: the request is not sent yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from agentkit.caching.times import RealTime, Time
from agentkit.errors import ConfigurationError, ModelError
from agentkit.events import UsageEvent
from agentkit.models.base import Model
from agentkit.models.rates import EXACT_S, LONGEST_S, Bucket, Kind, RateLimits, Told, Window
from agentkit.models.resolve import resolve_model
from agentkit.models.routes import leaves
from agentkit.usage import Usage

_LOOK_S = 1.0
"""How often is looked whether the event loop of who is first still exists, if it is another."""
_WEIGHT = 0.3
"""Of the latest request, in what is expected of the next."""


class Slot:
    """A request that was let through. Leave it when its last byte has come."""

    def __init__(self, throttle: Throttle, waited_s: float, taken: dict[Kind, float]) -> None:
        self._throttle = throttle
        self._taken = taken
        self._is_open = True
        self.waited_s = waited_s
        """How long it had to wait."""

    def timed(self, event: UsageEvent) -> UsageEvent:
        """Return the event with how long the request had to wait, if it had to."""
        if not self.waited_s:
            return event
        return replace(event, timing=replace(event.timing, queued_s=self.waited_s))

    def leave(self, usage: Usage) -> None:
        """Let the next one through, and count what was used in place of what was expected."""
        if self._is_open:
            self._is_open = False
            self._throttle._left(self._taken, usage)


@dataclass(slots=True, eq=False)
class _Waiter:
    loop: asyncio.AbstractEventLoop
    woken: asyncio.Future[None] = field(init=False)

    def __post_init__(self) -> None:
        self.woken = self.loop.create_future()

    def wake(self) -> None:
        self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)


@runtime_checkable
class Throttled(Protocol):
    """A model whose requests wait for their turn."""

    @property
    def throttle(self) -> Throttle:
        """What they wait for."""
        ...


def limit_rates(model: str | Model, limits: RateLimits) -> Model:
    """Bound what is sent to a model, for all that use the same object; returns the model.

    A model string names one object in the whole process, so this holds for all its agents.

    Raises:
        ConfigurationError: requests to the model do not wait for anything, or the limits are no
            `RateLimits`.
        UnknownModel: the string names nothing we know.
    """
    resolved = resolve_model(model)
    found = [each for each in leaves(resolved) if isinstance(each, Throttled)]
    if not found:
        raise ConfigurationError(
            f"the model {resolved.label!r} has no throttle: only models behind an API have one"
        )
    for each in found:
        each.throttle.limits = limits
    return resolved


class Throttle:
    """Lets requests through, one after the other. Usable from several event loops and threads.

    Args:
        limits: bounds of the app's own.
        counts_cached: whether tokens that are read from a cache count; not at Anthropic.
        time: for tests; the machine's own by default.
    """

    def __init__(
        self,
        limits: RateLimits | None = None,
        *,
        counts_cached: bool = True,
        time: Time | None = None,
    ) -> None:
        self._counts_cached = counts_cached
        self._time = time or RealTime()
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self._n_running = 0
        self._not_before_s = -math.inf
        self._windows: dict[Kind, Window] = {}
        self._buckets: dict[Kind, Bucket] = {}
        self._expected: dict[Kind, float] = {"requests": 1.0}
        self.limits = limits or RateLimits()

    @property
    def limits(self) -> RateLimits:
        """Bounds of the app's own. May be set at any time, also while requests wait."""
        return self._limits

    @limits.setter
    def limits(self, limits: RateLimits) -> None:
        if not isinstance(limits, RateLimits):
            raise ConfigurationError(
                "rates are given as RateLimits, e.g. RateLimits(requests_per_minute=60), "
                f"got {limits!r}"
            )
        with self._lock:
            self._limits = limits
            now_s = self._now_s()
            rates: dict[Kind, int | None] = {
                "requests": limits.requests_per_minute,
                "tokens": limits.tokens_per_minute,
                "input_tokens": limits.input_tokens_per_minute,
                "output_tokens": limits.output_tokens_per_minute,
            }
            self._buckets = {
                kind: Bucket(rate, float(rate), now_s)
                for kind, rate in rates.items()
                if rate is not None
            }
            self._wake_first()

    @property
    def n_running(self) -> int:
        """Requests that were let through and have not ended."""
        return self._n_running

    @property
    def n_waiting(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    async def enter(self) -> Slot:
        """Wait until it is a request's turn. Cancelled, it leaves the line."""
        with self._lock:
            if self._first() is None and self._wait_s() == 0:
                return Slot(self, 0.0, self._take())
            waiter = _Waiter(asyncio.get_running_loop())
            self._waiting.append(waiter)
        came_s = self._now_s()
        try:
            while True:
                with self._lock:
                    wait_s = self._turn_s(waiter)
                    if wait_s == 0:
                        return Slot(self, self._now_s() - came_s, self._take())
                    waiter.woken = waiter.loop.create_future()
                await self._pause(waiter, wait_s)
        finally:
            with self._lock:
                with contextlib.suppress(ValueError):  # its loop was closed, and it is gone
                    self._waiting.remove(waiter)
                self._wake_first()

    def told(self, limits: Iterable[Told]) -> None:
        """Go by what the provider says is left."""
        with self._lock:
            now_s = self._now_s()
            for each in limits:
                self._windows[each.kind] = Window(each.remaining, now_s + each.reset_s)
            self._wake_first()

    def failed(self, error: ModelError) -> None:
        """Send nothing for as long as the provider has asked for, if it has."""
        wait_s = error.retry_after_s
        if wait_s is not None and wait_s <= LONGEST_S:
            with self._lock:
                self._not_before_s = max(self._not_before_s, self._now_s() + wait_s)

    def _turn_s(self, waiter: _Waiter) -> float:
        """Return for how long one that waits has to, before it looks again."""
        first = self._first()
        if first is waiter:
            return self._wait_s()
        # Another loop may be closed without a word.
        return math.inf if first is None or first.loop is waiter.loop else _LOOK_S

    def _wait_s(self) -> float:
        """Return for how long the first has to wait; infinite: until another one has ended."""
        most = self._limits.max_concurrent
        if most is not None and self._n_running >= most:
            return math.inf
        now_s = self._now_s()
        waits = [self._not_before_s - now_s]
        for bounds in (self._windows, self._buckets):
            waits += [
                bound.wait_s(self._expected.get(kind, 0.0), now_s) for kind, bound in bounds.items()
            ]
        wait_s = max(waits)
        return wait_s if wait_s > EXACT_S else 0.0

    def _take(self) -> dict[Kind, float]:
        now_s = self._now_s()
        self._n_running += 1
        for kind, amount in self._expected.items():
            if (bucket := self._buckets.get(kind)) is not None:
                bucket.take(amount, now_s)
            if (window := self._windows.get(kind)) is not None:
                window.remaining -= amount
                if now_s >= window.ends_s:
                    del self._windows[kind]
        return dict(self._expected)

    def _left(self, taken: dict[Kind, float], usage: Usage) -> None:
        with self._lock:
            self._n_running -= 1
            now_s = self._now_s()
            for kind, amount in self._charged(usage).items():
                if (bucket := self._buckets.get(kind)) is not None:
                    bucket.take(amount - taken.get(kind, 0.0), now_s)
                before = self._expected.get(kind, float(amount))
                self._expected[kind] = before + _WEIGHT * (amount - before)
            self._wake_first()

    def _charged(self, usage: Usage) -> dict[Kind, int]:
        """Return what of a request counts; without what is not known."""
        n_input, n_output = usage.input_tokens, usage.output_tokens
        if n_input is not None and not self._counts_cached:
            n_input -= usage.cache_read_tokens or 0
        found: dict[Kind, int] = {}
        if n_input is not None:
            found["input_tokens"] = n_input
        if n_output is not None:
            found["output_tokens"] = n_output
        if n_input is not None and n_output is not None:
            found["tokens"] = n_input + n_output
        return found

    def _first(self) -> _Waiter | None:
        """Return whose turn it is. Who waits in a loop that was closed will not come for it."""
        while self._waiting and self._waiting[0].loop.is_closed():
            self._waiting.popleft()
        return self._waiting[0] if self._waiting else None

    def _wake_first(self) -> None:
        while (first := self._first()) is not None:
            try:
                first.wake()
            except RuntimeError:  # its loop was closed just now
                continue
            return

    async def _pause(self, waiter: _Waiter, wait_s: float) -> None:
        if math.isinf(wait_s):
            await waiter.woken
            return
        asleep = asyncio.ensure_future(self._time.sleep(wait_s))
        try:
            await asyncio.wait((asleep, waiter.woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            asleep.cancel()
            await asyncio.wait((asleep,))

    def _now_s(self) -> float:
        return self._time.now().timestamp()
