"""Random use of a whole cache, from one seed."""

from __future__ import annotations

import random

from agentkit_runtime.kv.hints import LikelyNext, SessionDone, SessionWaits
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
from tests.runtime.kv.world import PUBLIC, World

TENANTS = ("ann", "bob")
STEMS = [[1] * 40, [1] * 20 + [2] * 30, [2] * 17 + [1] * 19]
"""Prompts begin like one of these, so that they share and part at many places."""


class RandomUse:
    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.rng = random.Random(seed)
        self.handles: list[str] = []
        self.published: list[str] = []

    def step(self) -> None:
        rng, world = self.rng, self.world
        kind = rng.random()
        if kind < 0.27:
            self._begin()
        elif kind < 0.62:
            if world.running:
                run = rng.choice(world.running)
                if run.computed == len(run.tokens):
                    run.tokens += [rng.randrange(3) for _ in range(rng.randrange(1, 20))]
                world.compute(run, rng.randrange(1, 40), commit=rng.random() < 0.9)
        elif kind < 0.86:
            if world.running:
                world.release(rng.choice(world.running))
        else:
            self._rare()

    def _rare(self) -> None:
        rng, world = self.rng, self.world
        tenant = rng.choice(TENANTS)
        kind = rng.randrange(64)
        if kind < 10:
            world.cache.evict(rng.randrange(40))
        elif kind < 20:
            world.now_s += rng.choice([0.0, 1.0, 7.0])
            world.cache.tick()
        elif kind < 28:
            self._pin(tenant)
        elif kind < 31 and self.handles:
            world.cache.unpin(self.handles.pop())
        elif kind < 40:
            self._hint(tenant)
        elif kind < 44:
            world.prune(self._selector(tenant))
        elif kind < 46:
            handle = world.publish(self._tokens()[: rng.randrange(1, 40)])
            if handle is not None:
                self.published.append(handle)
        elif kind < 48 and self.published:
            world.cache.unpublish(self.published.pop(rng.randrange(len(self.published))))
        elif kind < 58:
            self._restore(tenant)
        elif kind == 58:
            world.cache.clear(rng.choice([tenant.encode(), None, PUBLIC]))
        else:
            tokens = pack(self._tokens())
            walk = world.cache.explain(tenant.encode(), tokens, scope=self._scope(tenant))
            assert walk.matched == world.cache.peek(
                tenant.encode(), tokens, scope=Scope(public=PUBLIC if walk.public else None)
            )

    def _tokens(self) -> list[int]:
        rng = self.rng
        stem = rng.choice(STEMS)
        return stem[: rng.randrange(1, len(stem) + 1)] + [
            rng.randrange(3) for _ in range(rng.randrange(12))
        ]

    def _scope(self, tenant: str) -> Scope:
        rng = self.rng
        if rng.random() < 0.2:
            return NO_SCOPE
        return Scope(
            tenant=tenant,
            public=PUBLIC if rng.random() < 0.7 else None,
            session=rng.choice([None, "s1", "s2", "s3"]),
            tags=frozenset(rng.sample(["x", "y"], rng.randrange(3))),
        )

    def _begin(self) -> None:
        if len(self.world.running) < 6:
            tenant = self.rng.choice(TENANTS)
            self.world.begin(tenant.encode(), self._tokens(), self._scope(tenant))

    def _pin(self, tenant: str) -> None:
        rng, world = self.rng, self.world
        scope = self._scope(tenant)
        tokens = self._tokens()
        if rng.random() < 0.8:
            n_known = world.cache.peek(tenant.encode(), pack(tokens), scope=scope)
            tokens = tokens[:n_known]
        handle = world.pin(tenant.encode(), tokens, scope, rng.choice([None, 3.0, 10.0]))
        if handle is not None:
            self.handles.append(handle)

    def _hint(self, tenant: str) -> None:
        rng, world = self.rng, self.world
        session = rng.choice(["s1", "s2", "s3", "nobody"])
        seconds = rng.choice([0.0, 2.0, 9.0])
        world.cache.hint(
            rng.choice(
                [
                    SessionWaits(session, seconds, tenant),
                    SessionDone(session, tenant),
                    LikelyNext(frozenset({"x", "z"}), seconds, tenant),
                ]
            )
        )

    def _restore(self, tenant: str) -> None:
        rng, world = self.rng, self.world
        if world.restores and rng.random() < 0.6:
            restore = rng.choice(world.restores)
            world.tiers.load_fails = rng.random() < 0.1
            world.finish_restore(restore, rng.choice([None, None, 1, 0]))
        elif world.restores and rng.random() < 0.3:
            restore = rng.choice(world.restores)
            world.restores.remove(restore)
            world.cache.cancel_restore(restore)
        elif len(world.restores) < 3:
            for _ in range(4):  # until something is there to restore
                if world.begin_restore(tenant.encode(), self._tokens(), self._scope(tenant)):
                    return

    def _selector(self, tenant: str) -> Selector:
        rng = self.rng
        tokens = self._tokens()
        kinds: list[Selector] = [
            ByPrefix(tenant.encode(), pack(tokens[: rng.randrange(len(tokens) + 1)])),
            ByPrefix(PUBLIC, pack(tokens)),
            ByNamespace(tenant.encode()),
            ByTenant(tenant),
            BySession(rng.choice(["s1", "s2", "s3", "nobody"]), tenant),
            ByTag(rng.choice(["x", "y"]), tenant),
        ]
        if self.handles:
            kinds.append(ByPin(rng.choice(self.handles)))
        return rng.choice(kinds)
