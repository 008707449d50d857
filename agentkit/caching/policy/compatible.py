"""Cache rules of servers that speak the OpenAI protocol, self-hosted and hosted.

Sources: vLLM 0.33.0 and SGLang 0.5.23 as installed, the hosts' pages as of October 2026.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal as D

from agentkit.caching.policy.compatible_prices import PRICES
from agentkit.caching.policy.money import row_for
from agentkit.caching.policy.names import Minimum, plain_name
from agentkit.caching.policy.rules import (
    Affinity,
    CompatiblePolicy,
    Invalidation,
    Salt,
    TtlChoice,
    UsageField,
)
from agentkit.caching.policy.source import docs
from agentkit.caching.policy.switches import Switches
from agentkit.caching.policy.terms import (
    Change,
    Isolation,
    Platform,
    Provider,
    ReadableWhen,
    Section,
    Ttl,
)


def compatible_policy(
    provider: Provider,
    model: str,
    on: date,
    *,
    platform: Platform = Platform.DIRECT,
    switches: Switches | None = None,
) -> CompatiblePolicy:
    """Return the rules of an OpenAI-compatible server.

    Raises:
        ValueError: the provider has a policy class of its own.
    """
    switches = switches or Switches()
    profile = _profiles(switches).get(provider)
    if profile is None:
        raise ValueError(f"{provider.value!r} is no OpenAI-compatible profile; use policy_for()")
    # Model names of self-hosted servers are paths and hub ids; nothing may be cut off.
    name = model if provider in _SELF_HOSTED else plain_name(model)
    bills_writes = name in ("kimi-k3", "kimi-k3.1", "kimi-k3.1-pro")
    return replace(
        profile,
        model=name,
        platform=platform,
        on=on,
        prices=row_for((row for host, row in PRICES if host is provider), name, on),
        ttls=() if provider is Provider.MOONSHOT and not bills_writes else profile.ttls,
    )


_SELF_HOSTED = frozenset([Provider.VLLM, Provider.SGLANG, Provider.TENSORRT_LLM])


def _profiles(switches: Switches) -> dict[Provider, CompatiblePolicy]:
    base = CompatiblePolicy(
        provider=Provider.VLLM,
        model="",
        platform=Platform.DIRECT,
        on=date.min,
        switches=switches,
        # Chat templates decide; nearly all put tools into or next to the first system message.
        wire_order=(Section.TOOLS, Section.SYSTEM, Section.MESSAGES),
        isolation=Isolation.ORGANIZATION,
        readable=ReadableWhen.RESPONSE_BEGINS,  # assumed where no profile says otherwise
        affinity=None,
        minimum=None,
        prices=None,
        invalidations=(Invalidation(change=Change.MODEL, lost_from=Section.TOOLS),),
        block_tokens=None,
        recomputes_last_token=False,
        usage=UsageField(path=_CACHED),
        salt=None,
        priority_sign=None,
        mark_budget=0,
        ttls=(),
        idle_s=None,
    )
    return _self_hosted(base, switches) | _hosted(base)


_CACHED = "usage.prompt_tokens_details.cached_tokens"
_WRITTEN = "usage.prompt_tokens_details.cache_write_tokens"


def _self_hosted(base: CompatiblePolicy, switches: Switches) -> dict[Provider, CompatiblePolicy]:
    local = replace(base, readable=ReadableWhen.COMPUTED, recomputes_last_token=True)
    return {
        Provider.VLLM: replace(  # source of vLLM 0.33.0
            local,
            provider=Provider.VLLM,
            block_tokens=16,
            usage=UsageField(
                path=_CACHED,
                flag="--enable-prompt-tokens-details",
                written_path="usage.prompt_tokens_details.created_cache_tokens",
            ),
            salt=Salt(
                field="cache_salt", max_chars=switches.vllm_salt_max_chars, forbidden="@/\\\0"
            ),
            affinity=Affinity(body_fields=("session_id",), headers=("X-Session-ID",)),
            priority_sign="lower_first",
        ),
        Provider.SGLANG: replace(  # source of SGLang 0.5.23
            local,
            provider=Provider.SGLANG,
            block_tokens=1,
            usage=UsageField(path=_CACHED, flag="--enable-cache-report"),
            salt=Salt(field="cache_salt"),
            affinity=Affinity(body_fields=("session_id",), headers=("x-smg-routing-key",)),
            priority_sign="higher_first",
        ),
        Provider.TENSORRT_LLM: replace(  # note 2026-10-01
            local, provider=Provider.TENSORRT_LLM, affinity=Affinity(headers=("x-session-id",))
        ),
    }


def _hosted(base: CompatiblePolicy) -> dict[Provider, CompatiblePolicy]:
    key = Affinity(body_fields=("prompt_cache_key",))
    return {
        Provider.OPENROUTER: replace(  # docs 2026-10-01: sticky to one provider for 10 minutes
            base,
            provider=Provider.OPENROUTER,
            usage=UsageField(path=_CACHED, written_path=_WRITTEN),
            affinity=Affinity(body_fields=("session_id",), headers=("x-session-id",)),
            mark_budget=4,
            idle_s=600,
        ),
        Provider.XAI: replace(  # docs 2026-10-01; blocks measured 2026-08-19
            base,
            provider=Provider.XAI,
            block_tokens=128,
            affinity=replace(key, headers=("x-grok-conv-id",)),
        ),
        Provider.MISTRAL: replace(  # docs 2026-10-01: caching is off without the key
            base, provider=Provider.MISTRAL, block_tokens=64, affinity=key
        ),
        # docs 2026-10-01: expires after two hours unused
        Provider.GROQ: replace(base, provider=Provider.GROQ, idle_s=7_200),
        Provider.MOONSHOT: replace(  # docs 2026-10-01; K3 and K3.1 only, others bill no writes
            base,
            provider=Provider.MOONSHOT,
            usage=UsageField(path=_CACHED, written_path=_WRITTEN),
            affinity=key,
            ttls=(
                TtlChoice(ttl=Ttl.FIVE_MINUTES, write_multiplier=D(1)),
                TtlChoice(ttl=Ttl.ONE_HOUR, write_multiplier=D(2)),
            ),
        ),
        Provider.ALIBABA: replace(  # docs 2026-10-11: explicit marks; implicit excludes them
            base,
            provider=Provider.ALIBABA,
            readable=ReadableWhen.RESPONSE_ENDS,
            minimum=Minimum(models=(), n_tokens=1024, source=docs("2026-10-11")),
            mark_budget=4,
            ttls=(TtlChoice(ttl=Ttl.FIVE_MINUTES, write_multiplier=D("1.25")),),
            idle_s=300,
        ),
    }
