"""Caching: what is planned, what came of it, and what it cost.

report.py   RequestRecord and CacheReport: what a run leaves behind; `agentkit.observe` shows it
ledger/     every request with its money, and sums by agent, tenant, session, model
verdict.py  one request: planned, paid, explained; judge/ finds the cause
prices.py   PriceBook: prices by day, and your own
options.py  what an app may say about caching
policy/ plan/ simulate/ track/  the rules, the planner, the simulators, what is known while it runs
"""

from __future__ import annotations

from agentkit.caching.ledger import By, Ledger
from agentkit.caching.prices import PriceBook
from agentkit.caching.report import CacheReport, CacheRow, RequestRecord
from agentkit.caching.verdict import Cause, Verdict

__all__ = [
    "By",
    "CacheReport",
    "CacheRow",
    "Cause",
    "Ledger",
    "PriceBook",
    "RequestRecord",
    "Verdict",
]
