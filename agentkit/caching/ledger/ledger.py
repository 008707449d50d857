"""All requests of an app or a run, in the order in which they were answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from agentkit.caching.ledger.amounts import AtLeast
from agentkit.caching.ledger.lines import record_to_json
from agentkit.caching.ledger.totals import By, Loss, Totals, losses, priced_models, totals
from agentkit.caching.verdict import Cause

if TYPE_CHECKING:
    from agentkit.blocks import Json
    from agentkit.caching.report import RequestRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Money for something that is no request, e.g. to store a Gemini cached-content object."""

    at: datetime
    what: str
    model: str
    usd: Decimal | None
    """None: unknown."""
    tenant: str = ""
    session: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return a JSON object."""
        return {
            "charge": self.what,
            "at": self.at.isoformat(),
            "model": self.model,
            "usd": None if self.usd is None else f"{self.usd:f}",
            "tenant": self.tenant,
            "session": self.session,
        }


class Ledger:
    """What was asked and what it cost. Append-only: nothing in it can be changed or taken out.

    One ledger may be shared by all agents of an app: sums are then over all of them.

    Args:
        records: What it begins with, e.g. `result.requests`.
        on_line: Is told each new line of JSON as it is added, e.g. to append it to a file.
    """

    def __init__(
        self,
        records: Iterable[RequestRecord] = (),
        *,
        on_line: Callable[[str], object] | None = None,
    ) -> None:
        self._records: list[RequestRecord] = []
        self._charges: list[Charge] = []
        self._on_line = on_line
        for record in records:
            self.add(record)

    @property
    def records(self) -> tuple[RequestRecord, ...]:
        """All requests, in the order in which they were added."""
        return tuple(self._records)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges beside requests."""
        return tuple(self._charges)

    def add(self, record: RequestRecord) -> None:
        """Add a request that was answered, or that failed after it had cost something."""
        self._records.append(record)
        self._tell(record_to_json(record))

    def charge(self, charge: Charge) -> None:
        """Add money for something that is no request."""
        self._charges.append(charge)
        self._tell(charge.to_json())

    def total(self) -> Totals:
        """Add up all requests. Charges are apart: see `spent`."""
        return totals(self._records)

    def totals(self, *by: By) -> Mapping[tuple[str, ...], Totals]:
        """Add up requests that have all of `by` in common, in the order of their first ones.

        E.g. `ledger.totals(By.TENANT, By.MODEL)[("acme", "openai:gpt-6-sol")].cost`.
        """
        groups: dict[tuple[str, ...], list[RequestRecord]] = {}
        for record in self._records:
            groups.setdefault(tuple(each.name_of(record) for each in by), []).append(record)
        priced = priced_models(self._records)
        return {names: totals(group, priced=priced) for names, group in groups.items()}

    @property
    def spent(self) -> AtLeast:
        """The whole bill: requests and charges."""
        return self.total().cost.plus(AtLeast.of(charge.usd for charge in self._charges))

    def losses(self) -> tuple[Loss, ...]:
        """Return why it was not less: shortfalls by agent and cause."""
        return losses(self._records)

    def epoch_switches(self) -> Mapping[str, AtLeast]:
        """Return what starting a context anew has cost, in USD, by the epoch that it began.

        It is what the first requests of the epoch paid for tokens that the old context had in the
        cache. The request that wrote a summary is a request of the old epoch.
        """
        switched: dict[str, list[Decimal | None]] = {}
        for record in self._records:
            shortfall = None if record.verdict is None else record.verdict.shortfall
            if shortfall is not None and shortfall.cause is Cause.COMPACTED:
                switched.setdefault(By.EPOCH.name_of(record), []).append(shortfall.lost_usd)
        return {epoch: AtLeast.of(parts) for epoch, parts in switched.items()}

    def lines(self) -> Iterator[str]:
        """Yield JSON Lines: one object for each request, then one for each charge."""
        for record in self._records:
            yield _line(record_to_json(record))
        for charge in self._charges:
            yield _line(charge.to_json())

    def to_json(self) -> dict[str, Json]:
        """Return sums and losses as a JSON object; amounts are text, in USD."""
        return {
            "total": self.total().to_json(),
            "spent": self.spent.to_json(),
            "agents": {names[0]: sums.to_json() for names, sums in self.totals(By.AGENT).items()},
            "losses": [loss.to_json() for loss in self.losses()],
            "charges": [charge.to_json() for charge in self._charges],
            "epoch_switches": {
                epoch: cost.to_json() for epoch, cost in self.epoch_switches().items()
            },
        }

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"Ledger({len(self._records)} requests, {self.spent} USD)"

    def _tell(self, value: Mapping[str, Json]) -> None:
        if self._on_line is not None:
            self._on_line(_line(value))


def _line(value: Mapping[str, Json]) -> str:
    return json.dumps(value, ensure_ascii=False)
