"""What eight tenants ask for, and what operators do meanwhile. All of it from one seed."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentkit_runtime.core import EngineCore
from agentkit_runtime.errors import NotCached, PinRefused
from agentkit_runtime.generation.samples import samples
from agentkit_runtime.kv.hints import Hint, LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.kv.prune import ByNamespace, ByPrefix, BySession, ByTag, ByTenant, Selector
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.types import (
    Delta,
    EngineEvent,
    Finished,
    GenerateRequest,
    Priority,
    SamplingParams,
    TokenLogprob,
)
from bench.tiny import Silent

if TYPE_CHECKING:
    from torch import Tensor

TENANTS = 8
TAGS = ("researcher", "writer", "critic")
PUBLIC = hashlib.sha256(b"public").digest()
MAX_PROMPT = 150
_REMEMBERED = 6


@dataclass(slots=True)
class Ask:
    """One request, and what came of it."""

    request: GenerateRequest
    tenant: int
    events: list[EngineEvent] = field(default_factory=list)
    spared: bool = False
    """It ran while its tenant's cache was dropped, and may have read it before."""

    @property
    def ids(self) -> list[int]:
        """Tokens that were generated so far."""
        return [i for e in self.events if isinstance(e, Delta) for i in e.token_ids]

    @property
    def logprobs(self) -> list[TokenLogprob]:
        """What was said about them."""
        return [p for e in self.events if isinstance(e, Delta) for p in e.logprobs]

    @property
    def finished(self) -> Finished | None:
        """How it ended, when it has."""
        last = self.events[-1] if self.events else None
        return last if isinstance(last, Finished) else None


class Even:
    """A grammar: even tokens only, and behind each multiple of ten two that are forced."""

    def __init__(self) -> None:
        self._forced: list[int] = []

    @property
    def done(self) -> bool:
        """It never is."""
        return False

    def apply(self, logits: Tensor) -> None:
        """See `Grammar.apply`."""
        logits[1::2] = float("-inf")

    def accept(self, token_id: int) -> None:
        """See `Grammar.accept`."""
        assert token_id % 2 == 0, f"token {token_id} was not allowed"
        if self._forced:
            assert self._forced.pop(0) == token_id, f"token {token_id} was not the forced one"
        elif token_id % 10 == 0:
            self._forced = [(token_id + 12) % 96, (token_id + 14) % 96]

    def forced(self) -> list[int]:
        """See `Grammar.forced`."""
        return list(self._forced)

    def acceptable(self, token_ids: Sequence[int]) -> int:
        """See `Grammar.acceptable`."""
        return next((i for i, token in enumerate(token_ids) if token % 2), len(token_ids))


class Traffic:
    """Draws requests: forks, next turns, common prefixes, cold ones."""

    def __init__(self, rng: random.Random, vocab: int, max_prompt: int = MAX_PROMPT) -> None:
        self._rng = rng
        self._vocab = vocab
        self._max_prompt = max_prompt
        self._ids = itertools.count()
        # All tenants have the same texts: a leak between them could not hide.
        self.shared = [self._draw(min(40, max_prompt // 3)), self._draw(min(64, max_prompt // 2))]
        self._turns: list[deque[tuple[int, ...]]] = [
            deque(self.shared, maxlen=_REMEMBERED) for _ in range(TENANTS)
        ]

    def ask(self) -> list[Ask]:
        """One request, or a few at once with the same prompt or a common prefix."""
        tenant = self._rng.randrange(TENANTS)
        if self._rng.random() < 0.05:  # another common text, which nobody has asked for yet
            self.shared[1] = self._draw(len(self.shared[1]))
        known = self._rng.choice(self._rng.choice([self._turns[tenant], self.shared]))
        cut = self._rng.choice([len(known), len(known), self._rng.randint(0, len(known))])
        longest = min(20, self._max_prompt // 2)
        common = known[:cut][: self._max_prompt - longest]
        n_forks = self._rng.choice([1, 1, 1, 2, 4])
        same = self._rng.random() < 0.3
        tail = self._draw(self._rng.randint(1, longest))
        asks = [
            self._one(
                tenant, common + (tail if same else self._draw(self._rng.randint(1, longest)))
            )
            for _ in range(n_forks)
        ]
        return self._sampled(asks[0]) if self._rng.random() < 0.1 else asks

    def learn(self, ask: Ask) -> None:
        """The tenant may go on from what it got."""
        turn = (*ask.request.prompt, *ask.ids)
        self._turns[ask.tenant].append(turn[: self._max_prompt])

    def scope(self, tenant: int) -> Scope:
        """Draw labels of a tenant's request."""
        return Scope(
            tenant=f"t{tenant}",
            public=self._rng.choice([None, PUBLIC]),
            session=self._rng.choice([None, "a", "b"]),
            tags=frozenset(self._rng.sample(TAGS, self._rng.randint(0, 2))),
        )

    def _sampled(self, ask: Ask) -> list[Ask]:
        """Several answers to one request."""
        grammar = None if ask.request.grammar is None else Even
        forks = samples(
            ask.request, 3, text=Silent, grammar=lambda: None if grammar is None else grammar()
        )
        return [Ask(fork, ask.tenant) for fork in forks]

    def _one(self, tenant: int, prompt: tuple[int, ...]) -> Ask:
        rng = self._rng
        request = GenerateRequest(
            request_id=f"r{next(self._ids)}",
            prompt=prompt,
            namespace=namespace_of(tenant),
            text=Silent(),
            sampling=SamplingParams(
                max_tokens=rng.choice([0, 1, 2, 5, 12]),
                logprobs=rng.choice([None, None, 0, 2]),
            ),
            grammar=rng.choice([None, None, None, Even()]),
            eos_ids=rng.choice([frozenset(), frozenset(), frozenset({8})]),
            scope=self.scope(tenant),
            priority=rng.choice(list(Priority)),
            deadline_s=rng.choice([None, None, None, None, rng.uniform(0.01, 1.0)]),
            speculate=rng.choice([0, 0, 3]),
        )
        return Ask(request, tenant)

    def _draw(self, n: int) -> tuple[int, ...]:
        # Few different tokens: prefixes part and meet again at every length.
        return tuple(
            self._rng.choice((3, 5, 7, self._rng.randrange(self._vocab))) for _ in range(n)
        )


class Operator:
    """Does to the cache what operators, frameworks and time do."""

    def __init__(
        self,
        rng: random.Random,
        core: EngineCore,
        traffic: Traffic,
        advance: Callable[[float], None],
        forgot: Callable[[int | None], None],
    ) -> None:
        """`forgot` is told which tenant's cache was dropped; None is all."""
        self._rng = rng
        self._core = core
        self._traffic = traffic
        self._forgot = forgot
        self._actions: list[Callable[[int], object]] = [
            self._pin,
            self._pin,
            self._unpin,
            self._prune,
            self._hint,
            self._hint,
            self._publish,
            self._clear,
            lambda tenant: core.cache.evict(rng.randint(1, 60)),
            lambda tenant: advance(rng.choice([0.1, 1.0, 20.0])),
        ]

    def act(self) -> None:
        """Do one thing."""
        self._rng.choice(self._actions)(self._rng.randrange(TENANTS))

    def _pin(self, tenant: int) -> None:
        prompt = self._rng.choice(self._traffic.shared)
        ttl_s = self._rng.choice([None, 0.5, 5.0])
        scope = Scope(tenant=f"t{tenant}")
        try:
            self._core.cache.pin(namespace_of(tenant), pack(prompt), scope=scope, ttl_s=ttl_s)
        except (NotCached, PinRefused):
            return

    def _unpin(self, tenant: int) -> None:
        for pin in self._core.cache.pins()[:2]:
            self._core.cache.unpin(pin.handle)

    def _prune(self, tenant: int) -> None:
        prefix = pack(self._rng.choice(self._traffic.shared)[: self._rng.randint(1, 40)])
        selectors: list[Selector] = [
            ByPrefix(namespace_of(tenant), prefix),
            ByNamespace(namespace_of(tenant)),
            ByTenant(f"t{tenant}"),
            BySession("a", f"t{tenant}"),
            ByTag(self._rng.choice(TAGS), f"t{tenant}"),
        ]
        selector = self._rng.choice(selectors)
        cache = self._core.cache
        expected = cache.prune(selector, dry_run=True)
        report = cache.prune(selector, dry_run=self._rng.random() < 0.2)
        same = ("freed_tokens", "condemned_tokens", "nodes", "pins")
        assert all(getattr(expected, name) == getattr(report, name) for name in same)
        if not report.dry_run and isinstance(selector, ByNamespace | ByTenant):
            self._forgot(tenant)

    def _hint(self, tenant: int) -> None:
        rng = self._rng
        hints: list[Hint] = [
            SessionWaits("a", rng.uniform(0, 3), f"t{tenant}"),
            SessionDone("b", f"t{tenant}"),
            LikelyNext(frozenset([rng.choice(TAGS)]), rng.uniform(0, 3), f"t{tenant}"),
        ]
        self._core.cache.hint(rng.choice(hints))

    def _publish(self, tenant: int) -> None:
        cache = self._core.cache
        if published := cache.published():
            cache.unpublish(published[0].handle)
            return
        try:
            cache.publish(PUBLIC, pack(self._traffic.shared[0]))
        except (NotCached, PinRefused):
            return

    def _clear(self, tenant: int) -> None:
        if self._rng.random() < 0.2:
            everything = self._rng.random() < 0.5
            self._core.cache.clear(None if everything else namespace_of(tenant))
            self._forgot(None if everything else tenant)


def namespace_of(tenant: int) -> bytes:
    """A tenant's root."""
    return hashlib.sha256(b"tenant %d" % tenant).digest()
