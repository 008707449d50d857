"""The context: what a model is told, ordered by stability, append-only, and hashed.

tier.py      the tiers and the order in which they lie in a context
segment.py   one frozen piece of context with its canonical bytes and digest
context.py   Context: an append-only chain of segments; fork shares them without a copy
canonical.py the one byte form of JSON, and tagged digests
version.py   a changed front: append what changed, or begin a new epoch, by price
compact.py   a summary from the cache, and the epoch that begins with it; with
             compaction_rule.py, sizes.py, turns.py
provider_edits.py  when a provider's own clearing of tool results is better; prices.py: what counts
lint.py      finds volatile text (clocks, ids, temp paths): lint_patterns.py, lint_days.py
lint_builds.py  compares two builds of an agent; sources.py: the line that supplied a text
This package knows neither tools nor models; the toolset hands in finished bytes, and prices are
numbers that the rules are given. Importing it loads none of the rules.
"""

from __future__ import annotations

from agentkit.context.context import Context
from agentkit.context.lint import VolatileTextWarning
from agentkit.context.segment import Document, Segment, SystemText, ToolList
from agentkit.context.tier import SystemPart, Tier

__all__ = [
    "Context",
    "Document",
    "Segment",
    "SystemPart",
    "SystemText",
    "Tier",
    "ToolList",
    "VolatileTextWarning",
]
