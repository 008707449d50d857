"""The small parts of the simulators: clock, requests, routing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentkit.caching.policy import BlockKind
from agentkit.caching.simulate import (
    Block,
    CacheRequest,
    Identity,
    ManualClock,
    Message,
    Role,
    SimulatedDeepSeek,
    system_clock,
)
from agentkit.caching.simulate.routing import Router


def test_a_manual_clock_goes_forward_only_and_has_a_time_zone() -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    clock.advance(90)
    assert clock() == datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC)
    with pytest.raises(ValueError, match="-1"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="no time zone"):
        ManualClock(datetime(2026, 1, 1))


def test_the_system_clock_has_a_time_zone() -> None:
    assert system_clock().tzinfo is not None


def test_a_block_has_no_negative_length() -> None:
    with pytest.raises(ValueError, match="-5"):
        Block(digest=b"", n_tokens=-5)


def test_a_message_of_tool_results_is_one_whoever_carries_it() -> None:
    result = Block(kind=BlockKind.TOOL_RESULT, digest=b"r", n_tokens=1)
    text = Block(digest=b"t", n_tokens=1)
    found = [
        Message(Role.USER, (result,)).is_tool_result,
        Message(Role.TOOL, (text,)).is_tool_result,
        Message(Role.USER, (result, text)).is_tool_result,
        Message(Role.USER, ()).is_tool_result,
    ]
    assert found == [True, True, False, False]


def test_the_router_counts_the_last_minute_for_each_route() -> None:
    router = Router()
    machines = [router.machine(b"a", now_s=0, per_minute=2) for _ in range(5)]
    assert machines == [0, 0, 1, 1, 2]
    assert router.machine(b"b", now_s=0, per_minute=2) == 0
    assert router.machine(b"a", now_s=60, per_minute=2) == 0
    with pytest.raises(ValueError, match="per_minute"):
        router.machine(b"a", now_s=0, per_minute=0)


def test_equal_blocks_in_other_sections_or_messages_are_no_common_prefix() -> None:
    cache = SimulatedDeepSeek(clock=ManualClock(), build_s=0)
    block = Block(digest=b"x", n_tokens=1000)
    identity = Identity(model="deepseek-flash")

    def read(request: CacheRequest) -> int:
        served = cache.request(request)
        return served.read  # type: ignore[union-attr]

    assert read(CacheRequest(identity=identity, system=(block,))) == 0
    assert read(CacheRequest(identity=identity, tools=(block,))) == 0
    for role in (Role.USER, Role.ASSISTANT):
        assert read(CacheRequest(identity=identity, messages=(Message(role, (block,)),))) == 0
    two = (Message(Role.USER, (block, block)),)
    assert read(CacheRequest(identity=identity, messages=two)) == 1000
    apart = (Message(Role.USER, (block,)), Message(Role.USER, (block,)))
    assert read(CacheRequest(identity=identity, messages=apart)) == 1000


def test_an_empty_request_is_served() -> None:
    served = SimulatedDeepSeek(clock=ManualClock()).request(
        CacheRequest(identity=Identity(model="deepseek-flash"))
    )
    assert served.split.total == 0  # type: ignore[union-attr]
