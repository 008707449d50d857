"""The least that requests can cost under a provider's rules: a lower bound that knows the future.

Every token of a prompt is, each time it is sent, read, written or plain input. A strategy chooses
marks, lifetimes and keep-alives for whole prefixes; here each block may choose for itself, with all
later requests known, without a limit on marks and without lookback. So no placement, order or
timing can cost less, and a plan that comes near to it is near to the best.

The choice for one block is a shortest path over its uses: between two of them its entry either
lapses, or is kept alive by reads of its tokens just before each end of its life. A read may give it
another lifetime, since an entry of that lifetime behind it holds for it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from agentkit.caching.chain import boundaries
from agentkit.caching.policy import (
    AnthropicPolicy,
    CompatiblePolicy,
    DeepSeekPolicy,
    GeminiPolicy,
    OpenAiIntervalPolicy,
    OpenAiMarkPolicy,
    Policy,
    Rates,
)
from agentkit.caching.policy.money import MILLION
from agentkit.caching.request import CacheRequest, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One request that was sent."""

    at: datetime
    request: CacheRequest


Life: TypeAlias = tuple[int, Decimal]
"""A lifetime in seconds, and what writing a million tokens with it costs."""


def least_cost(uses: Iterable[Use], policy: Policy) -> Decimal:
    """Return the least that the input of these requests can cost, in USD.

    Raises:
        ValueError: the price of the model is not known.
    """
    blocks: dict[bytes, list[_BlockUse]] = {}
    for use in sorted(uses, key=lambda each: each.at):
        for key, block_use in _block_uses(use, policy):
            blocks.setdefault(key, []).append(block_use)
    return sum((_least(each, policy) for each in blocks.values()), Decimal(0)) / MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class _BlockUse:
    at_s: float
    n_tokens: int
    rates: Rates
    cacheable: bool
    """Whether the request is long enough for anything of it to be cached."""
    generated: bool
    """Whether a model wrote it, and its provider keeps what models write."""


def _block_uses(use: Use, policy: Policy) -> Iterable[tuple[bytes, _BlockUse]]:
    if policy.prices is None:
        raise ValueError(f"no price is known for {policy.model!r}")
    prefixes = boundaries(use.request, scope=(), invalidations=policy.invalidations)
    total = prefixes[-1].n_tokens if prefixes else 0
    rates = policy.prices.rates_for(total, use.at, use.request.terms)
    if rates is None:
        raise ValueError(f"no price is known for {policy.model!r} under {use.request.terms!r}")
    for prefix in prefixes:
        yield (
            prefix.key,
            _BlockUse(
                at_s=use.at.timestamp(),
                n_tokens=prefix.block.n_tokens,
                rates=rates,
                cacheable=total >= (policy.minimum_tokens or 0),
                generated=prefix.role is Role.ASSISTANT and isinstance(policy, DeepSeekPolicy),
            ),
        )


def _least(uses: Sequence[_BlockUse], policy: Policy) -> Decimal:
    """Return the least cost of one block over all its uses, in USD per million."""
    # Cost so far, by the lifetime of the entry that is there after the use; None is no entry.
    states: dict[int | None, Decimal] = {None: Decimal(0)}
    last_s = uses[0].at_s
    if uses[0].generated:
        states |= {life: Decimal(0) for life, _ in _lives(policy, uses[0].rates)}
    for use in uses:
        states = _after(use, states, use.at_s - last_s, policy)
        last_s = use.at_s
    return min(states.values())


def _after(
    use: _BlockUse, states: dict[int | None, Decimal], gap_s: float, policy: Policy
) -> dict[int | None, Decimal]:
    best = min(states.values())
    found: dict[int | None, Decimal] = {None: best + use.n_tokens * use.rates.input}
    if not use.cacheable:
        # An entry that is there stays there, if it is kept alive.
        kept = {life: cost for life, cost in states.items() if life is not None}
        plain = use.n_tokens * use.rates.input
        return found | {life: cost + plain for life, cost in kept.items()}
    lives = _lives(policy, use.rates)
    # A longer lifetime that is written behind what is read holds for all of it: so the price of
    # having any lifetime from here on is that of a read.
    reads = [states[life] + _read(use, gap_s, life) for life, _ in lives if life in states]
    for life, write in lives:
        found[life] = min([best + use.n_tokens * write, *reads])
    return found


def _read(use: _BlockUse, gap_s: float, life: int) -> Decimal:
    """Return the price of a read, and of those that kept the entry alive until then."""
    return use.n_tokens * use.rates.read * (1 + int(gap_s // life))


def _lives(policy: Policy, rates: Rates) -> tuple[Life, ...]:
    match policy:
        case AnthropicPolicy() | OpenAiMarkPolicy():
            prices = dict(rates.writes)
            return tuple((choice.ttl.seconds, prices[choice.ttl]) for choice in policy.ttls)
        case OpenAiIntervalPolicy():
            return tuple((each.max_s, rates.input) for each in policy.retentions)
        case DeepSeekPolicy():
            return ((_DAY_S, rates.input),)
        case GeminiPolicy():
            return ((policy.implicit_max_age_s or _DAY_S, rates.input),)
        case CompatiblePolicy():
            return ((policy.idle_s or _DAY_S, rates.input),)


_DAY_S = 86_400
"""Where a lifetime is not published: longer than any session."""
