"""The models that a plan is made for: no client, no key, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from agentkit import Agent
from agentkit.errors import ConfigurationError
from agentkit.models.hosted.model import HostedModel
from agentkit.models.resolve import resolve_model

AnyHosted: TypeAlias = HostedModel[Any]

_MODELS: Mapping[str, str] = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-6.1-sol",
    "openai-chat": "gpt-6.1-sol",
    "deepseek": "deepseek-flash",
    "gemini": "gemini-3.8-flash",
    "openrouter": "anthropic/claude-sonnet-5-5",
    "xai": "grok-4.7",
    "mistral": "mistral-large-4",
    "groq": "openai/gpt-oss-120b",
    "moonshot": "kimi-k3",
    "alibaba": "qwen3.8-max",
    "vllm": "meta-llama/Llama-3.1-8B-Instruct",
    "sglang": "meta-llama/Llama-3.1-8B-Instruct",
    "trtllm": "meta-llama/Llama-3.1-8B-Instruct",
}
"""By provider, the model that is taken where none is named: a usual one with a known price."""
_SELF_HOSTED = ("vllm", "sglang", "trtllm")
_FIRST = ("anthropic", "openai", "deepseek", "gemini")
_NOWHERE = "http://nowhere.invalid/v1#"
"""Stands for the address of a server that nothing is sent to."""


def models_for(names: Sequence[str], agent: Agent[Any, Any]) -> dict[str, AnyHosted]:
    """Return a model for each name, `provider` or `provider:model`, by `provider:model`.

    A name may be several, with commas between them. Without names: the agent's own model, as it was
    configured, and the large providers.

    Raises:
        ConfigurationError: there is no such provider.
    """
    found: dict[str, AnyHosted] = {}
    names = [each.strip() for name in names for each in name.split(",")]
    if not names:
        own = _own(agent)
        if own is not None:
            found[own.label] = own
        provider = own.adapter.provider.value if own is not None else ""
        names = [name for name in _FIRST if name != provider]
    for name in _MODELS if "all" in names else names:
        label, model = _named(name)
        found.setdefault(label, model)
    return found


def _own(agent: Agent[Any, Any]) -> AnyHosted | None:
    model = agent.model if agent.model is None else resolve_model(agent.model)
    return model if isinstance(model, HostedModel) else None


def _named(name: str) -> tuple[str, AnyHosted]:
    provider, _, model = name.partition(":")
    if provider not in _MODELS:
        known = ", ".join(_MODELS)
        raise ConfigurationError(f"no provider {provider!r}; there are: all, {known}")
    model = model or _MODELS[provider]
    label = f"{provider}:{model}"
    if provider in _SELF_HOSTED and "://" not in model:
        model = _NOWHERE + model
    resolved = resolve_model(f"{provider}:{model}")
    assert isinstance(resolved, HostedModel)
    return label, resolved
