"""Models that stand for others, such as `FallbackModel`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from agentkit.models.base import Model


@runtime_checkable
class Routes(Protocol):
    """A model that has others answer."""

    @property
    def models(self) -> tuple[Model, ...]:
        """Those that may answer, the preferred one first."""
        ...


def leaves(model: Model) -> tuple[Model, ...]:
    """Return the models that may answer a request: by default just this one."""
    if not isinstance(model, Routes):
        return (model,)
    return tuple(leaf for each in model.models for leaf in leaves(each))


def preferred(model: Model) -> Model:
    """Return whom a new conversation is asked of, as long as nothing fails."""
    return leaves(model)[0]
