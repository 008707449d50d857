"""The adapters that a plan is made with: no client, no key, no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from agentkit import Agent
from agentkit.caching.policy import Provider
from agentkit.errors import ConfigurationError
from agentkit.models.hosted.wire import Adapter

AnyAdapter: TypeAlias = Adapter[Any]

_MODELS = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-6-sol",
    "openai-chat": "gpt-6-sol",
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
_FIRST = ("anthropic", "openai", "deepseek", "gemini")


def adapters_for(names: Sequence[str], agent: Agent[Any, Any]) -> dict[str, AnyAdapter]:
    """Return an adapter for each name: `provider` or `provider:model`, by `provider:model`.

    Without names: the agent's own model, if a provider serves it, and the large providers.

    Raises:
        ConfigurationError: there is no such provider.
        MissingExtra: its adapter needs a package that is not installed.
    """
    wanted = list(names)
    if not wanted:
        own = agent.model if isinstance(agent.model, str) else ""
        wanted = [own] if own.partition(":")[0] in _MODELS else []
        wanted += [name for name in _FIRST if name != own.partition(":")[0]]
    if "all" in wanted:
        wanted = list(_MODELS)
    pairs = dict.fromkeys(map(_provider_and_model, wanted))
    return {f"{provider}:{model}": _adapter(provider, model) for provider, model in pairs}


def _provider_and_model(name: str) -> tuple[str, str]:
    provider, _, model = name.partition(":")
    if provider not in _MODELS:
        known = ", ".join(_MODELS)
        raise ConfigurationError(f"no provider {provider!r}; there are: all, {known}")
    return provider, model or _MODELS[provider]


def _adapter(provider: str, model: str) -> AnyAdapter:
    match provider:
        case Provider.ANTHROPIC.value:
            from agentkit.models.hosted.anthropic import AnthropicAdapter

            return AnthropicAdapter(model)
        case Provider.OPENAI.value:
            from agentkit.models.hosted.openai_responses import ResponsesAdapter

            return ResponsesAdapter(model)
        case Provider.GEMINI.value:
            from agentkit.models.hosted.gemini import GeminiAdapter

            return GeminiAdapter(model)
        case _:
            from agentkit.models.hosted.openai_chat import ChatAdapter
            from agentkit.models.hosted.openai_chat.profiles import PROFILES

            profile = PROFILES[provider.removesuffix("-chat")]
            url = profile.base_url or "http://nowhere.invalid/v1"
            return ChatAdapter(model, profile=profile, base_url=url)
