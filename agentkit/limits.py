"""How much a run and everything below it may use."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from decimal import Decimal

from agentkit.caching.report import RequestRecord
from agentkit.errors import ConfigurationError, LimitReached
from agentkit.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on a run and all runs below it together. None is no limit.

    Raises:
        ConfigurationError: a limit is no number above 0.
    """

    turns: int | None = None
    """Model turns, also of subagents. `Agent.max_turns` bounds one run by itself."""
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    """Input and output together."""
    seconds: float | None = None
    """Wall time; what then runs is cancelled."""
    usd: Decimal | float | None = None
    """Money. Requests whose price is not known are refused, unless `allow_unpriced`."""
    allow_unpriced: bool = False
    """Whether models without a known price may be asked under `usd`; what they cost is not
    counted."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "allow_unpriced" or value is None:
                continue
            whole = item.name not in ("seconds", "usd")
            is_number = isinstance(value, int if whole else int | float | Decimal)
            if isinstance(value, bool) or not is_number or not 0 < value < math.inf:
                kind = "an int" if whole else "a number"
                raise ConfigurationError(
                    f"Limits.{item.name} must be {kind} above 0, or None for no limit, "
                    f"got {value!r}"
                )


class Budget:
    """What is left of the limits of a run tree. Shared by all its runs; children inherit nothing.

    A run with limits of its own has a budget below that of the run above: both count.
    """

    def __init__(self, limits: Limits, above: Budget | None = None) -> None:
        self.limits = limits
        self._above = above
        self._began_s = time.monotonic()
        self._requests: list[RequestRecord] = []
        self._n_tool_calls = 0

    def chain(self) -> Iterator[Budget]:
        """This budget, and those above it."""
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget._above

    def restore(self, requests: Iterable[RequestRecord], seconds: float, n_tool_calls: int) -> None:
        """Count what was used before, by other processes."""
        self._requests.extend(requests)
        self._n_tool_calls += n_tool_calls
        self._began_s -= seconds

    def count_request(self, record: RequestRecord) -> None:
        """Count a request that was made."""
        for budget in self.chain():
            budget._requests.append(record)

    def check_request(self) -> None:
        """Check that one more request may be made.

        Raises:
            LimitReached: names the limit and what was used.
        """
        for budget in self.chain():
            budget._check()

    def count_tool_calls(self, n_calls: int) -> None:
        """Count calls that are about to run.

        Raises:
            LimitReached: they would be more than the limit allows.
        """
        for budget in self.chain():
            limit = budget.limits.tool_calls
            if limit is not None and budget._n_tool_calls + n_calls > limit:
                raise LimitReached("tool_calls", limit, budget._n_tool_calls + n_calls)
        for budget in self.chain():
            budget._n_tool_calls += n_calls

    @property
    def seconds_left(self) -> float | None:
        """Until the earliest deadline; None without one."""
        left = [
            budget.limits.seconds - (time.monotonic() - budget._began_s)
            for budget in self.chain()
            if budget.limits.seconds is not None
        ]
        return min(left) if left else None

    def _check(self) -> None:
        limits, usage = self.limits, Usage.total(each.usage for each in self._requests)
        used: dict[str, float | None] = {
            "turns": len(self._requests),
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "seconds": time.monotonic() - self._began_s,
        }
        for name, amount in used.items():
            limit = getattr(limits, name)
            if limit is not None and amount is not None and amount >= limit:
                raise LimitReached(name, limit, amount)
