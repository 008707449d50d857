from __future__ import annotations

import pytest

from agentkit_runtime.errors import NotCached, OutOfSlots, PinRefused
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.pins import PinQuota
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.tree import RadixTree

FRONT = list(range(100, 110))
ANN, BOB = Scope(tenant="ann"), Scope(tenant="bob")


class Clock:
    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> KvCache:
    """100 slots: a tenant may pin 25 tokens, all together 50."""
    return KvCache(SlotAllocator(100), RadixTree(), eviction_step=1, clock=clock)


def fill(cache: KvCache, tokens: list[int], namespace: bytes = b"n") -> None:
    lease = cache.acquire(namespace, pack(tokens))
    cache.grow(lease, len(tokens))
    cache.commit(lease, pack(tokens))
    cache.release(lease)


def test_a_pinned_prefix_survives_what_evicts_everything_else(cache: KvCache) -> None:
    fill(cache, [*FRONT, 1, 2, 3])
    pin = cache.pin(b"n", pack(FRONT), scope=ANN, name="researcher")
    assert (pin.tokens, pin.tenant, pin.name, pin.expires_at_s) == (10, "ann", "researcher", None)
    assert cache.evict(100) == 3
    assert cache.peek(b"n", pack(FRONT)) == 10
    assert cache.available == 90
    big = cache.acquire(b"n", b"")
    with pytest.raises(OutOfSlots):
        cache.grow(big, 91)
    assert cache.unpin(pin.handle)
    cache.grow(big, 91)
    assert cache.peek(b"n", pack(FRONT)) == 9
    cache.check_integrity([big])


def test_pinning_the_same_again_is_the_same_pin(cache: KvCache, clock: Clock) -> None:
    fill(cache, FRONT)
    first = cache.pin(b"n", pack(FRONT), scope=ANN, ttl_s=10.0, name="a")
    clock.now_s += 6.0
    again = cache.pin(b"n", pack(FRONT), scope=ANN, ttl_s=10.0)
    assert again.handle == first.handle
    assert again.name == "a"
    assert (first.expires_at_s, again.expires_at_s) == (60.0, 66.0)
    assert cache.pins() == [again]
    assert cache.unpin(first.handle)
    assert not cache.unpin(first.handle)
    assert cache.available == 100, "it was locked once"
    other = cache.pin(b"n", pack(FRONT), scope=BOB)
    assert other.handle != first.handle


def test_only_what_is_cached_can_be_pinned(cache: KvCache) -> None:
    fill(cache, FRONT[:4])
    with pytest.raises(NotCached, match="10 tokens are to be pinned, but only the first 4 are"):
        cache.pin(b"n", pack(FRONT), scope=ANN)
    with pytest.raises(NotCached):
        cache.pin(b"nobody", pack(FRONT), scope=ANN)
    assert cache.pins() == []
    cache.check_integrity([])
    cache.clear()
    assert cache.free_slots == 100


def test_each_use_of_the_prefix_moves_its_end(cache: KvCache, clock: Clock) -> None:
    fill(cache, FRONT)
    cache.pin(b"n", pack(FRONT), scope=ANN, ttl_s=10.0)
    for _ in range(5):
        clock.now_s += 9.0
        cache.tick()
        cache.release(cache.acquire(b"n", pack([*FRONT, 7])))
    assert [pin.expires_at_s for pin in cache.pins()] == [clock.now_s + 10.0]
    clock.now_s += 9.0
    cache.release(cache.acquire(b"n", pack(FRONT[:5])))  # a use of a part is none of the whole
    clock.now_s += 1.0
    assert cache.pins() == []


def test_a_pin_that_is_over_frees_nothing_by_itself(cache: KvCache, clock: Clock) -> None:
    fill(cache, FRONT)
    cache.pin(b"n", pack(FRONT), scope=ANN, ttl_s=10.0)
    clock.now_s += 10.0
    cache.tick()
    assert cache.peek(b"n", pack(FRONT)) == 10
    assert cache.pinned_tokens == 0
    assert cache.evict(3) == 3
    cache.check_integrity([])


def test_a_full_pool_ends_pins_that_are_over_also_without_a_tick(
    cache: KvCache, clock: Clock
) -> None:
    fill(cache, FRONT)
    cache.pin(b"n", pack(FRONT), scope=ANN, ttl_s=10.0)
    clock.now_s += 10.0
    assert cache.evict(10) == 10


def test_a_longer_or_no_time_to_live_replaces_the_first(cache: KvCache, clock: Clock) -> None:
    fill(cache, FRONT)
    cache.pin(b"n", pack(FRONT), ttl_s=1.0)
    cache.pin(b"n", pack(FRONT), ttl_s=None)
    clock.now_s += 100.0
    assert len(cache.pins()) == 1
    cache.pin(b"n", pack(FRONT), ttl_s=50.0)
    cache.pin(b"n", pack(FRONT), ttl_s=5.0)
    clock.now_s += 5.0
    assert cache.pins() == []


@pytest.mark.parametrize(("first_s", "left_s"), [(None, None), (60.0, 60.0), (5.0, 10.0)])
def test_a_pin_can_be_renewed_without_taking_anything_from_it(
    cache: KvCache, clock: Clock, first_s: float | None, left_s: float | None
) -> None:
    fill(cache, FRONT)
    cache.pin(b"n", pack(FRONT), ttl_s=first_s, name="mine")
    clock.now_s += 1.0

    pin = cache.pin(b"n", pack(FRONT), ttl_s=10.0, name="other", only_longer=True)

    assert (pin.name, pin.ttl_s) == ("mine", left_s)
    assert pin.expires_at_s == (None if left_s is None else clock.now_s + left_s)


def test_the_end_of_a_pin_does_not_end_its_successor(cache: KvCache, clock: Clock) -> None:
    fill(cache, FRONT)
    first = cache.pin(b"n", pack(FRONT), ttl_s=10.0)
    cache.unpin(first.handle)
    assert cache.pin(b"n", pack(FRONT)).handle == first.handle
    clock.now_s += 10.0
    assert len(cache.pins()) == 1


def test_a_tenant_over_its_quota_is_refused_with_the_numbers(cache: KvCache) -> None:
    fill(cache, list(range(26)))
    with pytest.raises(
        PinRefused, match=r"these 26 tokens .* would have 26 pinned, .* limit is 25"
    ):
        cache.pin(b"n", pack(range(26)), scope=ANN)
    cache.pin(b"n", pack(range(25)), scope=ANN)
    cache.pin(b"n", pack(range(10)), scope=BOB)
    assert len(cache.pins("ann")) == 1


def test_tokens_that_pins_share_count_once(cache: KvCache) -> None:
    for agent in range(5):
        fill(cache, [*FRONT, *FRONT, agent])
        cache.pin(b"n", pack([*FRONT, *FRONT, agent]), scope=ANN)
    assert cache.pinned_tokens == 25
    fill(cache, [*FRONT, *FRONT, 5])
    with pytest.raises(PinRefused, match="would have 26 pinned"):
        cache.pin(b"n", pack([*FRONT, *FRONT, 5]), scope=ANN)


def test_all_tenants_together_leave_room_to_work(cache: KvCache) -> None:
    for tenant in "abc":
        fill(cache, list(range(20)), tenant.encode())
    for tenant in "ab":
        cache.pin(tenant.encode(), pack(range(20)), scope=Scope(tenant=tenant))
    with pytest.raises(PinRefused, match="than the limit for all tenants together, 50;"):
        cache.pin(b"c", pack(range(20)), scope=Scope(tenant="c"))
    cache.pin(b"c", pack(range(10)), scope=Scope(tenant="c"))


def test_quotas_can_be_set() -> None:
    cache = KvCache(SlotAllocator(100), RadixTree(), pin_quota=PinQuota(per_tenant=3, total=5))
    fill(cache, [1, 2, 3, 4])
    with pytest.raises(PinRefused, match="its limit is 3"):
        cache.pin(b"n", pack([1, 2, 3, 4]))
    cache.pin(b"n", pack([1, 2, 3]))
    fill(cache, [1, 2, 3], b"m")
    with pytest.raises(PinRefused, match="together, 5;"):
        cache.pin(b"m", pack([1, 2, 3]), scope=ANN)
    with pytest.raises(ValueError, match="per_tenant must not be negative, got -1"):
        PinQuota(per_tenant=-1)


def test_a_tenant_sees_and_ends_its_own_pins_only(cache: KvCache) -> None:
    fill(cache, FRONT)
    pin = cache.pin(b"n", pack(FRONT), scope=ANN)
    assert cache.pins("bob") == []
    assert not cache.unpin(pin.handle, tenant="bob")
    assert cache.unpin(pin.handle, tenant="ann")


def test_a_pin_does_not_outlive_a_clear_of_its_namespace(cache: KvCache) -> None:
    for namespace in (b"n", b"m"):
        fill(cache, FRONT, namespace)
        cache.pin(namespace, pack(FRONT), scope=ANN)
    assert cache.clear(b"n") == 10
    assert len(cache.pins()) == 1
    assert (cache.peek(b"n", pack(FRONT)), cache.peek(b"m", pack(FRONT))) == (0, 10)
    assert cache.clear() == 10
    assert cache.pins() == []
    cache.check_integrity([])


def test_a_pinned_leaf_that_a_sequence_goes_on_from_keeps_its_end(cache: KvCache) -> None:
    fill(cache, FRONT)
    pin = cache.pin(b"n", pack(FRONT), scope=ANN)
    fill(cache, [*FRONT, 1, 2, 3])
    assert cache.pinned_tokens == 10
    cache.release(cache.acquire(b"n", pack(FRONT[:4])))  # splits the pinned node
    assert cache.pinned_tokens == 10
    assert cache.evict(100) == 3
    assert cache.unpin(pin.handle)
    cache.check_integrity([])


def test_a_time_to_live_of_nothing_is_refused(cache: KvCache) -> None:
    fill(cache, FRONT)
    with pytest.raises(ValueError, match="ttl_s must be positive, or None for ever, got 0"):
        cache.pin(b"n", pack(FRONT), ttl_s=0)
    assert cache.available == 100


def test_a_tenant_can_have_a_quota_of_its_own_at_any_time(cache: KvCache) -> None:
    cache.set_pin_quotas({"ann": 2})
    fill(cache, [1, 2, 3])
    with pytest.raises(PinRefused, match="its limit is 2"):
        cache.pin(b"n", pack([1, 2, 3]), scope=ANN)
    assert cache.pin(b"n", pack([1, 2, 3]), scope=BOB).tokens == 3
    cache.set_pin_quotas({})
    assert cache.pin(b"n", pack([1, 2, 3]), scope=ANN).tokens == 3
