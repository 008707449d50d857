"""What the API itself says about a cache miss. Source: client 2.14.0, `Diagnostics`."""

from __future__ import annotations

from collections.abc import Mapping

BETA = "cache-diagnosis-2026-04-07"
"""The header under which documentation of August 2026 has it."""


def cache_note(message: Mapping[str, object]) -> str | None:
    """Return the reason for a miss, e.g. `tools_changed (about 1200 input tokens)`.

    None: nothing was asked, nothing was missed, or the comparison is not finished yet.
    """
    diagnostics = message.get("diagnostics")
    reason = diagnostics.get("cache_miss_reason") if isinstance(diagnostics, dict) else None
    if not isinstance(reason, dict):
        return None
    missed = reason.get("cache_missed_input_tokens")
    about = f" (about {missed} input tokens)" if isinstance(missed, int) else ""
    return f"{reason.get('type')}{about}"
