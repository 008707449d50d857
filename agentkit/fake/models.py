"""`/v1/models`: the models whose prices are known."""

from __future__ import annotations

from typing import Any

from agentkit.caching.policy import Provider
from agentkit.caching.policy.anthropic_prices import PRICES as ANTHROPIC_PRICES
from agentkit.caching.policy.openai_prices import PRICES as OPENAI_PRICES

_CREATED = 1_764_374_400
"""2025-11-29, for all: when a model came out has no meaning here."""


def model_list(provider: Provider) -> dict[str, Any]:
    """Return the list as the provider's API has it."""
    if provider is Provider.ANTHROPIC:
        names = sorted({name for row in ANTHROPIC_PRICES for name in row.models})
        created = "2025-11-29T00:00:00Z"
        data = [
            {"type": "model", "id": name, "display_name": name, "created_at": created}
            for name in names
        ]
        return {
            "data": data,
            "has_more": False,
            "first_id": names[0] if names else None,
            "last_id": names[-1] if names else None,
        }
    names = sorted({name for row in OPENAI_PRICES for name in row.models})
    return {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": _CREATED, "owned_by": "fake"}
            for name in names
        ],
    }
