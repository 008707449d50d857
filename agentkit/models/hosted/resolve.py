"""Model strings of hosted models and of servers: `anthropic:...`, `vllm:http://host:8000/v1#...`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from agentkit.errors import UnknownModel
from agentkit.models.hosted.model import HostedModel

_EXAMPLES: Mapping[str, str] = {
    "anthropic": "anthropic:claude-sonnet-5-5",
    "openai": "openai:gpt-6.1-sol",
    "openai-chat": "openai-chat:gpt-6.1-sol",
    "gemini": "gemini:gemini-3.8-flash",
    "deepseek": "deepseek:deepseek-flash",
    "openrouter": "openrouter:anthropic/claude-sonnet-5-5",
    "xai": "xai:grok-4.7",
    "mistral": "mistral:mistral-large-4",
    "groq": "groq:openai/gpt-oss-120b",
    "moonshot": "moonshot:kimi-k3",
    "alibaba": "alibaba:qwen3.8-max",
    "vllm": "vllm:http://host:8000/v1#org/model",
    "sglang": "sglang:http://host:30000/v1#org/model",
    "trtllm": "trtllm:http://host:8000/v1#org/model",
}
"""One string for each prefix."""

EXAMPLES = tuple(_EXAMPLES.values())


class HostedModels:
    """One model for each model string, whoever names it first. Safe from any thread.

    What a model knows of its provider's cache is worth more the more agents share it: siblings wait
    for each other, and a changed prefix is compared with the one that was sent before.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[str, HostedModel[Any]] = {}

    def get(self, prefix: str, rest: str) -> HostedModel[Any] | None:
        """Return the model that `prefix:rest` names; None where the prefix is not one of ours.

        Raises:
            UnknownModel: the rest of the string is of no use.
        """
        name = f"{prefix}:{rest}"
        with self._lock:
            if name not in self._models:
                made = make_model(prefix, rest)
                if made is None:
                    return None
                self._models[name] = made
            return self._models[name]


def hosted_models() -> HostedModels:
    """Return the hosted models of this process.

    This is process-wide state on purpose, as the engines of local models are: a provider's cache is
    one for all agents of the process, and so is what is known of it.
    """
    return _MODELS


def make_model(prefix: str, rest: str) -> HostedModel[Any] | None:
    """Return a new model that `prefix:rest` names; None where the prefix is not one of ours.

    No SDK is imported and nothing is connected before the first request.

    Raises:
        UnknownModel: the rest of the string is of no use.
    """
    if prefix not in _EXAMPLES:
        return None
    base_url, model = _split(prefix, rest)
    adapter: Any
    match prefix:
        case "anthropic" if base_url is None:
            from agentkit.models.hosted.anthropic import AnthropicAdapter

            adapter = AnthropicAdapter(model)
        case "openai" if base_url is None:
            from agentkit.models.hosted.openai_responses import ResponsesAdapter

            adapter = ResponsesAdapter(model)
        case "gemini" if base_url is None:
            from agentkit.models.hosted.gemini import GeminiAdapter

            adapter = GeminiAdapter(model)
        case "anthropic" | "openai" | "gemini":
            raise UnknownModel(
                f"a URL cannot stand in the model string {prefix}:{rest!r}; make the SDK's client "
                f"with it and give HostedModel(...Adapter({model!r}, client=client))"
            )
        case _:
            adapter = _chat_adapter(prefix, model, base_url)
    return HostedModel(adapter)


def _chat_adapter(prefix: str, model: str, base_url: str | None) -> Any:
    from agentkit.models.hosted.openai_chat import ChatAdapter
    from agentkit.models.hosted.openai_chat.profiles import PROFILES

    profile = PROFILES["openai" if prefix == "openai-chat" else prefix]
    if profile.is_self_hosted and base_url is None:
        raise UnknownModel(
            f"the model string {prefix}:{model!r} does not say where the server is; "
            f'write for example "{_EXAMPLES[prefix]}"'
        )
    return ChatAdapter(model, profile=profile, base_url=base_url)


def _split(prefix: str, rest: str) -> tuple[str | None, str]:
    """Return URL and model of `http://host/v1#model`, or None and the model."""
    url, model = None, rest
    if rest.startswith(("http://", "https://")):
        url, _, model = rest.partition("#")
    if not model:
        raise UnknownModel(
            f'no model named in {prefix + ":" + rest!r}; write for example "{_EXAMPLES[prefix]}"'
        )
    return url, model


_MODELS = HostedModels()
