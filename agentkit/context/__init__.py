"""The context: what a model is told, ordered by stability, append-only, and hashed.

tier.py      the tiers and the order in which they lie in a context
segment.py   one frozen piece of context with its canonical bytes and digest
context.py   Context: an append-only chain of segments; fork shares them without a copy
canonical.py the one byte form of JSON, and tagged digests
lint.py      finds volatile text (clocks, ids, temp paths) in the stable tiers
This package knows neither tools nor models nor prices; the toolset hands in finished bytes.
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
