"""What a model's tokens cost, also where it does not say."""

from __future__ import annotations

from datetime import UTC, datetime

from agentkit.context.prices import Prices
from agentkit.models.base import CostsNothing, Model, has_prices


def prices_of(model: Model) -> Prices:
    """Return what tokens cost; in relative weights where the model does not know."""
    if has_prices(model):
        return model.prices()
    return Prices(row=None, at=datetime.now(UTC))


def costs_nothing(model: Model) -> bool:
    """Return whether nobody sends a bill for a model, as for those that this machine runs."""
    return isinstance(model, CostsNothing) and model.costs_nothing
