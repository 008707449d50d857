"""The rules that planner, ledger and simulators read, against what the providers document."""

from __future__ import annotations

from dataclasses import fields
from datetime import date
from decimal import Decimal

import pytest

from agentkit.caching.policy import (
    REASONS,
    AnthropicMinimums,
    AnthropicPolicy,
    BlockKind,
    CompatiblePolicy,
    DeepSeekPolicy,
    Evidence,
    GeminiMinimums,
    GeminiPolicy,
    Isolation,
    LookbackUnit,
    OpenAiIntervalPolicy,
    OpenAiLookup,
    OpenAiMarkPolicy,
    Platform,
    Provider,
    Section,
    Switches,
    ThinkingTier,
    Ttl,
    anthropic_policy,
    compatible_policy,
    gemini_policy,
    openai_policy,
    plain_name,
    policy_for,
)
from agentkit.errors import ConfigurationError, UnknownModel

TODAY = date(2026, 11, 29)


@pytest.mark.parametrize(
    ("model", "n_tokens"),
    [
        ("claude-opus-5", 512),
        ("claude-opus-5-5", 512),
        ("claude-haiku-5-5", 512),
        ("claude-fable-5-2", 512),
        ("claude-opus-4-8", 1024),
        ("claude-sonnet-4-6", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-3-5-haiku-20241022", 2048),
        ("claude-opus-4-6", 4096),
        ("claude-haiku-4-5-20251001", 4096),
        ("claude-nobody-9", None),
    ],
)
def test_anthropic_minimums_are_those_of_its_table(model: str, n_tokens: int | None) -> None:
    assert anthropic_policy(model, TODAY).minimum_tokens == n_tokens


def test_bedrock_has_its_own_minimum_for_opus_4_7() -> None:
    policy = anthropic_policy("eu.anthropic.claude-opus-4-7-v1:0", TODAY, platform=Platform.BEDROCK)
    assert policy.minimum_tokens == 4096


def test_the_july_minimums_are_behind_a_switch() -> None:
    july = Switches(anthropic_minimums=AnthropicMinimums.JULY_SKILL)
    found = [
        anthropic_policy(model, TODAY, switches=july).minimum_tokens
        for model in ("claude-opus-4-8", "claude-opus-4-7", "claude-fable-5", "claude-sonnet-4-5")
    ]
    assert found == [4096, 4096, 2048, 1024]


def test_an_assumed_minimum_says_that_it_is_assumed() -> None:
    minimum = anthropic_policy("claude-fable-5-2", TODAY).minimum
    assert minimum is not None
    assert minimum.source.evidence is Evidence.ASSUMED


def test_anthropic_marks_lie_within_the_documented_limits() -> None:
    policy = anthropic_policy("claude-sonnet-5-5", TODAY)
    assert (policy.mark_budget, policy.lookback.size) == (4, 20)
    assert policy.lookback.unit is LookbackUnit.COLLAPSED_RUNS
    assert [(choice.ttl, choice.write_multiplier) for choice in policy.ttls] == [
        (Ttl.FIVE_MINUTES, Decimal("1.25")),
        (Ttl.ONE_HOUR, Decimal(2)),
    ]
    assert policy.longer_ttl_first
    assert policy.ttl_from_request_start
    assert policy.wire_order == (Section.TOOLS, Section.SYSTEM, Section.MESSAGES)


def test_thinking_deferred_tools_and_cleared_messages_cannot_carry_a_mark() -> None:
    markable = anthropic_policy("claude-sonnet-5-5", TODAY).markable
    assert BlockKind.TOOL in markable
    assert BlockKind.TOOL_RESULT in markable
    assert not markable & {
        BlockKind.THINKING,
        BlockKind.REDACTED_THINKING,
        BlockKind.DEFERRED_TOOL,
        BlockKind.CLEARED_SYSTEM,
    }


@pytest.mark.parametrize(
    ("platform", "isolation"),
    [
        (Platform.DIRECT, Isolation.WORKSPACE),
        (Platform.AZURE, Isolation.WORKSPACE),
        (Platform.BEDROCK, Isolation.ORGANIZATION),
        (Platform.GOOGLE_CLOUD, Isolation.ORGANIZATION),
    ],
)
def test_anthropic_isolates_by_workspace_except_on_two_clouds(
    platform: Platform, isolation: Isolation
) -> None:
    assert anthropic_policy("claude-opus-5", TODAY, platform=platform).isolation is isolation


def test_legacy_bedrock_takes_no_automatic_marks() -> None:
    assert anthropic_policy("claude-opus-5", TODAY).automatic_marks
    legacy = anthropic_policy("claude-opus-4-6", TODAY, platform=Platform.BEDROCK_LEGACY)
    assert not legacy.automatic_marks


def test_old_thinking_is_stripped_through_haiku_4_5_and_bound_on_the_newest_models() -> None:
    models = ("claude-haiku-4-5", "claude-sonnet-4-6", "claude-haiku-5-5", "claude-opus-5-5")
    policies = [anthropic_policy(model, TODAY) for model in models]
    assert [policy.keeps_thinking for policy in policies] == [False, True, True, True]
    assert [policy.thinking_is_bound for policy in policies] == [False, False, False, True]


def test_sonnet_5_takes_system_messages_only_under_a_switch() -> None:
    lenient = Switches(anthropic_sonnet_5_mid_system=True)
    assert anthropic_policy("claude-opus-5", TODAY).mid_conversation_system
    assert not anthropic_policy("claude-sonnet-5", TODAY).mid_conversation_system
    assert anthropic_policy("claude-sonnet-5", TODAY, switches=lenient).mid_conversation_system


def test_a_thinking_change_may_lose_everything_unless_the_old_text_is_chosen() -> None:
    old = Switches(anthropic_thinking=ThinkingTier.MESSAGES)
    lost = [
        {rule.or_from for rule in policy.invalidations if rule.change in ("thinking", "effort")}
        for policy in (
            anthropic_policy("claude-opus-5", TODAY),
            anthropic_policy("claude-opus-5", TODAY, switches=old),
        )
    ]
    assert lost == [{Section.TOOLS}, {None}]


@pytest.mark.parametrize(
    ("model", "new"),
    [
        ("gpt-5.6-sol", True),
        ("gpt-6-astra", True),
        ("gpt-6.2-sol-2026-11-17", True),
        ("gpt-10", True),
        ("gpt-5.5-pro", False),
        ("gpt-5", False),
        ("gpt-4o", False),
        ("o4-mini", False),
        ("ft:gpt-4o:org::id", False),
    ],
)
def test_gpt_5_6_begins_the_generation_with_breakpoints(model: str, new: bool) -> None:
    expected = OpenAiMarkPolicy if new else OpenAiIntervalPolicy
    assert isinstance(policy_for("openai", model, TODAY), expected)


def test_an_openai_name_without_a_generation_is_an_error_that_says_so() -> None:
    with pytest.raises(UnknownModel, match=r"'deployment-7'.*base model"):
        openai_policy("deployment-7", TODAY)


def test_openai_lookup_windows_differ_by_source() -> None:
    guide = openai_policy("gpt-6-sol", TODAY)
    client = openai_policy("gpt-6-sol", TODAY, switches=Switches(openai_lookup=OpenAiLookup.SDK))
    assert isinstance(guide, OpenAiMarkPolicy)
    assert isinstance(client, OpenAiMarkPolicy)
    assert (guide.lookup_first, guide.lookup_latest, guide.lookup_endings) == (2, 50, 20)
    assert (client.lookup_first, client.lookup_latest) == (0, 80)


def test_openai_tools_and_instructions_cannot_carry_a_breakpoint() -> None:
    policy = openai_policy("gpt-6-sol", TODAY)
    assert isinstance(policy, OpenAiMarkPolicy)
    assert not policy.markable & {
        BlockKind.TOOL,
        BlockKind.INSTRUCTIONS,
        BlockKind.ADDITIONAL_TOOLS,
    }


def test_earlier_openai_models_have_intervals_retentions_and_a_rate_ceiling() -> None:
    policy = openai_policy("gpt-5.5", TODAY)
    assert isinstance(policy, OpenAiIntervalPolicy)
    assert (policy.interval_tokens, policy.reported_multiple) == (2048, 128)
    assert [retention.name for retention in policy.retentions] == ["24h"]
    assert policy.affinity is not None
    assert policy.affinity.requests_per_minute == 15


def test_azure_keeps_entries_in_memory_by_default() -> None:
    first = []
    for platform in (Platform.DIRECT, Platform.AZURE):
        policy = openai_policy("gpt-5.4", TODAY, platform=platform)
        assert isinstance(policy, OpenAiIntervalPolicy)
        first.append(policy.retentions[0].name)
    assert first == ["24h", "in_memory"]


def test_a_family_without_a_known_discount_has_none_stated() -> None:
    policy = openai_policy("gpt-3.5-turbo", TODAY)
    assert isinstance(policy, OpenAiIntervalPolicy)
    assert policy.documented_read_multiplier is None


def test_a_source_prints_its_kind_and_day() -> None:
    minimum = anthropic_policy("claude-opus-5", TODAY).minimum
    assert minimum is not None
    assert str(minimum.source) == "docs 2026-08-21"


@pytest.mark.parametrize(
    ("model", "multiplier"),
    [
        ("gpt-5.4", "0.1"),
        ("gpt-4.1", "0.25"),
        ("o3", "0.25"),
        ("o4-mini", "0.25"),
        ("gpt-4o", "0.5"),
        ("o1", "0.5"),
        ("o3-mini", "0.5"),
        ("gpt-5.5-pro", "1"),
    ],
)
def test_read_discounts_of_earlier_openai_models_go_by_family(model: str, multiplier: str) -> None:
    policy = openai_policy(model, TODAY)
    assert isinstance(policy, OpenAiIntervalPolicy)
    assert policy.documented_read_multiplier == Decimal(multiplier)


def test_gemini_minimums_depend_on_platform_and_page_version() -> None:
    old = Switches(gemini_minimums=GeminiMinimums.OLDER_DOCS)
    cloud = gemini_policy("gemini-4-neon", TODAY, platform=Platform.GOOGLE_CLOUD)
    assert gemini_policy("gemini-2.5-flash", TODAY).minimum_tokens == 2048
    assert gemini_policy("gemini-2.5-flash", TODAY, switches=old).minimum_tokens == 1024
    assert cloud.minimum_tokens == 6144
    assert gemini_policy("gemini-4-neon", TODAY).minimum_tokens is None


def test_gemini_4_has_no_cached_content_objects() -> None:
    assert not gemini_policy("gemini-4-argon", TODAY).explicit
    assert gemini_policy("gemini-3.8-flash", TODAY).explicit


def test_vllm_and_sglang_read_priority_with_opposite_signs() -> None:
    vllm = compatible_policy(Provider.VLLM, "org/model", TODAY)
    sglang = compatible_policy(Provider.SGLANG, "org/model", TODAY)
    assert (vllm.priority_sign, sglang.priority_sign) == ("lower_first", "higher_first")
    assert (vllm.usage.flag, sglang.usage.flag) == (
        "--enable-prompt-tokens-details",
        "--enable-cache-report",
    )


def test_the_vllm_salt_is_held_to_the_shorter_of_two_limits() -> None:
    lenient = Switches(vllm_salt_max_chars=1024)
    salts = [
        compatible_policy(Provider.VLLM, "m", TODAY, switches=switches).salt
        for switches in (Switches(), lenient)
    ]
    assert [salt.max_chars for salt in salts if salt is not None] == [128, 1024]


def test_kimi_bills_writes_from_k3_on() -> None:
    new = compatible_policy(Provider.MOONSHOT, "kimi-k3", TODAY)
    old = compatible_policy(Provider.MOONSHOT, "kimi-k2.7", TODAY)
    assert [choice.write_multiplier for choice in new.ttls] == [1, 2]
    assert old.ttls == ()


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("anthropic", AnthropicPolicy),
        ("deepseek", DeepSeekPolicy),
        ("gemini", GeminiPolicy),
        ("vllm", CompatiblePolicy),
        ("groq", CompatiblePolicy),
        ("alibaba", CompatiblePolicy),
    ],
)
def test_every_provider_has_its_class_of_policy(provider: str, expected: type) -> None:
    policy = policy_for(provider, "any-model", TODAY)
    assert isinstance(policy, expected)
    assert policy.provider == provider


def test_a_provider_that_does_not_exist_is_an_error_that_lists_those_that_do() -> None:
    with pytest.raises(ConfigurationError, match=r"'cohere'.*anthropic.*vllm"):
        policy_for("cohere", "m", TODAY)


def test_only_compatible_providers_have_a_compatible_policy() -> None:
    with pytest.raises(ValueError, match="'gemini'"):
        compatible_policy(Provider.GEMINI, "m", TODAY)


@pytest.mark.parametrize(
    ("model", "plain"),
    [
        ("claude-opus-5", "claude-opus-5"),
        ("claude-opus-4-8@20260601", "claude-opus-4-8"),
        ("us.anthropic.claude-opus-4-8-20260601-v1:0", "claude-opus-4-8"),
        ("anthropic/claude-opus-4-8", "claude-opus-4-8"),
        ("models/gemini-4-argon", "gemini-4-argon"),
        ("gpt-5.6-sol-2026-09-01", "gpt-5.6-sol"),
        ("claude-haiku-4-5-latest", "claude-haiku-4-5"),
        ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("claude-opus-4-20250514", "claude-opus-4"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("deepseek-v4", "deepseek-v4"),
    ],
)
def test_snapshots_and_platform_names_are_the_same_model(model: str, plain: str) -> None:
    assert plain_name(model) == plain


def test_every_switch_has_a_reason_for_its_default() -> None:
    assert set(REASONS) == {field.name for field in fields(Switches)}
    assert all(REASONS.values())
