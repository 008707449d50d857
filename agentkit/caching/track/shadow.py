"""A simulator of the provider's cache beside the real one: what it ought to hold by now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any, assert_never

from agentkit.caching.policy import (
    AnthropicPolicy,
    CompatiblePolicy,
    DeepSeekPolicy,
    GeminiPolicy,
    Minimum,
    OpenAiIntervalPolicy,
    OpenAiMarkPolicy,
    Platform,
    Policy,
    Provider,
    Switches,
    policy_for,
)
from agentkit.caching.policy.source import assumed
from agentkit.caching.prices import PriceBook
from agentkit.caching.simulate.anthropic import SimulatedAnthropic
from agentkit.caching.simulate.cache import SimulatedCache
from agentkit.caching.simulate.clock import Clock
from agentkit.caching.simulate.compatible import SimulatedCompatible
from agentkit.caching.simulate.deepseek import SimulatedDeepSeek
from agentkit.caching.simulate.gemini import SimulatedGemini
from agentkit.caching.simulate.openai import SimulatedOpenAi

_UNKNOWN_MINIMUM = 1_024
"""The commonest minimum. Too low, a mark does nothing; too high, nothing would be cached."""


class PolicyBook:
    """The rules of one model, day by day. A minimum that nobody published is assumed."""

    def __init__(
        self,
        provider: Provider,
        model: str,
        *,
        platform: Platform,
        switches: Switches,
        prices: PriceBook | None = None,
    ) -> None:
        self._provider = provider
        self._model = model
        self._platform = platform
        self._switches = switches
        self._prices = prices or PriceBook()
        self._days: dict[date, Policy] = {}

    def on(self, day: date) -> Policy:
        """Return the rules of a day.

        Raises:
            UnknownModel: the model's name does not say which rules hold.
        """
        if day not in self._days:
            policy = policy_for(
                self._provider,
                self._model,
                day,
                platform=self._platform,
                switches=self._switches,
            )
            self._days = {day: self._prices.applied(_with_minimum(policy))}
        return self._days[day]


def shadow_of(policies: PolicyBook, *, clock: Clock) -> SimulatedCache:
    """Return a simulator that keeps to these rules."""
    policy = policies.on(clock().date())

    # The rules of another day are of the same class: it follows from the model's name.
    def policy_of(_: str, day: date) -> Any:
        return policies.on(day)

    of_day: Callable[[str, date], Any] = policy_of
    match policy:
        case AnthropicPolicy():
            return SimulatedAnthropic(clock=clock, policy_of=of_day)
        case OpenAiMarkPolicy() | OpenAiIntervalPolicy():
            return SimulatedOpenAi(clock=clock, policy_of=of_day)
        case DeepSeekPolicy():
            return SimulatedDeepSeek(clock=clock, policy_of=of_day)
        case GeminiPolicy():
            return SimulatedGemini(clock=clock, policy_of=of_day)
        case CompatiblePolicy():
            return SimulatedCompatible(clock=clock, policy_of=of_day)
        case _:
            assert_never(policy)


def _with_minimum(policy: Policy) -> Policy:
    if policy.minimum is not None or isinstance(policy, CompatiblePolicy):
        return policy
    guess = Minimum(models=(policy.model,), n_tokens=_UNKNOWN_MINIMUM, source=assumed("2026-11-29"))
    return replace(policy, minimum=guess)
