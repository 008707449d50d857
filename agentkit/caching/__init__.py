"""Caching: what is planned, what came of it, and what it cost. The contract is docs/caching.md.

policy/     the providers' rules and prices, as data with dates      reads nothing else
request.py  a prompt as caches see it: blocks, identity, marks       chain.py: keys of its prefixes
plan/       pure: from a draft, a policy and what was written to marks, keys, hints and a price
track/      while it runs: what the provider ought to hold, who waits for whom, what is kept alive
simulate/   the providers' caches, with a clock of their own; oracle.py: the least possible cost
verdict.py  one request: planned, paid, explained                    judge/: finds the cause
report.py   RequestRecord and CacheReport: what a run leaves behind  observe/ shows it
ledger/     every request with its money, and sums by agent, tenant, session, model
prices.py   PriceBook: your own prices, ours, genai-prices           options.py: what an app may say
times.py    real and virtual time                                    tokens.py: estimates
recent.py   a mapping that stays small in a process that never ends
difference.py, iterations.py  where two requests part; requests that are several for the provider
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
