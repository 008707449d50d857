"""What the caches did: records of requests and the report over them.

report.py  RequestRecord and CacheReport: data only; `agentkit.observe` shows it
"""

from __future__ import annotations

from agentkit.caching.report import CacheReport, CacheRow, RequestRecord

__all__ = ["CacheReport", "CacheRow", "RequestRecord"]
