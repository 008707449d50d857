"""What a cache policy says: one class for each way in which providers cache."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal, TypeAlias

from agentkit.caching.policy.money import PriceRow
from agentkit.caching.policy.names import Minimum
from agentkit.caching.policy.source import Source
from agentkit.caching.policy.switches import LookbackUnit, Switches
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookback:
    """How far before a mark an earlier entry is found."""

    size: int
    """Positions looked at, the mark's own included."""
    unit: LookbackUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class TtlChoice:
    """A lifetime and what writing with it costs, as a multiple of plain input."""

    ttl: Ttl
    write_multiplier: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalidation:
    """What a change loses: its first section and all that follow on the wire."""

    change: Change
    lost_from: Section
    or_from: Section | None = None
    """On some models, which the provider does not list, everything from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """A hint that brings requests with one prefix to one cache, and what it can bear."""

    body_fields: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    separates: bool = False
    """Whether requests with different values never share an entry."""
    requests_per_minute: int | None = None
    """Above this rate for one prefix and value, requests spill to other machines."""
    routing_tokens: int = 0
    """The first tokens whose hash, with the value, chooses the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterTools:
    """How tools are added in the middle of a conversation, behind what was sent before."""

    form: Literal["system_message", "developer_item"]
    """Anthropic's `tool_addition` blocks, or OpenAI's item `additional_tools`."""
    source: Source
    beta: str | None = None
    """The beta header that a request needs that has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasePolicy:
    """What every policy has."""

    provider: Provider
    model: str
    """The plain name, see `plain_name`."""
    platform: Platform
    on: date
    """The day whose rules these are."""
    switches: Switches
    wire_order: tuple[Section, ...]
    isolation: Isolation
    readable: ReadableWhen
    affinity: Affinity | None
    minimum: Minimum | None
    """None: unknown for this model."""
    prices: PriceRow | None
    """None: unknown for this model."""
    invalidations: tuple[Invalidation, ...]
    later_tools: LaterTools | None = None
    """None: tools that come later can only be put into the list in front, and all is lost."""

    @property
    def minimum_tokens(self) -> int | None:
        """The shortest prefix that is cached, in tokens; None if unknown."""
        return None if self.minimum is None else self.minimum.n_tokens

    @property
    def read_multiplier(self) -> Decimal | None:
        """The price of a read as a multiple of plain input; None if unknown."""
        if self.prices is None:
            return None
        return self.prices.rates.read / self.prices.rates.input


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicPolicy(BasePolicy):
    """Entries are written at marks, and found at or before marks."""

    mark_budget: int
    """Marks in one request; the automatic one takes a place."""
    markable: frozenset[BlockKind]
    lookback: Lookback
    ttls: tuple[TtlChoice, ...]
    longer_ttl_first: bool
    """Whether marks with a longer lifetime must come before all with a shorter one."""
    default_ttl: Ttl
    ttl_from_request_start: bool
    refreshes_on_hit: bool
    automatic_marks: bool
    """Whether the top-level `cache_control` field is accepted."""
    server_tool_ttl: Ttl
    """Lifetime of the marks that the server sets behind server-tool results."""
    keeps_thinking: bool
    """Whether thinking of earlier turns stays in the prompt after the next user turn."""
    thinking_is_bound: bool
    """Whether a thinking block is refused behind another prefix than its own."""
    mid_conversation_system: bool
    default_effort: str
    """Naming it is the same as leaving it out."""
    tool_prompt_tokens: tuple[int, int] | None
    """Hidden tokens that any tools add, for `tool_choice` auto/none and any/tool; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiMarkPolicy(BasePolicy):
    """GPT-5.6 and later: entries are written and found at boundaries of the request only."""

    markable: frozenset[BlockKind]
    explicit_writes: int
    """In explicit mode, the latest this many explicit breakpoints are written."""
    implicit_explicit_writes: int
    """In implicit mode, beside the implicit one, the latest this many explicit ones."""
    lookup_first: int
    lookup_latest: int
    lookup_endings: int
    """Earlier message endings that implicit mode looks up."""
    ttls: tuple[TtlChoice, ...]
    default_ttl: Ttl
    ttl_is_minimum: bool
    """The entry may live longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long GPT-5.5 and earlier keep an entry: a maximum, not a promise."""

    name: Literal["in_memory", "24h"]
    idle_s: int
    """Typical life without use."""
    max_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiIntervalPolicy(BasePolicy):
    """GPT-5.5 and earlier: the longest common prefix, cut to a fixed interval."""

    interval_tokens: int | None
    """None: depends on the model and is not published."""
    reported_multiple: int
    """Reported reads are rounded down to a multiple of this."""
    retentions: tuple[Retention, ...]
    """The default first."""
    documented_read_multiplier: Decimal | None
    """By family, also where no price is known; 1 where reads get no discount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSeekPolicy(BasePolicy):
    """A hit is a whole persisted unit: request ends, reply ends, common prefixes seen twice."""

    partition_field: str
    """The body field whose values never share."""
    block_tokens: int | None
    """Size of a unit under the old rule; None under the current one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiPolicy(BasePolicy):
    """The implicit cache, which promises nothing, and explicit cached-content objects."""

    explicit: bool
    """Whether cached-content objects exist for this model."""
    explicit_default_ttl_s: int
    explicit_minimum_ttl_s: int
    """0: no bound."""
    implicit_max_age_s: int | None
    """None: not published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageField:
    """Where a server says what it read, and the flag without which it does not."""

    path: str
    flag: str | None = None
    written_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Salt:
    """A body field that separates caches by its value."""

    field: str
    max_chars: int | None = None
    forbidden: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompatiblePolicy(BasePolicy):
    """A server that speaks the OpenAI protocol and caches by itself, with hints of its own."""

    block_tokens: int | None
    """Only whole blocks hit; None: unknown. 1: any token."""
    recomputes_last_token: bool
    """At least the last token is computed, so a whole hit loses one block."""
    usage: UsageField
    salt: Salt | None
    priority_sign: Literal["lower_first", "higher_first"] | None
    """Which `priority` is served earlier; None: no such field."""
    mark_budget: int
    """Marks that are passed on; 0 where they have no effect."""
    ttls: tuple[TtlChoice, ...]
    """Lifetimes that can be chosen; empty where there is no choice."""
    idle_s: int | None
    """Life without use, in seconds; None: unknown, or until evicted."""


Policy: TypeAlias = (
    AnthropicPolicy
    | OpenAiMarkPolicy
    | OpenAiIntervalPolicy
    | DeepSeekPolicy
    | GeminiPolicy
    | CompatiblePolicy
)
"""The cache rules of one model at one provider on one day."""
