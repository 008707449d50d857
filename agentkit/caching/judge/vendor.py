"""What the vendors' own diagnostics mean, in our words.

Sources: client packages anthropic 2.14.0 (`CacheMissReason`) and openai 3.57.0
(`PromptCacheDiagnostics`). Other reasons, such as `unavailable`, say nothing about the cause.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from agentkit.caching.policy import Change, Section
from agentkit.caching.verdict import Cause

Said: TypeAlias = Section | Change | Cause
"""A section whose blocks changed, a setting that changed, or a cause as it is."""


def vendor_says(note: str | None) -> Said | None:
    """Return what the vendor blames; None if it said nothing of use."""
    if note is None:
        return None
    return next((_REASONS[word] for word in _WORD.findall(note) if word in _REASONS), None)


def vendor_lost(note: str | None) -> int:
    """Return how many tokens the vendor says were lost (its own estimate); 0 if it does not."""
    found = None if note is None else _NUMBER.search(note)
    return 0 if found is None else int(found[0])


_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[a-z_]+")

_REASONS: dict[str, Said] = {
    # anthropic 2.14.0; `model_changed` also means the speed
    "model_changed": Change.MODEL,
    "system_changed": Section.SYSTEM,
    "tools_changed": Section.TOOLS,
    "messages_changed": Section.MESSAGES,
    # openai 3.57.0
    "input_changed": Section.MESSAGES,
    "prompt_cache_key_changed": Change.CACHE_KEY,
    "text_format_changed": Change.OUTPUT_FORMAT,
    "reasoning_effort_changed": Change.EFFORT,
    "verbosity_changed": Change.VERBOSITY,
    "service_tier_changed": Change.SERVICE_TIER,
    "context_compacted": Cause.COMPACTED,
}
