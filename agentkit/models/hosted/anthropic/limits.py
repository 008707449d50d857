"""How long an answer may be where nobody says it: the API demands a number."""

from __future__ import annotations

from agentkit.caching.policy import plain_name

_DEFAULT = 32_000
"""Enough for any turn of an agent, within every model's limit but those below, and a bound on what
one turn can cost. Not part of what entries are keyed by."""

_SMALLER = {
    # model pages of August 2026
    "claude-3-5-haiku": 8_192,
    "claude-3-haiku": 4_096,
}

_BESIDE_BUDGET = 16_000
"""Left for the answer itself when thinking has a budget, which counts toward the bound."""


def default_max_tokens(model: str, thinking_budget: int = 0) -> int:
    """Return the bound for a turn of this model."""
    most = _SMALLER.get(plain_name(model), _DEFAULT)
    return max(most, thinking_budget + _BESIDE_BUDGET) if thinking_budget else most
