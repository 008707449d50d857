"""Who may come in now. Refusals are cheap and say when to come again.

draining or starting          503 for everybody
max_requests inside           429 for everybody
max_waiting wait              429 for everybody
pressure, or places taken, above batch_pressure
                              429 for the batch class; the others go on
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatEvent
from agentkit_runtime.checks import require_number, require_whole
from agentkit_runtime.governing.complexity import ComplexityLimits, check_complexity
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.governing.pressure import Pressure, PressureLimits, pressure_of
from agentkit_runtime.types import Priority

if TYPE_CHECKING:
    from agentkit_runtime.api.asked import Asked
    from agentkit_runtime.api.caller import Caller
    from agentkit_runtime.stats import CoreStats

_KEPT = 20
"""One of so many places is kept for interactive requests."""

MAX_RETRY_S = 60.0
"""Nobody is sent away for longer: by then the load is another one."""


class HasStats(Protocol):
    """What the gate looks at; `service.ChatService`."""

    def stats(self) -> CoreStats:
        """The engine's numbers after its last step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLimits:
    """How much is let in. Raises ValueError for values that cannot work."""

    max_requests: int = 1024
    """Requests that are answered at a time, waiting ones included."""
    batch_pressure: float = 0.85
    """From this pressure on the batch class is refused. 1 refuses it only when nothing fits."""
    pressure: PressureLimits = field(default_factory=PressureLimits)
    complexity: ComplexityLimits = field(default_factory=ComplexityLimits)

    def __post_init__(self) -> None:
        require_whole("max_requests", self.max_requests, least=1)
        require_number("batch_pressure", self.batch_pressure, least=0, most=1)


class PressureGate:
    """Lets requests in by the state of the server. Used in the server's event loop."""

    def __init__(
        self,
        engine: HasStats,
        lifecycle: Lifecycle,
        limits: GateLimits | None = None,
        *,
        clock: Callable[[], float],
    ) -> None:
        """`clock` gives monotonic seconds."""
        self._engine = engine
        self._lifecycle = lifecycle
        self._limits = limits or GateLimits()
        self._speed = _Speed(clock)
        self._n_coming = 0
        self.refused: dict[str, int] = {}
        """Refusals since start, by their code."""

    def pressure(self) -> Pressure:
        """How close the engine is to its limits now."""
        return pressure_of(self._engine.stats(), self._limits.pressure, n_coming=self._n_coming)

    def enter(self, asked: Asked) -> Pass:
        """Let a request in.

        Raises:
            ApiError: 400 asks for too much at once; 429 the server is full; 503 it starts or ends.
        """
        if not self._lifecycle.accepts:
            raise self._refusal(
                f"the server is {self._lifecycle.phase}; try again, or another server",
                code=f"server_{self._lifecycle.phase}",
                status=503,
            )
        check_complexity(asked.chat, self._limits.complexity)
        stats = self._engine.stats()
        self._check_room(stats, asked.chat.priority, asked.n)
        self._check_class(asked.chat.priority, stats)
        self._lifecycle.enter()
        self._n_coming += asked.n
        return Pass(self, asked.n)

    def look(self, caller: Caller) -> None:
        """Let it in: it asks nothing of the engine."""

    def _check_room(self, stats: CoreStats, priority: Priority, n: int) -> None:
        if self._lifecycle.n_inside >= _open_to(priority, self._limits.max_requests):
            raise self._refusal(
                f"{self._lifecycle.n_inside} requests are being answered, and no more of the class "
                f"{priority.name.lower()} are let in",
                code="too_many_requests",
                stats=stats,
            )
        n_waiting = stats.waiting + self._n_coming
        most_waiting = _open_to(priority, self._limits.pressure.max_waiting)
        if n > most_waiting:
            raise ApiError(
                f"{n} answers at once are more than may wait here, {most_waiting} of the class "
                f"{priority.name.lower()}; ask for fewer",
                code="request_too_complex",
            )
        if n_waiting + n > most_waiting:
            raise self._refusal(
                f"{n_waiting} requests wait already, and no more of the class "
                f"{priority.name.lower()} are let in",
                code="queue_full",
                stats=stats,
            )

    def _check_class(self, priority: Priority, stats: CoreStats) -> None:
        pressure = pressure_of(stats, self._limits.pressure, n_coming=self._n_coming)
        # Also of its places: batch requests that have taken them all leave none to the others.
        taken = self._lifecycle.n_inside / self._limits.max_requests
        index, cause = max((pressure.index, pressure.cause), (taken, "requests are answered"))
        if priority is Priority.BATCH and index >= self._limits.batch_pressure:
            raise self._refusal(
                f"the server is at {index:.0%} of what it can do ({cause}), and "
                f"takes no batch requests from {self._limits.batch_pressure:.0%} on",
                code="pressure",
                stats=stats,
            )

    def _refusal(
        self, message: str, *, code: str, status: int = 429, stats: CoreStats | None = None
    ) -> ApiError:
        self.refused[code] = self.refused.get(code, 0) + 1
        wait_s = 1.0 if stats is None else self._speed.seconds_for(stats)
        return ApiError(message, status=status, code=code, retry_after_s=wait_s)

    def _begun(self, n: int) -> None:
        self._n_coming -= n

    def _left(self) -> None:
        self._lifecycle.leave()


def _open_to(priority: Priority, places: int) -> int:
    """How many of the places are open to a class: some are left to the interactive one."""
    return places if priority is Priority.INTERACTIVE else places - places // _KEPT


class Pass:
    """A request's place behind the gate."""

    def __init__(self, gate: PressureGate, n: int) -> None:
        self._gate = gate
        self._n_coming = n

    def opened(self) -> None:
        """The engine has the request: from now on its own numbers count it."""
        n, self._n_coming = self._n_coming, 0
        self._gate._begun(n)

    def costs(self, left: Callable[[], Future[int]]) -> None:
        """Nothing: the engine's numbers say it."""

    def event(self, index: int, event: ChatEvent) -> None:
        """Nothing: the engine's numbers say it all."""

    def leave(self) -> None:
        """Give the place back."""
        self.opened()
        self._gate._left()


class _Speed:
    """How fast the engine computes lately, to say when there will be room."""

    _WINDOW_S = 5.0

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._then_s = -1.0
        self._then_tokens = 0
        self._tokens_per_s = 0.0

    def seconds_for(self, stats: CoreStats) -> float:
        """Seconds until what waits now is computed, if nothing else comes; 1 to `MAX_RETRY_S`."""
        now_s = self._clock()
        if self._then_s < 0 or now_s - self._then_s >= self._WINDOW_S:
            if self._then_s >= 0:
                done = stats.computed_tokens - self._then_tokens
                self._tokens_per_s = done / (now_s - self._then_s)
            self._then_s, self._then_tokens = now_s, stats.computed_tokens
        if not self._tokens_per_s:
            return 1.0
        return min(MAX_RETRY_S, max(1.0, stats.scheduler.waiting_tokens / self._tokens_per_s))
