"""Bounds of a step, and how waiting requests are ordered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentkit_runtime.checks import (
    require_instance,
    require_number,
    require_text,
    require_whole,
)

SHARED_MIN_TOKENS = 16
"""A neighbour that computes fewer tokens for both (a template's header) is not worth a wait."""

HEADROOM_TOKENS = 16
"""Slots kept for each running lane when another is admitted, so that admission does not preempt."""

LEAST_WEIGHT = 1e-6
"""Smallest share of a tenant: with none at all it would wait until it is old, each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """How a scheduler plans. Raises ValueError for values that cannot work."""

    step_tokens: int = 512
    """Most tokens in one step: known ones and guesses."""
    mixed_prefill_tokens: int | None = None
    """Most prompt tokens in a step in which lanes decode: what they wait for between two tokens.
    None leaves them all that the step has."""
    max_lanes: int = 32
    """Most sequences in one step."""
    reserve_tokens: int = 128
    """Slots taken ahead for generated tokens where they lie next to the prompt's."""
    shared_min_tokens: int = SHARED_MIN_TOKENS
    """Wait for a neighbour's prefill when it computes at least this many tokens for both."""
    max_scan: int = 256
    """Waiting sequences looked at in one step."""
    cached_token_s: float = 0.001
    """A cached token counts like so many seconds of waiting: among requests of one tenant and
    class, one with 2,000 cached tokens goes before those that came up to two seconds earlier. 0 is
    arrival order."""
    deadline_lead_s: float | None = None
    """A request with a deadline is ordered at the latest as if it had come this many seconds before
    it: earliest deadline first among those that are near theirs. None orders by arrival alone."""
    returning_s: float = 1.0
    """A session that comes back when a hint expected it is ordered as if it had come so many
    seconds earlier: what was kept for it is in memory now."""
    batch_rests_s: float = 1.0
    """While an interactive request has no first token, the batch class rests, for at most so many
    seconds at a time. 0: it goes on."""
    batch_step_s: float | None = 0.1
    """Prompts of the batch class are computed in pieces that take about so long: what somebody who
    comes meanwhile waits for. None takes all that a step has."""
    patience_s: float = 5.0
    """A request is old when it waits, or its prompt is not computed, so long after it came."""
    turns_per_old: int = 8
    """The oldest of old requests goes first after at most so many turns of others, whatever their
    class and tenant. So nothing waits for ever."""
    max_overtakes: int = 4
    """A request that found no room is overtaken by so many others; then nobody starts before it."""
    preempt_for_priority: bool = True
    """Whether a waiting request may take the lane and the slots of one of a lower class. (One of a
    tenant without a lane may take one of several lanes of another tenant when it is old.)"""
    max_preemptions: int = 3
    """A sequence that had to leave this often stays, unless nobody else is left to choose."""
    max_restores: int = 8
    """Most requests at a time that wait for their prefix from host memory or disk."""
    tenant_weights: Mapping[str, float] = field(default_factory=dict)
    """Shares of computed tokens when several tenants wait, relative to each other; 1 if not given.
    """

    def __post_init__(self) -> None:
        for name in (
            "step_tokens",
            "max_lanes",
            "max_scan",
            "shared_min_tokens",
            "turns_per_old",
            "max_restores",
        ):
            require_whole(name, getattr(self, name), least=1)
        for name in ("reserve_tokens", "max_overtakes", "max_preemptions"):
            require_whole(name, getattr(self, name), least=0)
        for name in ("cached_token_s", "returning_s", "batch_rests_s", "patience_s"):
            require_number(name, getattr(self, name), least=0)
        if self.mixed_prefill_tokens is not None:
            require_whole("mixed_prefill_tokens", self.mixed_prefill_tokens, least=1)
        if self.batch_step_s is not None:
            require_number("batch_step_s", self.batch_step_s, least=0.001)
        if self.deadline_lead_s is not None:
            require_number("deadline_lead_s", self.deadline_lead_s, least=0)
        require_instance("preempt_for_priority", self.preempt_for_priority, bool)
        require_instance("tenant_weights", self.tenant_weights, Mapping)
        for tenant, weight in self.tenant_weights.items():
            require_text("a tenant's name in tenant_weights", tenant)
            require_number(f"the weight of tenant {tenant!r}", weight, least=LEAST_WEIGHT)
