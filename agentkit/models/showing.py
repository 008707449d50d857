"""Whether a model can be shown an image or a document that a tool has returned.

Asked before it becomes part of a conversation: from then on every request would hold it.
"""

from __future__ import annotations

from typing import Protocol

from agentkit.blocks import File, Image
from agentkit.models.base import Model
from agentkit.models.routes import leaves


class Shows(Protocol):
    """A model, or what speaks to its provider, that says which attachments it can be shown."""

    def shows(self, block: Image | File) -> bool:
        """Whether the model can be shown this."""
        ...


def shows(model: Model, block: Image | File) -> bool:
    """Whether whoever may answer in the model's place can be shown this, too.

    A model that does not say so can, as far as anybody knows.
    """
    return all(_shows(leaf, block) for leaf in leaves(model))


def _shows(leaf: object, block: Image | File) -> bool:
    says = getattr(leaf, "shows", None)
    return bool(says(block)) if callable(says) else True
