"""What is left of the limits of a run tree, shared by all its runs.

A request is reserved before it is sent: the most that it may use counts as used until it has
ended. What does not fit beside what is under way waits for it, and then goes alone. So a limit is
passed by one request at most, however many runs there are.

    reservation = await budget.reserve(quote)
    try: ...                                  # ask the model
    finally:
        budget.count_request(record)          # what it used
        reservation.settle()                  # others may go now
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TypeAlias

from agentkit.caching.ledger.totals import priced_models
from agentkit.caching.report import RequestRecord
from agentkit.errors import LimitReached
from agentkit.limits import Limits, LimitUse
from agentkit.quote import Quote
from agentkit.usage import Usage
from agentkit.waiting import Reservation, WaitingLine

_Amounts: TypeAlias = dict[str, int | Decimal]


class Budget:
    """What is left of some limits. Children of a run share its budget, they inherit nothing.

    A run with limits of its own has a budget below that of the run above: both count. For one
    event loop.

    Args:
        limits: what may be used.
        above: the budget that this one is a part of.
        clock: seconds, monotonic; by default the event loop's.
    """

    def __init__(
        self,
        limits: Limits,
        above: Budget | None = None,
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.limits = limits
        self._clock: Callable[[], float] = (clock or _now_s) if above is None else above._clock
        self._queue: WaitingLine = WaitingLine() if above is None else above._queue
        self._began_s: float | None = None
        self._before_s = 0.0
        self._limited = _limited(limits)
        self._used: _Amounts = dict.fromkeys(COUNTED, 0)
        self._assumed: _Amounts = dict.fromkeys(COUNTED, 0)
        self._reserved: _Amounts = dict.fromkeys(COUNTED, 0)
        self._n_unknown = dict.fromkeys(COUNTED, 0)
        self._n_under_way = 0
        own = (self,) if self._limited or limits.seconds is not None else ()
        self._chain: tuple[Budget, ...] = own if above is None else (*own, *above._chain)

    def below(self, limits: Limits | None) -> Budget:
        """Return the budget of a run below: this one, or a part of it with limits of its own."""
        return self if limits is None else Budget(limits, self)

    # Before a request.

    @property
    def needs_quotes(self) -> bool:
        """Whether any limit depends on how long requests are."""
        return bool(self._chain) and any(
            not _BY_NUMBER.issuperset(each._limited) for each in self._chain
        )

    @property
    def needs_prices(self) -> bool:
        """Whether any limit is on money, and models without a known price must not be asked."""
        return any(
            "usd" in each._limited and not each.limits.allow_unpriced for each in self._chain
        )

    async def reserve(self, quote: Quote) -> Reservation:
        """Wait until a request fits beside those that are under way, and count it as one of them.

        Raises:
            LimitReached: a limit is used up; names it, and what was used.
        """
        if not self._chain:
            return _UNBOUNDED
        self._check_time()
        reservation = Reservation(self._chain, quote, self._queue)
        await self._queue.wait(reservation)
        return reservation

    def check(self) -> None:
        """Check that nothing is used up.

        Raises:
            LimitReached: a limit is; names it, and what was used.
        """
        self._check_time()
        for budget in self._chain:
            budget.check_counts()

    # What was used.

    def count_turn(self) -> None:
        """Count a turn that a model has completed."""
        for budget in self._chain:
            budget._used["turns"] += 1

    def count_request(self, record: RequestRecord, guess: Quote | None = None) -> None:
        """Count a request that has ended.

        Args:
            record: what the provider says of it.
            guess: an estimate, for what the provider does not say; None: it did not begin to
                answer, and then what is not known was not used.
        """
        for budget in self._chain:
            budget._count_request(record, guess)

    def count_tool_calls(self, n_calls: int) -> None:
        """Count calls that are about to run.

        Raises:
            LimitReached: they would be more than the limit allows; none is counted then.
        """
        for budget in self._chain:
            limit, used = budget._limited.get("tool_calls"), budget._used["tool_calls"]
            if limit is not None and used + n_calls > limit:
                note = f"and the model wants {n_calls} more"
                raise LimitReached("tool_calls", limit, used, note=note)
        for budget in self._chain:
            budget._used["tool_calls"] += n_calls

    def restore(
        self, requests: Iterable[RequestRecord], *, seconds: float, n_tool_calls: int
    ) -> None:
        """Count what was used before, by other processes. The budget above is left as it is."""
        records = list(requests)
        priced = priced_models(records)
        for record in records:
            self._used["turns"] += record.is_turn
            guess = record.guess
            if guess is None and not _is_known(record):
                continue
            if record.model not in priced and not (guess and guess.usd):
                guess = replace(guess or _SAID_ALL, is_free=True)
            self._count_request(record, guess)
        self._used["tool_calls"] += n_tool_calls
        self._before_s += seconds

    # Time.

    def begin(self) -> None:
        """Count the time from now on, where it is not counted yet."""
        for budget in self._chain:
            if budget._began_s is None:
                budget._began_s = budget._clock()

    @property
    def seconds_left(self) -> float | None:
        """Until the earliest deadline; None without one. Below 0 if it has passed."""
        first = self._first_to_end()
        return None if first is None else first[0]

    def out_of_time(self) -> LimitReached:
        """Return the error for the deadline that comes first."""
        first = self._first_to_end()
        assert first is not None, "only who has a deadline runs out of time"
        return LimitReached("seconds", first[1].limits.seconds, round(first[1]._seconds, 3))

    @property
    def uses(self) -> tuple[LimitUse, ...]:
        """What was used of each limit of this budget itself."""
        found = [self._use(name) for name in self._limited]
        if self.limits.seconds is not None:
            allowed, used = Decimal(str(self.limits.seconds)), Decimal(str(round(self._seconds, 3)))
            found.append(LimitUse(name="seconds", allowed=allowed, used=used))
        return tuple(found)

    # For `waiting`.

    def check_counts(self) -> None:
        """See `Part`."""
        for name, limit in self._limited.items():
            if name != "tool_calls" and self._used[name] >= limit:
                raise LimitReached(name, limit, self._used[name], note=self._use(name).note)

    def is_full(self, amounts: Mapping[str, int | Decimal]) -> bool:
        """See `Part`."""
        return self._n_under_way > 0 and any(
            self._used[name] + self._reserved[name] + amounts[name] > limit
            for name, limit in self._limited.items()
            if name != "tool_calls"
        )

    def hold(self, amounts: Mapping[str, int | Decimal], sign: int) -> None:
        """See `Part`."""
        self._n_under_way += sign
        for name, amount in amounts.items():
            self._reserved[name] += sign * amount

    def _use(self, name: str) -> LimitUse:
        return LimitUse(
            name=name,
            allowed=Decimal(self._limited[name]),
            used=Decimal(self._used[name]),
            assumed=Decimal(self._assumed[name]),
            n_unknown=self._n_unknown[name],
        )

    @property
    def _seconds(self) -> float:
        return self._before_s + (0.0 if self._began_s is None else self._clock() - self._began_s)

    def _first_to_end(self) -> tuple[float, Budget] | None:
        ends = (
            (each.limits.seconds - each._seconds, each)
            for each in self._chain
            if each.limits.seconds is not None
        )
        return min(ends, key=lambda end: end[0], default=None)

    def _check_time(self) -> None:
        left_s = self.seconds_left
        if left_s is not None and left_s <= 0:
            raise self.out_of_time()

    def _count_request(self, record: RequestRecord, guess: Quote | None) -> None:
        if guess is None and not _is_known(record):
            return
        guess = guess or _SAID_ALL
        guessed = guess.amounts()
        for name, amount in _known(record, guess).items():
            self._count(name, amount, guessed[name])

    def _count(self, name: str, amount: int | Decimal | None, guess: int | Decimal) -> None:
        if amount is None:
            self._n_unknown[name] += 1
            self._assumed[name] += guess
            amount = guess
        self._used[name] += amount


COUNTED = ("turns", "tool_calls", "input_tokens", "output_tokens", "tokens", "usd")
"""Limits whose use is a number that only grows, in the order in which they are checked."""
_BY_NUMBER = frozenset(("turns", "tool_calls"))
_SAID_ALL, _NOTHING = Quote(turns=0), Usage()
_UNBOUNDED = Reservation((), _SAID_ALL, WaitingLine())
"""Holds nothing, so all may have it."""


def _now_s() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:  # a record is looked at when the run is over; loops have the same clock
        return time.monotonic()


def _limited(limits: Limits) -> _Amounts:
    given = ((name, getattr(limits, name)) for name in COUNTED)
    return {
        name: Decimal(str(value)) if isinstance(value, float) else value
        for name, value in given
        if value is not None
    }


def _is_known(record: RequestRecord) -> bool:
    """Whether the provider has said anything of a request."""
    return record.usage != _NOTHING or record.verdict is not None


def _known(record: RequestRecord, guess: Quote) -> dict[str, int | Decimal | None]:
    """Return what is known of a request's use; None is what is not."""
    usage, verdict = record.usage, record.verdict
    tokens = (usage.input_tokens, usage.output_tokens)
    usd: Decimal | None = Decimal(0) if guess.is_free else None
    if verdict is not None and verdict.cost is not None:
        usd = verdict.cost.total
    return {
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "tokens": None if tokens[0] is None or tokens[1] is None else tokens[0] + tokens[1],
        "usd": usd,
    }
