"""Prefixes that must not be evicted, with an owner, a quota and perhaps an end.

A pin holds a lock, so nothing but its own end lets its tokens go. When its time is over it gives
the lock back, and the tokens become ordinary cached ones. A pin does not outlive a `clear` of its
namespace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from agentkit_runtime.checks import require_whole
from agentkit_runtime.errors import PinRefused
from agentkit_runtime.kv.node import Node
from agentkit_runtime.kv.timers import Timers
from agentkit_runtime.kv.tokens import count
from agentkit_runtime.kv.tree import RadixTree

_DOMAIN = b"agentkit-pin/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinQuota:
    """How many tokens may be pinned. Tokens that pins of one tenant share count once."""

    per_tenant: int | None = None
    """None is a quarter of the pool."""
    total: int | None = None
    """Of all tenants, published prefixes included; None is half of the pool."""

    def __post_init__(self) -> None:
        for name in ("per_tenant", "total"):
            limit = getattr(self, name)
            if limit is not None:
                require_whole(name, limit, least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A pinned prefix, as its owner sees it."""

    handle: str
    """The same for the same tenant, namespace and tokens. Cannot be guessed by others."""
    tokens: int
    tenant: str
    name: str | None
    ttl_s: float | None
    """It ends so long after the last use of the prefix; None is never."""
    expires_at_s: float | None
    """On the cache's clock; each use of the prefix moves it."""


class HeldPin:
    """A pin and its lock."""

    __slots__ = ("expires_s", "handle", "name", "namespace", "node", "tenant", "tokens", "ttl_s")

    def __init__(self, handle: str, namespace: bytes, tenant: str, tokens: bytes, node: Node):
        self.handle = handle
        self.namespace = namespace
        self.tenant = tenant
        self.tokens = tokens
        self.node = node
        self.name: str | None = None
        self.ttl_s: float | None = None
        self.expires_s: float | None = None

    def view(self) -> Pin:
        """What its owner may see."""
        return Pin(
            handle=self.handle,
            tokens=count(self.tokens),
            tenant=self.tenant,
            name=self.name,
            ttl_s=self.ttl_s,
            expires_at_s=self.expires_s,
        )


class Pins:
    """The pins of one tree. `per_tenant` and `total` are limits in tokens.

    `others` gives nodes that are pinned in another way and count towards `total`.
    """

    def __init__(
        self,
        tree: RadixTree,
        timers: Timers,
        clock: Callable[[], float],
        *,
        per_tenant: int,
        total: int,
        others: Callable[[], Iterable[Node]],
    ) -> None:
        self._tree = tree
        self._others = others
        self._timers = timers
        self._clock = clock
        self._per_tenant = per_tenant
        self.quotas: Mapping[str, int] = {}
        """Tokens that tenants may pin, of those that have a limit of their own. May be replaced at
        any time: pins that are there stay."""
        self._total = total
        self._pins: dict[str, HeldPin] = {}
        self._at: dict[Node, list[HeldPin]] = {}

    def add(
        self,
        namespace: bytes,
        tokens: bytes,
        node: Node,
        *,
        tenant: str,
        ttl_s: float | None,
        name: str | None,
        only_longer: bool = False,
    ) -> Pin:
        """Pin the path to `node`, or renew the pin that is there. Raises PinRefused.

        With `only_longer` a pin that is there keeps its name, and its time where that is longer.
        """
        if ttl_s is not None and not ttl_s > 0.0:
            raise ValueError(f"ttl_s must be positive, or None for ever, got {ttl_s!r}")
        handle = handle_of(namespace, tenant, tokens)
        pin = self._pins.get(handle)
        if pin is not None and only_longer:
            name = None
            ttl_s = _longer(pin.ttl_s, ttl_s)
        if pin is None:
            pin = HeldPin(handle, namespace, tenant, tokens, node)
            self._require_room(pin)
            self._tree.lock(node)
            self._pins[handle] = pin
            self._at.setdefault(node, []).append(pin)
        if name is not None:
            pin.name = name
        pin.ttl_s = ttl_s
        self._renew(pin)
        return pin.view()

    def require_room(self, node: Node) -> None:
        """Raise PinRefused unless the path to `node` fits beside all that is pinned."""
        pinned = self._in_all(node)
        if pinned > self._total:
            raise PinRefused(
                f"with this prefix {pinned} tokens would be pinned, and the limit for all tenants "
                f"together is {self._total}; unpin something or make the pool larger"
            )

    def used(self, node: Node) -> None:
        """A sequence uses the path to `node`: pins on it are renewed."""
        if self._at:
            for step in node.upwards():
                for pin in self._at.get(step, ()):
                    self._renew(pin)

    def drop(self, handle: str) -> HeldPin | None:
        """End a pin; None when there is none."""
        pin = self._pins.pop(handle, None)
        if pin is not None:
            others = self._at[pin.node]
            others.remove(pin)
            if not others:
                del self._at[pin.node]
            self._timers.cancel(pin)
            self._tree.unlock(pin.node)
        return pin

    def get(self, handle: str) -> HeldPin | None:
        """The pin with this handle."""
        return self._pins.get(handle)

    def tokens(self, tenant: str | None = None) -> int:
        """Tokens pinned by one tenant, or by all; those that pins share count once."""
        return _size(self._nodes(tenant))

    def __iter__(self) -> Iterator[HeldPin]:
        return iter(list(self._pins.values()))

    def _renew(self, pin: HeldPin) -> None:
        if pin.ttl_s is None:
            pin.expires_s = None
            self._timers.cancel(pin)
            return
        armed = pin.expires_s
        pin.expires_s = self._clock() + pin.ttl_s
        # The timer that is set fires early and looks again: renewing costs nothing.
        if armed is None or pin.expires_s < armed:
            self._timers.set(pin, pin.expires_s, lambda: self._expire(pin))

    def _expire(self, pin: HeldPin) -> None:
        assert pin.expires_s is not None, "only pins with an end have a timer"
        if pin.expires_s > self._clock():
            self._timers.set(pin, pin.expires_s, lambda: self._expire(pin))
        else:
            self.drop(pin.handle)

    def _require_room(self, pin: HeldPin) -> None:
        pinned = _size([pin.node, *self._nodes(pin.tenant)])
        limit = self.quotas.get(pin.tenant, self._per_tenant)
        if pinned > limit:
            raise PinRefused(
                f"with these {count(pin.tokens)} tokens the tenant would have {pinned} pinned, and "
                f"its limit is {limit}; unpin something"
            )
        if self._in_all(pin.node) > self._total:  # how many are others' is not said
            raise PinRefused(
                f"with these {count(pin.tokens)} tokens more would be pinned than the limit for "
                f"all tenants together, {self._total}; unpin something or make the pool larger"
            )

    def _in_all(self, node: Node) -> int:
        """Tokens that would be pinned with the path to `node`."""
        return _size([node, *self._nodes(), *self._others()])

    def _nodes(self, tenant: str | None = None) -> list[Node]:
        return [pin.node for pin in self._pins.values() if tenant in (None, pin.tenant)]


def handle_of(namespace: bytes, tenant: str, tokens: bytes) -> str:
    """The handle of a pin: a digest, keyed by the namespace that only the server can name."""
    label = tenant.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(_DOMAIN)
    for part in (namespace, label, tokens):
        digest.update(len(part).to_bytes(8, "little") + part)
    return f"pin-{digest.hexdigest()[:32]}"


def _longer(one_s: float | None, other_s: float | None) -> float | None:
    """None is for ever."""
    return None if one_s is None or other_s is None else max(one_s, other_s)


def _size(nodes: Iterable[Node]) -> int:
    """Tokens on the paths to all these nodes together."""
    on_path: set[Node] = set()
    for node in nodes:
        for step in node.upwards():
            if step in on_path:
                break
            on_path.add(step)
    return sum(step.extent.length for step in on_path)
