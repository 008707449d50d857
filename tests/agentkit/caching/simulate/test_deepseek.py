"""The simulated DeepSeek cache, against the vectors of its KV-cache guide."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal as D
from typing import Any

import pytest

from agentkit.caching.policy import DeepSeekUnit, Switches
from agentkit.caching.simulate import (
    Block,
    CacheRequest,
    Identity,
    InFlight,
    ManualClock,
    Mark,
    Message,
    MissReason,
    Refused,
    Role,
    Served,
    SimulatedDeepSeek,
    Tenant,
)


def block(name: str, n: int = 1000, mark: Mark | None = None) -> Block:
    return Block(digest=name.encode(), n_tokens=n, mark=mark)


def ask(names: str, **more: Any) -> CacheRequest:
    """A request of one user message; each letter is a block."""
    messages = (Message(Role.USER, tuple(block(name) for name in names)),)
    identity = Identity(model="deepseek-flash", cache_key=more.pop("user_id", None))
    return CacheRequest(identity=identity, messages=messages, **more)


def serve(cache: SimulatedDeepSeek, request: CacheRequest, **more: Any) -> Served:
    served = cache.request(request, **more)
    assert isinstance(served, Served), served
    return served


def test_a_request_that_extends_another_hits_its_whole_input(clock: ManualClock) -> None:
    cache = SimulatedDeepSeek(clock=clock, build_s=0)
    serve(cache, ask("AB"))
    assert serve(cache, ask("ABC")).read == 2000


def test_a_common_prefix_is_a_unit_only_from_the_third_request_on(clock: ManualClock) -> None:
    cache = SimulatedDeepSeek(clock=clock, build_s=0)
    serve(cache, ask("AB"))
    second = serve(cache, ask("AC"))
    assert (second.read, second.miss_reason) == (0, MissReason.NEVER_WRITTEN)
    assert serve(cache, ask("AD")).read == 1000


def test_the_end_of_a_reply_is_a_unit_too(clock: ManualClock) -> None:
    cache = SimulatedDeepSeek(clock=clock, build_s=0)
    serve(cache, ask("A"), output=[block("reply", 500)])
    first = ask("A").messages[0]
    reply = Message(Role.ASSISTANT, (block("reply", 500),))
    following = CacheRequest(
        identity=Identity(model="deepseek-flash"),
        messages=(first, reply, Message(Role.USER, (block("B"),))),
    )
    assert serve(cache, following).read == 1500


def test_long_texts_have_units_at_fixed_distances(clock: ManualClock) -> None:
    cache = SimulatedDeepSeek(clock=clock, build_s=0, interval_tokens=2000)
    serve(cache, ask("ABCDE"))
    assert serve(cache, ask("ABCX")).read == 2000
    without = SimulatedDeepSeek(clock=clock, build_s=0)
    serve(without, ask("ABCDE"))
    assert serve(without, ask("ABCX")).read == 0


def test_units_take_seconds_to_build_and_stay_a_day_unused(clock: ManualClock) -> None:
    cache = SimulatedDeepSeek(clock=clock)
    serve(cache, ask("A"))
    clock.advance(4)
    assert serve(cache, ask("A")).miss_reason is MissReason.NOT_YET_READABLE
    clock.advance(1)
    assert serve(cache, ask("A")).read == 1000
    clock.advance(86_399)
    assert serve(cache, ask("A")).read == 1000
    clock.advance(86_400)
    assert serve(cache, ask("A")).miss_reason is MissReason.EXPIRED


def test_a_request_in_flight_builds_nothing_and_a_failed_one_never_does(
    clock: ManualClock,
) -> None:
    cache = SimulatedDeepSeek(clock=clock, build_s=0)
    flight = cache.begin(ask("A"))
    assert isinstance(flight, InFlight)
    flight.response_began()
    assert serve(cache, ask("A"), output=()).read == 0
    other = cache.begin(ask("Z"))
    assert isinstance(other, InFlight)
    other.response_began()
    other.abort()
    assert serve(cache, ask("Z")).miss_reason is MissReason.NEVER_WRITTEN


@pytest.mark.parametrize("other", [{"user_id": "two"}, {"tenant": Tenant(organization="other")}])
def test_users_and_organisations_never_share(clock: ManualClock, other: dict[str, Any]) -> None:
    cache = SimulatedDeepSeek(clock=clock, build_s=0)
    serve(cache, ask("A", user_id="one"))
    assert serve(cache, ask("A", **({"user_id": "one"} | other))).read == 0
    assert serve(cache, ask("A", user_id="one")).read == 1000


def test_the_old_rule_reads_any_common_prefix_in_blocks_of_64(clock: ManualClock) -> None:
    switches = Switches(deepseek_unit=DeepSeekUnit.BLOCKS_OF_64)
    cache = SimulatedDeepSeek(clock=clock, build_s=0, switches=switches)
    serve(cache, ask("AB"))
    assert serve(cache, ask("AC")).read == 960


def test_marks_are_refused_rather_than_ignored(clock: ManualClock) -> None:
    marked = Message(Role.USER, (block("A", mark=Mark()),))
    request = CacheRequest(identity=Identity(model="deepseek-flash"), messages=(marked,))
    assert isinstance(SimulatedDeepSeek(clock=clock).request(request), Refused)


def test_usage_splits_the_prompt_into_hit_and_miss(clock: ManualClock) -> None:
    cache = SimulatedDeepSeek(clock=clock, build_s=0)
    serve(cache, ask("AB"))
    assert serve(cache, ask("ABC"), output_tokens=7).usage_json == {
        "prompt_tokens": 3000,
        "completion_tokens": 7,
        "total_tokens": 3007,
        "prompt_cache_hit_tokens": 2000,
        "prompt_cache_miss_tokens": 1000,
        "prompt_tokens_details": {"cached_tokens": 2000},
    }


@pytest.mark.parametrize(("hour", "total"), [(2, "0.000312"), (12, "0.000156")])
def test_the_bill_depends_on_the_hour_and_writing_is_free(hour: int, total: str) -> None:
    cache = SimulatedDeepSeek(
        clock=ManualClock(datetime(2026, 11, 27, hour, tzinfo=UTC)), build_s=0
    )
    serve(cache, ask("AB"))
    cost = serve(cache, ask("ABC")).cost
    assert cost is not None
    assert (cost.total, cost.write) == (D(total), 0)


def test_an_interval_is_at_least_one_token(clock: ManualClock) -> None:
    with pytest.raises(ValueError, match="interval_tokens"):
        SimulatedDeepSeek(clock=clock, interval_tokens=0)
