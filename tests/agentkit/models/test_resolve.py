"""Model strings."""

from __future__ import annotations

import pytest

from agentkit.errors import UnknownModel
from agentkit.models import resolve_model
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.resolve import EXAMPLES
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


@pytest.mark.parametrize("model", ["smollm2", "lokal:smollm2", "", "local:", ":sonnet", 3])
def test_everything_else_is_refused_and_what_exists_is_listed(model: object) -> None:
    with pytest.raises(UnknownModel, match=r"local:smollm2.*org/name.*ScriptedModel") as caught:
        resolve_model(model)  # type: ignore[arg-type]
    assert repr(model) in str(caught.value)


@pytest.mark.parametrize("model", ["anthropic:", "anthropic", "openai:", "vllm:"])
def test_a_provider_without_a_model_is_told_what_is_missing(model: str) -> None:
    prefix = model.partition(":")[0]
    with pytest.raises(UnknownModel, match=f'no model named in .* for example "{prefix}:.+"'):
        resolve_model(model)


@pytest.mark.parametrize("model", EXAMPLES)
def test_strings_of_hosted_models_name_them_and_import_no_sdk(model: str) -> None:
    resolved = resolve_model(model)

    assert isinstance(resolved, HostedModel)
    assert resolved.label.rpartition(":")[2] in model


def test_a_server_of_ones_own_needs_its_address() -> None:
    with pytest.raises(UnknownModel, match="does not say where the server is"):
        resolve_model("vllm:org/model")
    with pytest.raises(UnknownModel, match="no model named"):
        resolve_model("vllm:http://host:8000/v1")


def test_an_address_of_another_api_is_given_to_its_client() -> None:
    with pytest.raises(UnknownModel, match="make the SDK's client"):
        resolve_model("anthropic:http://host/v1#claude-sonnet-5-5")


def test_agents_that_name_the_same_hosted_model_share_what_is_known_of_its_cache() -> None:
    assert resolve_model("anthropic:claude-sonnet-5-5") is resolve_model(
        "anthropic:claude-sonnet-5-5"
    )
    assert resolve_model("openai:gpt-6-sol") is not resolve_model("openai-chat:gpt-6-sol")
