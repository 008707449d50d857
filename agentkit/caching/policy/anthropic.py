"""Anthropic's cache rules. Sources: documentation of 2026-08-21, client 2.14.0, later notes."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal as D

from agentkit.caching.policy.anthropic_prices import PRICES
from agentkit.caching.policy.money import PriceRow, row_for
from agentkit.caching.policy.names import Minimum, minimum_for, plain_name
from agentkit.caching.policy.rules import (
    AnthropicPolicy,
    Invalidation,
    LaterTools,
    Lookback,
    TtlChoice,
)
from agentkit.caching.policy.source import assumed, docs, note, package
from agentkit.caching.policy.switches import AnthropicMinimums, Switches, ThinkingTier
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


def anthropic_policy(
    model: str,
    on: date,
    *,
    platform: Platform = Platform.DIRECT,
    switches: Switches | None = None,
) -> AnthropicPolicy:
    """Return Anthropic's rules for a model on a day. Unknown models have no minimum and price."""
    switches = switches or Switches()
    name = plain_name(model)
    minimums: tuple[Minimum, ...] = _MINIMUMS
    if switches.anthropic_minimums is AnthropicMinimums.JULY_SKILL:
        minimums = _JULY_MINIMUMS + minimums
    return AnthropicPolicy(
        provider=Provider.ANTHROPIC,
        model=name,
        platform=platform,
        on=on,
        switches=switches,
        wire_order=(Section.TOOLS, Section.SYSTEM, Section.MESSAGES),  # docs 2026-08-21
        # docs 2026-08-21: organisation on Bedrock and Google Cloud, workspace elsewhere
        isolation=Isolation.ORGANIZATION if platform in _CLOUDS else Isolation.WORKSPACE,
        readable=ReadableWhen.RESPONSE_BEGINS,  # docs 2026-08-21
        affinity=None,
        minimum=minimum_for(minimums, name, platform, on),
        prices=_on_platform(row_for(PRICES, name, on), platform),
        invalidations=_invalidations(switches),
        mark_budget=4,  # docs 2026-08-21
        markable=MARKABLE,
        lookback=Lookback(size=20, unit=switches.anthropic_lookback),  # docs 2026-08-21
        ttls=(  # docs 2026-08-21, pricing
            TtlChoice(ttl=Ttl.FIVE_MINUTES, write_multiplier=D("1.25")),
            TtlChoice(ttl=Ttl.ONE_HOUR, write_multiplier=D(2)),
        ),
        longer_ttl_first=True,  # docs 2026-08-21
        default_ttl=Ttl.FIVE_MINUTES,  # sdk 2.14.0
        ttl_from_request_start=True,  # docs 2026-08-21
        refreshes_on_hit=True,  # docs 2026-08-21
        automatic_marks=platform is not Platform.BEDROCK_LEGACY,  # docs 2026-08-21
        server_tool_ttl=Ttl.FIVE_MINUTES,  # docs 2026-08-21
        # docs 2026-08-21, thinking page. An unknown model is taken for a new one.
        keeps_thinking=name not in _STRIPS_THINKING,
        thinking_is_bound=name in _BOUND_THINKING,  # sdk 2.14.0; model pages of October 2026
        mid_conversation_system=_takes_mid_system(name, switches),
        default_effort="high",  # docs 2026-08-21, effort page
        tool_prompt_tokens=dict(_TOOL_PROMPT_TOKENS).get(name),
        later_tools=_LATER_TOOLS if _takes_later_tools(name, platform) else None,
    )


MARKABLE = frozenset(BlockKind) - {
    # sdk 2.14.0: these have no cache_control; a deferred tool and a message with clear_at are
    # refused with it (docs 2026-08-21; note 2026-10-01)
    BlockKind.THINKING,
    BlockKind.REDACTED_THINKING,
    BlockKind.DEFERRED_TOOL,
    BlockKind.CLEARED_SYSTEM,
    # refused where code in the sandbox called the tool (reports of 2026, no documentation)
    BlockKind.PROGRAMMATIC_TOOL_USE,
    BlockKind.PROGRAMMATIC_TOOL_RESULT,
    # not part of this API
    BlockKind.INSTRUCTIONS,
    BlockKind.ADDITIONAL_TOOLS,
    BlockKind.AUDIO,
}
"""Block kinds that accept `cache_control`. Empty text does not either."""

_CLOUDS = frozenset([Platform.BEDROCK, Platform.BEDROCK_LEGACY, Platform.GOOGLE_CLOUD])

_MINIMUMS = (
    Minimum(
        models=("claude-opus-5", "claude-fable-5", "claude-mythos-5"),
        n_tokens=512,
        source=docs("2026-08-21"),
    ),
    Minimum(
        models=("claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1", "claude-mythos-5-1"),
        n_tokens=512,
        source=note("2026-10-01"),
    ),
    Minimum(models=("claude-haiku-5-5",), n_tokens=512, source=package("2026-11-29")),
    Minimum(
        models=(
            "claude-opus-4-8",
            "claude-sonnet-5",
            "claude-sonnet-4-6",
            "claude-sonnet-4-5",
            "claude-opus-4-1",
            "claude-opus-4",
            "claude-sonnet-4",
        ),
        n_tokens=1024,
        source=docs("2026-08-21"),
    ),
    Minimum(
        models=("claude-opus-4-7", "claude-mythos-preview", "claude-3-5-haiku"),
        n_tokens=2048,
        source=docs("2026-08-21"),
    ),
    Minimum(
        models=("claude-opus-4-7",),
        n_tokens=4096,
        platforms=(Platform.BEDROCK, Platform.BEDROCK_LEGACY),
        source=note("2026-10-01"),
    ),
    Minimum(
        models=("claude-opus-4-6", "claude-opus-4-5", "claude-haiku-4-5"),
        n_tokens=4096,
        source=docs("2026-08-21"),
    ),
    # Released on 2026-11-09, minimum not published; every model of the generation has 512.
    Minimum(
        models=("claude-fable-5-2", "claude-mythos-5-2"),
        n_tokens=512,
        source=assumed("2026-11-29"),
    ),
)

# max() takes the first of equals, so these rows win when they are put in front.
_JULY_MINIMUMS = (
    Minimum(
        models=("claude-opus-4-8", "claude-opus-4-7"), n_tokens=4096, source=docs("2026-07-01")
    ),
    Minimum(
        models=("claude-fable-5", "claude-sonnet-4-6"), n_tokens=2048, source=docs("2026-07-01")
    ),
)

# docs 2026-08-21: earlier Opus and Sonnet, and Haiku through 4.5
_STRIPS_THINKING = frozenset(
    [
        "claude-opus-4-1",
        "claude-opus-4",
        "claude-sonnet-4-5",
        "claude-sonnet-4",
        "claude-3-7-sonnet",
        "claude-haiku-4-5",
    ]
)

_BOUND_THINKING = frozenset(
    [
        "claude-fable-5-1",
        "claude-mythos-5-1",
        "claude-fable-5-2",
        "claude-mythos-5-2",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
    ]
)

# docs 2026-08-21 and note 2026-10-01; the 5.2 models follow 5.1 (assumed)
_MID_SYSTEM = frozenset(
    [
        "claude-opus-4-8",
        "claude-opus-5",
        "claude-fable-5",
        "claude-mythos-5",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
        "claude-fable-5-1",
        "claude-mythos-5-1",
        "claude-fable-5-2",
        "claude-mythos-5-2",
    ]
)

# docs 2026-09-28: a beta of the Claude API alone, on all models that take system messages in
# mid-conversation
_LATER_TOOLS = LaterTools(
    form="system_message",
    beta="inline-tools-2026-09-15",
    source=docs("2026-09-28"),
)

# docs 2026-08-21, pricing: (auto or none, any or tool)
_TOOL_PROMPT_TOKENS = (("claude-opus-5", (286, 406)), ("claude-sonnet-5", (354, 474)))

_RULES = (  # docs 2026-08-21; tools, system and messages themselves are in the prefix
    Invalidation(change=Change.MODEL, lost_from=Section.TOOLS),
    Invalidation(change=Change.WEB_TOOLS, lost_from=Section.SYSTEM),
    Invalidation(change=Change.CITATIONS, lost_from=Section.SYSTEM),
    Invalidation(change=Change.SPEED, lost_from=Section.SYSTEM),
    Invalidation(change=Change.TOOL_CHOICE, lost_from=Section.MESSAGES),
    Invalidation(change=Change.PARALLEL_TOOLS, lost_from=Section.MESSAGES),
    Invalidation(change=Change.IMAGES, lost_from=Section.MESSAGES),
    # docs 2026-08-21 name these as affecting the prompt, without the tier; assumed
    Invalidation(change=Change.OUTPUT_FORMAT, lost_from=Section.MESSAGES),
    Invalidation(change=Change.CONTEXT_MANAGEMENT, lost_from=Section.MESSAGES),
    Invalidation(change=Change.BETAS, lost_from=Section.MESSAGES),
    # docs 2026-09-28: where the list of tools has none that is shown
    Invalidation(change=Change.FIRST_TOOLS_LATER, lost_from=Section.TOOLS),
)


def _invalidations(switches: Switches) -> tuple[Invalidation, ...]:
    everything = switches.anthropic_thinking is ThinkingTier.EVERYTHING
    return _RULES + tuple(
        Invalidation(
            change=change,
            lost_from=Section.MESSAGES,
            or_from=Section.TOOLS if everything else None,
        )
        for change in (Change.THINKING, Change.EFFORT)
    )


def _takes_mid_system(model: str, switches: Switches) -> bool:
    if model == "claude-sonnet-5":
        return switches.anthropic_sonnet_5_mid_system
    return model in _MID_SYSTEM


def _takes_later_tools(model: str, platform: Platform) -> bool:
    return platform is Platform.DIRECT and model in _MID_SYSTEM


def _on_platform(row: PriceRow | None, platform: Platform) -> PriceRow | None:
    if row is None or platform in _CLOUDS:
        return row
    return replace(row, regional_factor=None)  # regional endpoints exist on the clouds only
