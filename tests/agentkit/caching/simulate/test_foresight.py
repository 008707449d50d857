"""What simulated caches tell without being asked for an answer, and how they are corrected."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agentkit.caching.plan.draft import LiveEntries
from agentkit.caching.policy import BlockKind, Ttl, anthropic_policy
from agentkit.caching.simulate import (
    Block,
    CacheRequest,
    Identity,
    InFlight,
    ManualClock,
    Mark,
    Message,
    Role,
    Served,
    SimulatedAnthropic,
    SimulatedCache,
    SimulatedDeepSeek,
    SimulatedGemini,
    SimulatedOpenAi,
)

MODELS = {
    "anthropic": "claude-opus-5",
    "openai": "gpt-6-sol",
    "openai-before": "gpt-5.5",
    "deepseek": "deepseek-flash",
    "gemini": "gemini-3.8-flash",
}
ALL = pytest.mark.parametrize("name", list(MODELS))


def make(name: str, clock: ManualClock) -> SimulatedCache:
    match name:
        case "anthropic":
            return SimulatedAnthropic(clock=clock)
        case "deepseek":
            return SimulatedDeepSeek(clock=clock, build_s=0)
        case "gemini":
            return SimulatedGemini(clock=clock)
        case _:
            return SimulatedOpenAi(clock=clock)


def asked(name: str, *texts: str) -> CacheRequest:
    mark = Mark() if name in ("anthropic", "openai") else None
    blocks = tuple(Block(digest=text.encode(), n_tokens=5000, mark=mark) for text in texts)
    return CacheRequest(
        identity=Identity(model=MODELS[name]), messages=(Message(Role.USER, blocks),)
    )


@ALL
def test_a_preview_is_the_answer_and_changes_nothing(name: str, clock: ManualClock) -> None:
    cache, other = make(name, clock), make(name, clock)
    for texts in (("a",), ("a", "b"), ("a", "c"), ("a", "d")):
        request = asked(name, *texts)
        for _ in range(20):  # also beyond the rate that one machine takes
            preview = cache.preview(request)
        assert preview == cache.request(request) == other.request(request)


@ALL
def test_what_was_written_is_told_for_any_marks(name: str, clock: ManualClock) -> None:
    cache = make(name, clock)
    assert cache.written(asked(name, "a", "b")).entries[:] == [None, None]
    cache.request(asked(name, "a"))
    longer = asked(name, "a", "b")
    unmarked = longer.with_blocks([replace(block, mark=None) for block in longer.blocks])
    entry, missing = cache.written(unmarked).entries
    assert missing is None
    assert entry is not None
    assert entry.readable_s <= clock().timestamp() < entry.expires_s
    clock.advance(10**6)
    assert cache.written(unmarked).entries[:] == [None, None]


def test_entries_have_their_lifetime_and_end(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    request = asked("anthropic", "a")
    hour = request.with_blocks([replace(b, mark=Mark(Ttl.ONE_HOUR)) for b in request.blocks])
    cache.request(hour)
    entry = cache.written(request).at(0)
    assert entry is not None
    assert entry.ttl is Ttl.ONE_HOUR
    assert entry.expires_s == clock().timestamp() + 3600


def test_what_is_being_written_is_not_readable_yet(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    flight = cache.begin(asked("anthropic", "a"))
    assert isinstance(flight, InFlight)
    coming = cache.written(asked("anthropic", "a")).at(0)
    assert coming is not None
    assert coming.readable_s == math.inf
    flight.abort()
    assert cache.written(asked("anthropic", "a")).at(0) is None


def test_blocks_outside_the_prompt_have_no_entry_and_shift_no_other(clock: ManualClock) -> None:
    """Deferred tools, and thinking that the model no longer sees."""
    cache = SimulatedAnthropic(clock=clock)
    request = CacheRequest(
        identity=Identity(model="claude-haiku-4-5"),
        tools=(
            Block(kind=BlockKind.DEFERRED_TOOL, digest=b"late", n_tokens=900),
            Block(kind=BlockKind.TOOL, digest=b"tool", n_tokens=5000, mark=Mark()),
        ),
        messages=(
            Message(Role.USER, (Block(digest=b"q", n_tokens=50),)),
            Message(
                Role.ASSISTANT,
                (
                    Block(kind=BlockKind.THINKING, digest=b"hm", n_tokens=70),
                    Block(digest=b"a", n_tokens=50),
                ),
            ),
            Message(Role.USER, (Block(digest=b"q2", n_tokens=50, mark=Mark()),)),
        ),
    )
    cache.request(request)
    there = [entry is not None for entry in cache.written(request).entries]
    assert there == [False, True, False, False, False, True]
    # Prefixes have names all the same, block by block: others are found by them.
    rules = anthropic_policy("claude-haiku-4-5", clock().date()).invalidations
    keys = cache.known_of(request, rules).keys
    assert len(set(keys)) == request.n_blocks
    other = replace(request, identity=Identity(model="claude-haiku-4-5", tool_choice="any"))
    others = cache.known_of(other, rules).keys
    assert others[:2] == keys[:2]
    assert set(others[2:]).isdisjoint(keys)


@ALL
def test_a_request_is_known_by_the_prefixes_that_the_cache_goes_by(
    name: str, clock: ManualClock
) -> None:
    cache = make(name, clock)
    short, longer, other = asked(name, "a"), asked(name, "a", "b"), asked(name, "c", "b")
    known = [cache.known_of(each, ()) for each in (short, longer, other)]
    assert known[1].keys[: len(known[0].keys)] == known[0].keys
    assert set(known[2].keys).isdisjoint(known[1].keys)
    assert known[0].written.entries[:] == cache.written(short).entries[:]


def test_entries_of_a_lifetime_are_found_by_it(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    ttls = (Ttl.ONE_HOUR, Ttl.ONE_HOUR, None)
    request = asked("anthropic", "a", "b", "c")
    marked = request.with_marks({at: Mark(ttl) for at, ttl in enumerate(ttls)})
    flight = cache.begin(marked)
    assert isinstance(flight, InFlight)
    coming = cache.written(request).entries
    assert isinstance(coming, LiveEntries)
    assert list(coming.places_of(Ttl.ONE_HOUR)) == [0, 1, 2]  # these are not known one by one
    flight.end()
    entries = cache.written(request).entries
    assert isinstance(entries, LiveEntries)
    assert list(entries.places) == [0, 1, 2]
    assert list(entries.places_of(Ttl.ONE_HOUR)) == [0, 1]
    assert list(entries.places_of(Ttl.FIVE_MINUTES)) == [2]


@ALL
def test_a_cache_that_read_less_is_corrected(name: str, clock: ManualClock) -> None:
    cache = make(name, clock)
    request = asked(name, "a", "b")
    cache.request(asked(name, "a"))
    cache.request(request)
    cache.drop(request, 1)
    assert [entry is not None for entry in cache.written(request).entries] == [True, False]
    served = cache.preview(request)
    assert isinstance(served, Served)
    assert served.read == (4992 if name == "openai-before" else 5000) - _cut(name)


def _cut(name: str) -> int:
    return 4992 - 4096 if name == "openai-before" else 0


@ALL
def test_a_cache_that_read_more_is_corrected(name: str, clock: ManualClock) -> None:
    cache = make(name, clock)
    request = asked(name, "a", "b")
    cache.known(request, 0, None)
    entry = cache.written(request).at(0)
    assert entry is not None
    assert cache.written(request).at(1) is None
    served = cache.preview(request)
    assert isinstance(served, Served)
    assert served.read == 5000 - _cut(name) - (8 if name == "openai-before" else 0)
    cache.known(request, 1, Ttl.ONE_HOUR)
    longer = cache.written(request).at(1)
    assert longer is not None
    assert longer.ttl is Ttl.ONE_HOUR


@pytest.mark.parametrize(
    ("name", "life_s"), [("anthropic", 300), ("openai", 1800), ("openai-before", 1800)]
)
def test_an_entry_that_was_found_gets_the_providers_default_lifetime(
    name: str, life_s: int, clock: ManualClock
) -> None:
    cache = make(name, clock)
    request = asked(name, "a")
    cache.known(request, 0, None)
    clock.advance(life_s - 1)
    assert cache.written(request).at(0) is not None
    clock.advance(1)
    assert cache.written(request).at(0) is None
