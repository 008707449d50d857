"""Providers' cache rules and prices, as dated data. No I/O; nothing here decides anything.

lookup.py    read first: policy_for(provider, model, on)
rules.py     what a policy says, one class for each way of caching; terms.py: its words
money.py     rates, price rows, the split of a request's input, its cost; economics.py: formulas
switches.py  contradictions between sources, each with a default and its reason
source.py    evidence and day of a fact; names.py: model names, minimum lengths
anthropic, openai, deepseek, gemini, compatible (with *_prices): the facts themselves
"""

from __future__ import annotations

from agentkit.caching.policy.anthropic import anthropic_policy
from agentkit.caching.policy.compatible import compatible_policy
from agentkit.caching.policy.deepseek import deepseek_policy
from agentkit.caching.policy.economics import (
    break_even_reads,
    keep_alive_pings,
    kv_bytes_per_token,
    padding_pays,
)
from agentkit.caching.policy.gemini import gemini_policy
from agentkit.caching.policy.lookup import policy_for
from agentkit.caching.policy.money import (
    Cost,
    InputSplit,
    LengthTier,
    PeakHours,
    PriceRow,
    Rates,
    Speed,
    Terms,
    cost_of,
)
from agentkit.caching.policy.names import Minimum, plain_name
from agentkit.caching.policy.openai import openai_policy
from agentkit.caching.policy.rules import (
    Affinity,
    AnthropicPolicy,
    CompatiblePolicy,
    DeepSeekPolicy,
    GeminiPolicy,
    Invalidation,
    LaterTools,
    Lookback,
    OpenAiIntervalPolicy,
    OpenAiMarkPolicy,
    Policy,
    Retention,
    Salt,
    TtlChoice,
    UsageField,
)
from agentkit.caching.policy.source import Evidence, Source
from agentkit.caching.policy.switches import (
    REASONS,
    AnthropicMinimums,
    AnthropicRefresh,
    DeepSeekUnit,
    DiagnosticsField,
    GeminiBatchRead,
    GeminiMinimums,
    LookbackUnit,
    OpenAiKey,
    OpenAiLookup,
    Switches,
    ThinkingTier,
    TwelveHours,
)
from agentkit.caching.policy.terms import (
    BlockKind,
    Change,
    Isolation,
    Platform,
    Provider,
    ReadableWhen,
    Section,
    Ttl,
)

__all__ = [
    "REASONS",
    "Affinity",
    "AnthropicMinimums",
    "AnthropicPolicy",
    "AnthropicRefresh",
    "BlockKind",
    "Change",
    "CompatiblePolicy",
    "Cost",
    "DeepSeekPolicy",
    "DeepSeekUnit",
    "DiagnosticsField",
    "Evidence",
    "GeminiBatchRead",
    "GeminiMinimums",
    "GeminiPolicy",
    "InputSplit",
    "Invalidation",
    "Isolation",
    "LaterTools",
    "LengthTier",
    "Lookback",
    "LookbackUnit",
    "Minimum",
    "OpenAiIntervalPolicy",
    "OpenAiKey",
    "OpenAiLookup",
    "OpenAiMarkPolicy",
    "PeakHours",
    "Platform",
    "Policy",
    "PriceRow",
    "Provider",
    "Rates",
    "ReadableWhen",
    "Retention",
    "Salt",
    "Section",
    "Source",
    "Speed",
    "Switches",
    "Terms",
    "ThinkingTier",
    "Ttl",
    "TtlChoice",
    "TwelveHours",
    "UsageField",
    "anthropic_policy",
    "break_even_reads",
    "compatible_policy",
    "cost_of",
    "deepseek_policy",
    "gemini_policy",
    "keep_alive_pings",
    "kv_bytes_per_token",
    "openai_policy",
    "padding_pays",
    "plain_name",
    "policy_for",
]
