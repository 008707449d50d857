"""The simulated Gemini caches: implicit, and cached-content objects."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal as D
from typing import Any

import pytest

from agentkit.caching.policy import BlockKind, Platform
from agentkit.caching.simulate import (
    Block,
    CachedContent,
    CacheRequest,
    Identity,
    InFlight,
    ManualClock,
    Mark,
    Message,
    MissReason,
    RefusalReason,
    Refused,
    Role,
    Served,
    SimulatedGemini,
    Tenant,
)
from agentkit.errors import UnknownModel

FLASH = Identity(model="gemini-3.8-flash")


def block(name: str, n: int = 4096, mark: Mark | None = None) -> Block:
    return Block(digest=name.encode(), n_tokens=n, mark=mark)


def ask(*blocks: Block, **more: Any) -> CacheRequest:
    messages = (Message(Role.USER, blocks),) if blocks else ()
    return CacheRequest(**({"identity": FLASH, "messages": messages} | more))


FRONT = ask(
    tools=(Block(kind=BlockKind.TOOL, digest=b"t", n_tokens=1000),),
    system=(block("s", 9000),),
)


def serve(cache: SimulatedGemini, request: CacheRequest, **more: Any) -> Served:
    served = cache.request(request, **more)
    assert isinstance(served, Served), served
    return served


def create(cache: SimulatedGemini, request: CacheRequest = FRONT, **more: Any) -> CachedContent:
    content = cache.create(request, **more)
    assert isinstance(content, CachedContent), content
    return content


def test_a_common_prefix_is_read_without_marks_and_without_a_write_fee(
    clock: ManualClock,
) -> None:
    cache = SimulatedGemini(clock=clock)
    first = serve(cache, ask(block("a"), block("b")))
    assert (first.read, first.write_by_ttl) == (0, {})
    served = serve(cache, ask(block("a"), block("c")))
    assert (served.read, served.uncached) == (4096, 4096)
    assert served.cost is not None
    # 4096 * 0.075 + 4096 * 0.75, in millionths
    assert served.cost.total == D("0.0033792")


@pytest.mark.parametrize(("n_tokens", "read"), [(4095, 0), (4096, 4096)])
def test_a_prefix_below_the_minimum_is_not_read(
    clock: ManualClock, n_tokens: int, read: int
) -> None:
    cache = SimulatedGemini(clock=clock)
    request = ask(block("a", n_tokens))
    serve(cache, request)
    served = serve(cache, request)
    assert served.read == read
    assert (served.miss_reason is MissReason.TOO_SHORT) == (read == 0)


def test_an_unknown_minimum_is_an_error(clock: ManualClock) -> None:
    with pytest.raises(UnknownModel, match="gemini-4-neon"):
        SimulatedGemini(clock=clock).request(ask(identity=Identity(model="gemini-4-neon")))


def test_entries_expire_unused_and_on_google_cloud_after_a_day_whatever_happens(
    clock: ManualClock,
) -> None:
    request = ask(block("a"))
    cache = SimulatedGemini(clock=clock, lifetime_s=100)
    serve(cache, request)
    clock.advance(100)
    assert serve(cache, request).miss_reason is MissReason.EXPIRED
    cloud = SimulatedGemini(clock=clock, platform=Platform.GOOGLE_CLOUD, lifetime_s=50_000)
    serve(cloud, request)
    clock.advance(49_000)
    assert serve(cloud, request).read == 4096
    clock.advance(37_400)
    assert serve(cloud, request).read == 0


def test_the_implicit_cache_can_be_absent(clock: ManualClock) -> None:
    cache = SimulatedGemini(clock=clock, implicit=False)
    serve(cache, ask(block("a")))
    assert serve(cache, ask(block("a"))).miss_reason is MissReason.NO_MARKS


def test_organisations_never_share(clock: ManualClock) -> None:
    cache = SimulatedGemini(clock=clock)
    content = create(cache)
    serve(cache, ask(block("a")))
    other = Tenant(organization="other")
    assert serve(cache, ask(block("a"), tenant=other)).read == 0
    assert isinstance(cache.get(content.name, other), Refused)
    assert cache.living(other) == ()
    stolen = cache.request(ask(block("q"), tenant=other, cached_content=content.name))
    assert isinstance(stolen, Refused)


def test_parallel_cold_requests_do_not_read_each_other(clock: ManualClock) -> None:
    cache = SimulatedGemini(clock=clock)
    assert isinstance(cache.begin(ask(block("a"))), InFlight)
    flight = cache.begin(ask(block("a")))
    assert isinstance(flight, InFlight)
    assert flight.served.miss_reason is MissReason.NOT_YET_READABLE


def test_cached_content_is_billed_as_input_once_and_read_cheaply(clock: ManualClock) -> None:
    cache = SimulatedGemini(clock=clock)
    content = create(cache)
    assert content.creation_cost is not None
    assert content.creation_cost.total == D("0.0075")
    served = serve(cache, ask(block("q", 100), cached_content=content.name), output_tokens=10)
    assert (served.read, served.uncached) == (10_000, 100)
    assert served.cost is not None
    # 10000 * 0.075 + 100 * 0.75 + 10 * 3.75, in millionths
    assert served.cost.total == D("0.0008625")


def test_storage_is_billed_by_the_token_hour_until_the_end(clock: ManualClock) -> None:
    cache = SimulatedGemini(clock=clock)
    content = create(cache, ttl_s=7200)
    clock.advance(1800)
    assert cache.storage_cost(content.name) == D("0.0025")
    cache.update(content.name, ttl_s=1800)
    clock.advance(5000)
    assert cache.storage_cost(content.name) == D("0.0050")
    assert isinstance(cache.get(content.name), Refused)


def test_storage_of_an_unknown_price_is_unknown(clock: ManualClock) -> None:
    old = Identity(model="gemini-2.5-flash")
    cache = SimulatedGemini(clock=clock)
    content = create(cache, replace(FRONT, identity=old))
    assert content.creation_cost is None
    assert cache.storage_cost(content.name) is None


def test_deleting_ends_the_storage_bill(clock: ManualClock) -> None:
    cache = SimulatedGemini(clock=clock)
    content = create(cache)
    clock.advance(360)
    assert isinstance(cache.delete(content.name), CachedContent)
    clock.advance(3600)
    assert cache.storage_cost(content.name) == D("0.0005")
    assert isinstance(cache.delete(content.name), Refused)
    assert cache.living() == ()


def test_cached_content_lives_an_hour_by_default_and_reading_does_not_prolong_it(
    clock: ManualClock,
) -> None:
    cache = SimulatedGemini(clock=clock)
    content = create(cache)
    request = ask(block("q", 100), cached_content=content.name)
    clock.advance(3599)
    assert serve(cache, request).read == 10_000
    assert cache.living() == (content,)
    clock.advance(1)
    refused = cache.request(request)
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.status) == (RefusalReason.CACHED_CONTENT, 404)


@pytest.mark.parametrize(
    "change",
    [
        {"identity": Identity(model="gemini-3.7-flash")},
        {"tools": FRONT.tools},
        {"system": FRONT.system},
    ],
)
def test_a_request_on_cached_content_keeps_its_model_and_brings_no_front(
    clock: ManualClock, change: dict[str, Any]
) -> None:
    cache = SimulatedGemini(clock=clock)
    request = ask(block("q"), cached_content=create(cache).name)
    refused = cache.request(replace(request, **change))
    assert isinstance(refused, Refused)
    assert refused.reason is RefusalReason.CACHED_CONTENT


@pytest.mark.parametrize(
    ("request_", "ttl_s", "platform"),
    [
        (ask(block("a", 4095)), None, Platform.DIRECT),
        (FRONT, 0, Platform.DIRECT),
        (FRONT, 59, Platform.GOOGLE_CLOUD),
        (replace(FRONT, identity=Identity(model="gemini-4-argon")), None, Platform.DIRECT),
    ],
)
def test_cached_content_that_cannot_be_is_refused(
    clock: ManualClock, request_: CacheRequest, ttl_s: float | None, platform: Platform
) -> None:
    cache = SimulatedGemini(clock=clock, platform=platform)
    assert isinstance(cache.create(request_, ttl_s=ttl_s), Refused)


def test_a_life_of_nothing_is_a_mistake(clock: ManualClock) -> None:
    cache = SimulatedGemini(clock=clock)
    with pytest.raises(ValueError, match="delete"):
        cache.update(create(cache).name, ttl_s=0)


def test_marks_are_refused_rather_than_ignored(clock: ManualClock) -> None:
    assert isinstance(SimulatedGemini(clock=clock).request(ask(block("a", mark=Mark()))), Refused)


def test_usage_leaves_out_zero_counts(clock: ManualClock) -> None:
    cache = SimulatedGemini(clock=clock)
    cold = serve(cache, ask(block("a")), output_tokens=5)
    assert cold.usage_json == {
        "promptTokenCount": 4096,
        "candidatesTokenCount": 5,
        "totalTokenCount": 4101,
    }
    warm = serve(cache, ask(block("a")), output_tokens=5)
    assert warm.usage_json["cachedContentTokenCount"] == 4096
