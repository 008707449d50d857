"""Model strings."""

from __future__ import annotations

import pytest

from agentkit.errors import UnknownModel
from agentkit.models import resolve_model
from agentkit.models.local import LocalModel
from agentkit.testing import ScriptedModel


@pytest.mark.parametrize(
    "model", ["local:smollm2", "local:/models/m.gguf", "local:org/name", "local:org/name:m.gguf"]
)
def test_local_strings_name_local_models(model: str) -> None:
    resolved = resolve_model(model)

    assert isinstance(resolved, LocalModel)
    assert resolved.label == model


def test_model_objects_pass_through() -> None:
    model = ScriptedModel([])

    assert resolve_model(model) is model


@pytest.mark.parametrize("model", ["smollm2", "lokal:smollm2", "", "local:", "anthropic:claude", 3])
def test_everything_else_is_refused_and_what_exists_is_listed(model: object) -> None:
    with pytest.raises(UnknownModel, match=r"local:smollm2.*org/name.*ScriptedModel") as caught:
        resolve_model(model)  # type: ignore[arg-type]
    assert repr(model) in str(caught.value)
