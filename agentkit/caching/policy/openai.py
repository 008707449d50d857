"""OpenAI's cache rules, both generations.

Sources: client 3.57.0, the prompt-caching guide of 2026-09-20, the opening of that of 2026-11-04.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal as D

from agentkit.caching.policy.money import row_for
from agentkit.caching.policy.names import Minimum, plain_name
from agentkit.caching.policy.openai_prices import PRICES
from agentkit.caching.policy.rules import (
    Affinity,
    Invalidation,
    LaterTools,
    OpenAiIntervalPolicy,
    OpenAiMarkPolicy,
    Retention,
    TtlChoice,
)
from agentkit.caching.policy.source import docs
from agentkit.caching.policy.switches import OpenAiLookup, Switches
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
from agentkit.errors import UnknownModel


def openai_policy(
    model: str,
    on: date,
    *,
    platform: Platform = Platform.DIRECT,
    switches: Switches | None = None,
) -> OpenAiMarkPolicy | OpenAiIntervalPolicy:
    """Return OpenAI's rules for a model on a day.

    Raises:
        UnknownModel: the name does not say to which generation the model belongs.
    """
    switches = switches or Switches()
    name = plain_name(model)
    if _has_breakpoints(name):
        return _mark_policy(name, on, platform, switches)
    return _interval_policy(name, on, platform, switches)


def _has_breakpoints(name: str) -> bool:
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
    if version:
        return (int(version[1]), int(version[2] or 0)) >= (5, 6)
    if re.match(r"o\d", name):
        return False
    raise UnknownModel(
        f"cannot tell the generation of the OpenAI model {name!r}, and the cache rules depend on "
        "it; name it by its base model, such as 'gpt-6-sol' or 'gpt-5.4'"
    )


def _mark_policy(name: str, on: date, platform: Platform, switches: Switches) -> OpenAiMarkPolicy:
    guide = switches.openai_lookup is OpenAiLookup.GUIDE
    return OpenAiMarkPolicy(
        provider=Provider.OPENAI,
        model=name,
        platform=platform,
        on=on,
        switches=switches,
        wire_order=_WIRE_ORDER,
        isolation=Isolation.REGION,  # docs 2026-09-20: organisation and processing region
        # Not documented for parallel requests; assumed to be like Anthropic's.
        readable=ReadableWhen.RESPONSE_BEGINS,
        affinity=Affinity(
            body_fields=("prompt_cache_key",),
            separates=True,  # sdk 3.57.0: reason prompt_cache_key_changed
            # note 2026-10-01, Azure; the guide of 2026-09-20 has no ceiling for this generation
            requests_per_minute=15 if platform is Platform.AZURE else None,
            routing_tokens=_ROUTING_TOKENS,
        ),
        # docs 2026-09-20: visible tokens, hidden system content is not counted
        minimum=Minimum(models=(name,), n_tokens=1024, source=docs("2026-09-20")),
        prices=row_for(PRICES, name, on),
        invalidations=_INVALIDATIONS,
        markable=MARKABLE,
        explicit_writes=4,  # docs 2026-09-20
        implicit_explicit_writes=3,  # docs 2026-09-20
        lookup_first=2 if guide else 0,  # docs 2026-09-20
        lookup_latest=50 if guide else 80,  # docs 2026-09-20 against sdk 3.57.0
        lookup_endings=20 if switches.openai_reads_earlier_endings else 0,  # docs 2026-09-20
        ttls=(  # docs 2026-11-04, package 2026-11-29
            TtlChoice(ttl=Ttl.THIRTY_MINUTES, write_multiplier=D("1.25")),
            TtlChoice(ttl=Ttl.TWELVE_HOURS, write_multiplier=D("2.5")),
        ),
        default_ttl=Ttl.THIRTY_MINUTES,  # sdk 3.57.0
        ttl_is_minimum=True,  # docs 2026-09-20
        later_tools=_LATER_TOOLS if platform is Platform.DIRECT else None,
    )


def _interval_policy(
    name: str, on: date, platform: Platform, switches: Switches
) -> OpenAiIntervalPolicy:
    return OpenAiIntervalPolicy(
        provider=Provider.OPENAI,
        model=name,
        platform=platform,
        on=on,
        switches=switches,
        wire_order=_WIRE_ORDER,
        isolation=Isolation.REGION,
        readable=ReadableWhen.RESPONSE_BEGINS,  # not documented; assumed
        affinity=Affinity(
            body_fields=("prompt_cache_key",),
            separates=True,  # assumed: the key is part of the routing hash
            requests_per_minute=15,  # docs 2026-09-20
            routing_tokens=_ROUTING_TOKENS,
        ),
        # docs of 2025-10; the guide of 2026-09-20 says that it varies with the settings
        minimum=Minimum(models=(name,), n_tokens=1024, source=docs("2025-10-01")),
        prices=row_for(PRICES, name, on),
        invalidations=_INVALIDATIONS,
        interval_tokens=2048 if name.startswith("gpt-5.5") else None,  # docs 2026-09-20
        reported_multiple=128,  # docs 2026-09-20
        retentions=_retentions(name, platform),
        documented_read_multiplier=_read_multiplier(name),
    )


MARKABLE = frozenset(
    # sdk 3.57.0: text, image and file parts, computer screenshots, audio parts in Chat; also
    # inside tool outputs. Instructions, tool definitions and additional_tools cannot.
    [
        BlockKind.TEXT,
        BlockKind.IMAGE,
        BlockKind.DOCUMENT,
        BlockKind.AUDIO,
        BlockKind.TOOL_RESULT,
        BlockKind.BROWSER_STATE,
    ]
)
"""Block kinds that accept `prompt_cache_breakpoint`."""

# docs 2026-09-20 (tool search, prompt caching) and sdk 3.57.0. For which models
# is not written down; clients in use send the item to GPT-5.6 and later only (measured 2026-10-01).
_LATER_TOOLS = LaterTools(form="developer_item", source=docs("2026-09-20"))

_ROUTING_TOKENS = 256  # docs of 2025-10, "about"

_WIRE_ORDER = (Section.TOOLS, Section.SYSTEM, Section.MESSAGES)  # docs 2026-09-20

# docs 2026-09-20 and 2026-11-04: all of these are rendered ahead; tier and key by sdk 3.57.0
_INVALIDATIONS = tuple(
    Invalidation(change=change, lost_from=Section.TOOLS)
    for change in (
        Change.MODEL,
        Change.SERVICE_TIER,
        Change.CACHE_KEY,
        Change.PARALLEL_TOOLS,
        Change.OUTPUT_FORMAT,
        Change.EFFORT,
        Change.VERBOSITY,
        Change.CONTEXT_MANAGEMENT,
    )
)

# docs 2026-09-20: 5-10 minutes idle, an hour at most; "typically about 30 minutes", a day at most
_IN_MEMORY = Retention(name="in_memory", idle_s=300, max_s=3_600)
_DAY = Retention(name="24h", idle_s=1_800, max_s=86_400)


def _retentions(name: str, platform: Platform) -> tuple[Retention, ...]:
    if name.startswith("gpt-5.5"):
        return (_DAY,)  # sdk 3.57.0: only 24h
    if platform is Platform.AZURE:
        return (_IN_MEMORY, _DAY)  # note 2026-10-01
    return (_DAY, _IN_MEMORY)  # sdk 3.57.0: without zero data retention


def _read_multiplier(name: str) -> D | None:
    if name.endswith("-pro"):
        return D(1)
    for prefix, multiplier in _READ_MULTIPLIERS:
        if name.startswith(prefix):
            return multiplier
    return None


# package 2026-11-29; the first prefix that fits
_READ_MULTIPLIERS = (
    ("gpt-5", D("0.1")),
    ("gpt-4.1", D("0.25")),
    ("gpt-4o", D("0.5")),
    ("o3-mini", D("0.5")),
    ("o3", D("0.25")),
    ("o4-mini", D("0.25")),
    ("o1", D("0.5")),
)
