"""The ledger: every request that was made, what it cost, and sums over any of them.

ledger.py  read first: Ledger, append-only; Charge, for what is no request
totals.py  sums by agent, team, tenant, session, epoch, model; why it was not less
amounts.py sums in which the unknown stays visible
lines.py   the JSON form, one object for each request
"""

from __future__ import annotations

from agentkit.caching.ledger.amounts import AtLeast
from agentkit.caching.ledger.ledger import Charge, Ledger
from agentkit.caching.ledger.totals import By, Loss, Totals, losses, totals

__all__ = ["AtLeast", "By", "Charge", "Ledger", "Loss", "Totals", "losses", "totals"]
