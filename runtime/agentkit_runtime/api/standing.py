"""Whether the keys of what is under way would still be let in.

A key is looked up again while its requests are answered, and also while they wait and nothing comes
of them: who waits in a queue would find out at the first token otherwise.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agentkit_runtime.api.caller import Caller, Role
from agentkit_runtime.api.failure import ApiError

RECHECKED_S = 0.5
"""A key is looked up again after so long, and not at each token: a look costs about as much."""

SWEPT_S = 0.5
"""All keys that something is under way with are looked up so often, whatever comes of it."""


class Standing:
    """One key's, for all that is under way with it. Used in the server's event loop."""

    def __init__(
        self,
        caller_now: Callable[[], Caller],
        *,
        role: Role = "user",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`caller_now` authenticates once more, and raises `ApiError` as the first time.

        `clock` gives monotonic seconds.
        """
        self._caller_now = caller_now
        self._role = role
        self._clock = clock
        self._due_s = clock() + RECHECKED_S
        self._refusal: ApiError | None = None

    def refusal(self) -> ApiError | None:
        """Why the key is let in no more; None while it is. What was refused once stays so."""
        return self._refusal if self._clock() < self._due_s else self.look()

    def look(self) -> ApiError | None:
        """The same, looked up now."""
        if self._refusal is None:
            self._due_s = self._clock() + RECHECKED_S
            self._refusal = self._looked()
        return self._refusal

    def _looked(self) -> ApiError | None:
        try:
            caller = self._caller_now()
        except ApiError as refusal:
            return refusal
        if self._role not in caller.roles:
            return ApiError(
                f"this key has no {self._role} role any more", status=403, code="permission_denied"
            )
        return None


@dataclass(slots=True)
class _Line:
    """What is under way with one key in one role."""

    standing: Standing
    seats: dict[Seat, Callable[[], None]] = field(default_factory=dict)
    """What ends each."""


class Standings:
    """The keys that something is under way with. Used in the server's event loop.

    There is one look for all that a key has under way.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[object, Role], _Line] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(len(line.seats) for line in self._lines.values())

    def join(
        self,
        caller: Caller,
        caller_now: Callable[[], Caller],
        end: Callable[[], None],
        *,
        role: Role = "user",
    ) -> Seat:
        """Watch over something of `caller` until the seat is left.

        Args:
            caller: who asked for it.
            caller_now: authenticates once more.
            end: called at most once, when the key is let in no more. Must not raise.
            role: what the key must be good for.
        """
        name = (object() if caller.key_id is None else caller.key_id, role)
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = _Line(Standing(caller_now, role=role))
        seat = Seat(line.standing, lambda: self._leave(name, seat))
        line.seats[seat] = end
        if self._timer is None:
            self._schedule()
        return seat

    def _leave(self, name: tuple[object, Role], seat: Seat) -> None:
        line = self._lines.get(name)
        if line is not None and seat in line.seats:  # else its key has another line by now
            del line.seats[seat]
            if not line.seats:
                del self._lines[name]

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SWEPT_S, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        for name, line in list(self._lines.items()):
            if line.standing.look() is not None:
                # Gone from here: a key that comes to be good again has another standing.
                del self._lines[name]
                for end in line.seats.values():
                    end()
        if self._lines:
            self._schedule()


class Seat:
    """Something that is under way with a key."""

    def __init__(self, standing: Standing, leave: Callable[[], None]) -> None:
        self._standing = standing
        self._leave = leave

    def refusal(self) -> ApiError | None:
        """Why the key is let in no more; None while it is."""
        return self._standing.refusal()

    def leave(self) -> None:
        """It is over. Idempotent."""
        self._leave()
