"""What of a model's cache policy the adapter must know to write it down and to read it back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from agentkit.caching.policy import (
    CompatiblePolicy,
    DeepSeekPolicy,
    OpenAiMarkPolicy,
    Policy,
    Provider,
    UsageField,
    policy_for,
)
from agentkit.errors import UnknownModel
from agentkit.models.hosted.openai_chat.profiles import Profile

_IDLE_S = 600.0
"""How long an unused entry is believed to live where the policy does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRules:
    """None of these depends on the day."""

    usage: UsageField
    """Where reads and writes are."""
    takes_marks: bool
    isolating: frozenset[str]
    """Body fields that keep caches of different values apart."""
    idle_s: float
    """Life of an entry without use."""


def wire_rules(profile: Profile, model: str) -> WireRules:
    """Return the rules of a model. Of one that nobody knows, the profile is believed."""
    policy = _policy(profile.provider, model)
    compatible = policy if isinstance(policy, CompatiblePolicy) else None
    usage = profile.usage or (compatible.usage if compatible else None)
    return WireRules(
        usage=usage or UsageField(path="usage.prompt_tokens_details.cached_tokens"),
        takes_marks=_takes_marks(policy),
        isolating=_isolating(policy),
        idle_s=(compatible.idle_s if compatible else None) or _IDLE_S,
    )


def _policy(provider: Provider, model: str) -> Policy | None:
    try:
        return policy_for(provider, model, datetime.now(UTC).date())
    except UnknownModel:
        return None


def _takes_marks(policy: Policy | None) -> bool:
    if isinstance(policy, CompatiblePolicy):
        return policy.mark_budget > 0
    return isinstance(policy, OpenAiMarkPolicy)


def _isolating(policy: Policy | None) -> frozenset[str]:
    match policy:
        case CompatiblePolicy(salt=salt) if salt is not None:
            return frozenset((salt.field,))
        case DeepSeekPolicy(partition_field=name):
            return frozenset((name,))
        case _:
            return frozenset()
