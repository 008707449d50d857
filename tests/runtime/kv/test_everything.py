"""Pins, hints, pruning, published prefixes, slower tiers and running sequences at the same time.

`World` checks each operation against a shadow of the pool; integrity is checked after each step.
What is evicted in which order is checked elsewhere (`test_state_machine`, `test_hints`).
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentkit_runtime.kv.hints import Hint, LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.kv.policy import PolicyName
from agentkit_runtime.kv.prune import (
    ByNamespace,
    ByPin,
    ByPrefix,
    BySession,
    ByTag,
    ByTenant,
    Selector,
)
from agentkit_runtime.kv.scope import NO_SCOPE, Scope
from agentkit_runtime.kv.tokens import pack
from tests.runtime.kv.random_use import RandomUse
from tests.runtime.kv.world import PUBLIC, World

tenants = st.sampled_from(["ann", "bob"])
sessions = st.sampled_from(["s1", "s2", "s3"])
prompts = st.builds(
    lambda head, middle, tail: [1] * head + [2] * middle + tail,
    st.integers(0, 20),
    st.integers(0, 20),
    st.lists(st.integers(0, 2), min_size=1, max_size=4),
)
seconds = st.sampled_from([0.0, 2.0, 9.0])
scopes = st.builds(
    Scope,
    tenant=tenants,
    public=st.sampled_from([PUBLIC, PUBLIC, None]),
    session=st.none() | sessions,
    tags=st.frozensets(st.sampled_from("xy")),
)
hints: st.SearchStrategy[Hint] = st.one_of(
    st.builds(SessionWaits, sessions, seconds, tenants),
    st.builds(SessionDone, sessions, tenants),
    st.builds(LikelyNext, st.frozensets(st.sampled_from("xyz")), seconds, tenants),
)
selectors: st.SearchStrategy[Selector] = st.one_of(
    st.builds(ByPrefix, tenants.map(str.encode), prompts.map(pack)),
    st.builds(ByPrefix, st.just(PUBLIC), prompts.map(pack)),
    st.builds(ByNamespace, tenants.map(str.encode)),
    st.builds(ByTenant, tenants),
    st.builds(BySession, sessions, tenants),
    st.builds(ByTag, st.sampled_from("xy"), tenants),
)


class Everything(RuleBasedStateMachine):
    @initialize(
        n_slots=st.integers(60, 160),
        policy=st.sampled_from(["hints", "hints", "lru", "lfu", "slru"]),
        tier_blocks=st.sampled_from([0, 3, 50]),
    )
    def start(self, n_slots: int, policy: PolicyName, tier_blocks: int) -> None:
        self.world = World(n_slots, policy=policy, tier_blocks=tier_blocks)
        self.handles: list[str] = []
        self.published: list[str] = []

    @precondition(lambda self: len(self.world.running) < 4)
    @rule(scope=scopes, prompt=prompts)
    def begin(self, scope: Scope, prompt: list[int]) -> None:
        self.world.begin(scope.tenant.encode(), prompt, scope)

    @precondition(lambda self: self.world.running and len(self.world.running) < 4)
    @rule(data=st.data(), more=prompts, scope=scopes)
    def fork(self, data: st.DataObject, more: list[int], scope: Scope) -> None:
        parent = data.draw(st.sampled_from(self.world.running))
        shared = parent.tokens[: data.draw(st.integers(0, len(parent.tokens)))]
        self.world.begin(parent.lease.namespace, [*shared, *more], scope)

    @precondition(lambda self: self.world.running)
    @rule(data=st.data(), n_tokens=st.integers(1, 60), commit=st.sampled_from([True, True, False]))
    def compute(self, data: st.DataObject, n_tokens: int, commit: bool) -> None:
        run = data.draw(st.sampled_from(self.world.running))
        if run.computed == len(run.tokens):
            run.tokens += data.draw(prompts)
        self.world.compute(run, n_tokens, commit=commit)

    @precondition(lambda self: self.world.running)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.world.release(data.draw(st.sampled_from(self.world.running)))

    @rule(scope=scopes, prompt=prompts)
    def whole(self, scope: Scope, prompt: list[int]) -> None:
        self.world.whole(scope.tenant.encode(), prompt, scope)

    @rule(scope=scopes, prompt=prompts, ttl_s=st.sampled_from([None, 3.0, 8.0]))
    def pin(self, scope: Scope, prompt: list[int], ttl_s: float | None) -> None:
        namespace = scope.tenant.encode()
        known = self.world.cache.peek(namespace, pack(prompt), scope=scope)
        handle = self.world.pin(namespace, prompt[: max(known, 1)], scope, ttl_s)
        if handle is not None:
            self.handles.append(handle)

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), prune=st.booleans())
    def unpin_or_prune(self, data: st.DataObject, prune: bool) -> None:
        handle = data.draw(st.sampled_from(self.handles))
        if prune:
            self.world.prune(ByPin(handle))
        else:
            self.world.cache.unpin(handle)

    @rule(seconds=st.sampled_from([1.0, 4.0]))
    def wait(self, seconds: float) -> None:
        self.world.now_s += seconds
        self.world.cache.tick()

    @rule(hint=hints)
    def hint(self, hint: Hint) -> None:
        self.world.cache.hint(hint)

    @rule(selector=selectors)
    def prune(self, selector: Selector) -> None:
        self.world.prune(selector)

    @rule(n_tokens=st.integers(1, 60))
    def evict(self, n_tokens: int) -> None:
        evictable = self.world.cache.evictable_slots
        assert self.world.cache.evict(n_tokens) == min(n_tokens, evictable)

    @rule(prompt=prompts)
    def publish(self, prompt: list[int]) -> None:
        handle = self.world.publish(prompt)
        if handle is not None:
            self.published.append(handle)

    @precondition(lambda self: self.published)
    @rule(data=st.data())
    def unpublish(self, data: st.DataObject) -> None:
        self.world.cache.unpublish(data.draw(st.sampled_from(self.published)))

    @precondition(lambda self: len(self.world.restores) < 2)
    @rule(scope=scopes, prompt=prompts)
    def begin_restore(self, scope: Scope, prompt: list[int]) -> None:
        self.world.begin_restore(scope.tenant.encode(), prompt, scope)

    @precondition(lambda self: self.world.restores)
    @rule(arrived=st.sampled_from([None, None, 0, 1]), fails=st.sampled_from([False, False, True]))
    def finish_restore(self, arrived: int | None, fails: bool) -> None:
        self.world.tiers.load_fails = fails
        self.world.finish_restore(self.world.restores[0], arrived)

    @precondition(lambda self: self.world.tree.total_tokens > 40)
    @rule(namespace=st.sampled_from([b"ann", PUBLIC, None]))
    def clear(self, namespace: bytes | None) -> None:
        before = self.world.allocator.free_slots
        cleared = self.world.cache.clear(namespace)
        assert self.world.allocator.free_slots == before + cleared

    @invariant()
    def all_is_well(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.end()


TestEverything = Everything.TestCase
TestEverything.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_long_random_use_meets_every_operation_and_leaks_nothing() -> None:
    counts: dict[str, int] = {}
    for seed, policy in enumerate(("hints", "lru", "lfu")):
        world = World(110 + 80 * seed, policy=policy)
        use = RandomUse(world, seed)
        for step in range(2_500):
            use.step()
            if step % 25 == 0:
                world.check()
        world.end()
        for name, n in world.counts.items():
            counts[name] = counts.get(name, 0) + n
    for name in ("pinned", "PinRefused", "NotCached", "published", "freed", "condemned"):
        assert counts[name] > 5, name
    for name in ("restored", "load failed", "commit refused", "out of slots"):
        assert counts[name] > 0, name
    assert world.begin(b"ann", [1, 2], NO_SCOPE).lease.cached == 0
