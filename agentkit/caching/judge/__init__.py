"""The judge: what a request cost against its plan, and why it was not less. Pure.

request.py  read first: judge(); remembered(): what the next request should extend
split.py    the provider's counts as an InputSplit, or why there is none
causes.py   why less was read than could have been
changes.py  the facts, and which of our own changes loses what
vendor.py   what the vendors' own diagnostics mean
bill.py     money: paid, uncached, planned, lost
"""

from __future__ import annotations

from agentkit.caching.judge.request import judge, remembered

__all__ = ["judge", "remembered"]
