"""Where the sources contradict each other: named switches, each with a reasoned default."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


class OpenAiLookup(enum.StrEnum):
    """Which boundaries of a request OpenAI looks up (GPT-5.6 and later)."""

    GUIDE = "guide"
    """The first 2 and the latest 50 explicit breakpoints, and the implicit one."""
    SDK = "sdk"
    """The latest 80 breakpoints."""


class OpenAiKey(enum.StrEnum):
    """What a request without `prompt_cache_key` gets (GPT-5.6 and later)."""

    OPTIONAL = "optional"
    REQUIRED = "required"
    """No key, no caching."""


class TwelveHours(enum.StrEnum):
    """Where OpenAI accepts the 12h lifetime."""

    RESPONSES_ONLY = "responses_only"
    EVERYWHERE = "everywhere"
    NOWHERE = "nowhere"


class LookbackUnit(enum.StrEnum):
    """What Anthropic counts when it looks back from a mark."""

    COLLAPSED_RUNS = "collapsed_runs"
    """Positions: a run of `tool_use` is one, and so is a run of `tool_result`."""
    BLOCKS = "blocks"


class AnthropicMinimums(enum.StrEnum):
    """Which table of minimum prefix lengths holds."""

    DOCS = "docs"
    JULY_SKILL = "july_skill"


class ThinkingTier(enum.StrEnum):
    """What a change of thinking or effort loses at Anthropic."""

    EVERYTHING = "everything"
    MESSAGES = "messages"


class AnthropicRefresh(enum.StrEnum):
    """Which entries a hit keeps alive."""

    HIT_AND_MARKED = "hit_and_marked"
    """The entry that was read, and shorter ones that this request marks too."""
    HIT_ONLY = "hit_only"
    ALL_SHORTER = "all_shorter"


class DiagnosticsField(enum.StrEnum):
    """How Anthropic's `diagnostics` request field is unlocked."""

    PLAIN_FIELD = "plain_field"
    BETA_HEADER = "beta_header"


class GeminiMinimums(enum.StrEnum):
    """Which table of minimum prefix lengths holds."""

    CURRENT = "current"
    OLDER_DOCS = "older_docs"


class GeminiBatchRead(enum.StrEnum):
    """What a cached token costs in a batch."""

    STANDARD = "standard"
    HALF = "half"


class DeepSeekUnit(enum.StrEnum):
    """What a hit at DeepSeek must match in full."""

    PREFIX_UNITS = "prefix_units"
    BLOCKS_OF_64 = "blocks_of_64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """One choice for each contradiction; `REASONS` says why the defaults are what they are."""

    openai_lookup: OpenAiLookup = OpenAiLookup.GUIDE
    openai_reads_earlier_endings: bool = True
    """Whether implicit mode also looks up earlier message endings and the developer block."""
    openai_key: OpenAiKey = OpenAiKey.OPTIONAL
    openai_twelve_hours: TwelveHours = TwelveHours.RESPONSES_ONLY
    anthropic_lookback: LookbackUnit = LookbackUnit.COLLAPSED_RUNS
    anthropic_minimums: AnthropicMinimums = AnthropicMinimums.DOCS
    anthropic_thinking: ThinkingTier = ThinkingTier.EVERYTHING
    anthropic_refresh: AnthropicRefresh = AnthropicRefresh.HIT_AND_MARKED
    anthropic_diagnostics: DiagnosticsField = DiagnosticsField.PLAIN_FIELD
    anthropic_sonnet_5_mid_system: bool = False
    """Whether Sonnet 5 takes system messages in mid-conversation."""
    gemini_minimums: GeminiMinimums = GeminiMinimums.CURRENT
    gemini_batch_read: GeminiBatchRead = GeminiBatchRead.STANDARD
    deepseek_unit: DeepSeekUnit = DeepSeekUnit.PREFIX_UNITS
    vllm_salt_max_chars: int = 128
    """Longest `cache_salt`: 128 or 1024."""


_REASONS = {
    "openai_lookup": (
        "the guide (2026-09-20) is later and more precise than the client docstring (3.57.0)"
    ),
    "openai_reads_earlier_endings": (
        "the guide of 2026-09-20 adds it; pages and measurements of July and August had no fallback"
    ),
    "openai_key": (
        "the guide of 2026-09-20 calls it optional; August pages and Azure want it. A stable key "
        "for each tenant is safe under both"
    ),
    "openai_twelve_hours": (
        "the request type (client 3.57.0) and the guide of 2026-11-04 agree; the type of a Chat "
        "breakpoint allows 12h, and earlier pages know 30m only"
    ),
    "anthropic_lookback": (
        "the newest text (September 2026) and two dated notes; the page of 2026-08-21 counts blocks"
    ),
    "anthropic_minimums": "the documentation of 2026-08-21 is later than the skill of 2026-07-01",
    "anthropic_thinking": (
        "documentation of 2026-08-21: model-specific, models not listed, and it advises to expect "
        "a cold start; July texts said that tools and system stay"
    ),
    "anthropic_refresh": "not documented; the middle way: what a request names, it keeps alive",
    "anthropic_diagnostics": (
        "client 2.14.0 has it outside the beta types; August pages ask for a header"
    ),
    "anthropic_sonnet_5_mid_system": (
        "the documentation leaves Sonnet 5 out; a model table marks it supported. A refusal costs "
        "a request, so the careful reading is the default"
    ),
    "gemini_minimums": "price packages and notes of October 2026 are later than the older pages",
    "gemini_batch_read": "the pricing page as packaged in October 2026; one note halves it",
    "deepseek_unit": "the current guide; 64-token blocks belong to models before V4",
    "vllm_salt_max_chars": (
        "vLLM 0.33.0: the schema says 1024, the validator refuses more than 128; 128 passes both"
    ),
}

REASONS: Mapping[str, str] = MappingProxyType(_REASONS)
"""For each field of `Switches`, why its default was chosen."""
