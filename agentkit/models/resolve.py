"""Model strings."""

from __future__ import annotations

from agentkit.errors import UnknownModel
from agentkit.models.base import Model

_KNOWN = (
    '"local:smollm2" (bundled), "local:/path/to/model.gguf" or a folder, "local:org/name" '
    '(hub id), "runtime:http://host:8321" (an agentkit-runtime server), '
    '"anthropic:...", "openai:...", "openai-chat:...", "gemini:...", "deepseek:...", '
    '"openrouter:...", "xai:...", "mistral:...", "groq:...", "moonshot:...", "alibaba:...", '
    '"vllm:http://host:8000/v1#model" (also sglang, trtllm), '
    "or a model object such as agentkit.testing.ScriptedModel"
)


def resolve_model(model: str | Model) -> Model:
    """Return the model that a string names; a model object is returned as it is. Loads nothing yet.

    Raises:
        UnknownModel: the string names nothing we know.
    """
    if not isinstance(model, str):
        if isinstance(model, Model):
            return model
        raise UnknownModel(f"{model!r} is no model; use {_KNOWN}")
    provider, colon, name = model.partition(":")
    if provider == "local" and name:
        from agentkit.models.local import LocalModel

        return LocalModel(name)
    if provider == "runtime" and name:
        from agentkit.models.runtime import runtime_models

        return runtime_models().get(name)
    from agentkit.models.hosted.resolve import hosted_models

    if (hosted := hosted_models().get(provider, name)) is not None:
        return hosted
    if provider in ("local", "runtime"):
        problem = "no model named in" if colon else "no provider in"
    else:
        problem = f"unknown provider {provider!r} in" if colon else "no provider in"
    raise UnknownModel(f"{problem} model string {model!r}; use {_KNOWN}")
