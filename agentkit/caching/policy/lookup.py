"""The one way to ask for a policy."""

from __future__ import annotations

from datetime import date

from agentkit.caching.policy.anthropic import anthropic_policy
from agentkit.caching.policy.compatible import compatible_policy
from agentkit.caching.policy.deepseek import deepseek_policy
from agentkit.caching.policy.gemini import gemini_policy
from agentkit.caching.policy.openai import openai_policy
from agentkit.caching.policy.rules import Policy
from agentkit.caching.policy.switches import Switches
from agentkit.caching.policy.terms import Platform, Provider
from agentkit.errors import ConfigurationError


def policy_for(
    provider: Provider | str,
    model: str,
    on: date,
    *,
    platform: Platform = Platform.DIRECT,
    switches: Switches | None = None,
) -> Policy:
    """Return the cache rules and prices of a model at a provider on a day.

    What nobody publishes for a model is None (`minimum`, `prices`), never 0 and never a guess.

    Raises:
        ConfigurationError: there is no such provider.
        UnknownModel: an OpenAI model's name does not say to which generation it belongs.
    """
    match _provider(provider):
        case Provider.ANTHROPIC:
            return anthropic_policy(model, on, platform=platform, switches=switches)
        case Provider.OPENAI:
            return openai_policy(model, on, platform=platform, switches=switches)
        case Provider.DEEPSEEK:
            return deepseek_policy(model, on, platform=platform, switches=switches)
        case Provider.GEMINI:
            return gemini_policy(model, on, platform=platform, switches=switches)
        case compatible:
            return compatible_policy(compatible, model, on, platform=platform, switches=switches)


def _provider(name: Provider | str) -> Provider:
    try:
        return Provider(name)
    except ValueError:
        known = ", ".join(Provider)
        raise ConfigurationError(
            f"no cache policy for provider {name!r}; there are: {known}"
        ) from None
