from __future__ import annotations

import pytest

import agentkit_runtime.kv.labels as labels_module
from agentkit_runtime.kv.hints import MAX_EXPECTED_S, LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.kv.prune import ByPrefix, BySession
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tokens import pack
from tests.runtime.kv.world import World


@pytest.fixture
def world() -> World:
    """Three sessions of 10 tokens each, used in the order a, b, c; c has a tag."""
    world = World(100)
    for first, session in enumerate("abc"):
        tags = frozenset({"writer"}) if session == "c" else frozenset[str]()
        world.whole(b"n", tokens_of(session), Scope(tenant="t", session=session, tags=tags))
        assert first < 3
    return world


def tokens_of(session: str) -> list[int]:
    return [ord(session)] * 10


def kept(world: World) -> str:
    return "".join(
        s for s in "abc" if world.cache.peek(b"n", pack(tokens_of(s))) == len(tokens_of(s))
    )


def test_without_hints_the_least_recently_used_goes_first(world: World) -> None:
    world.cache.evict(10)
    assert kept(world) == "bc"


def test_a_session_that_is_done_goes_first(world: World) -> None:
    world.cache.hint(SessionDone("c", "t"))
    world.cache.evict(10)
    assert kept(world) == "ab"


def test_a_session_that_waits_goes_last_until_its_time_is_over(world: World) -> None:
    world.cache.hint(SessionWaits("a", 5.0, "t"))
    world.cache.evict(10)
    assert kept(world) == "ac"
    world.now_s += 5.0
    world.cache.tick()
    world.cache.evict(10)
    assert kept(world) == "c"
    world.check()


def test_waiting_protects_from_others_not_from_a_full_pool(world: World) -> None:
    world.cache.hint(SessionWaits("a", 5.0, "t"))
    assert world.cache.evict(100) == 30


def test_a_session_that_is_back_is_an_ordinary_one(world: World) -> None:
    world.cache.hint(SessionWaits("a", 500.0, "t"))
    world.whole(b"n", tokens_of("a"), Scope(tenant="t", session="a"))
    for session in "bc":
        world.whole(b"n", tokens_of(session), Scope(tenant="t", session=session))
    world.cache.evict(10)
    assert kept(world) == "bc"


def test_a_session_that_was_done_can_come_back(world: World) -> None:
    world.cache.hint(SessionDone("b", "t"))
    world.whole(b"n", tokens_of("b"), Scope(tenant="t", session="b"))
    world.cache.evict(10)
    assert kept(world) == "bc"


def test_what_carries_an_expected_tag_goes_last_until_its_time_is_over(world: World) -> None:
    world.cache.hint(SessionWaits("a", 1.0, "t"))
    world.cache.hint(LikelyNext(frozenset({"writer", "other"}), 5.0, "t"))
    for session in "ba":
        world.whole(b"n", tokens_of(session), Scope(tenant="t", session=session))
    world.cache.evict(10)
    assert kept(world) == "ac"
    world.now_s += 5.0
    world.cache.evict(10)
    assert kept(world) == "a", "its hint is over, also without a tick"


def test_a_prefix_that_a_live_session_shares_does_not_go_with_the_dead_one() -> None:
    world = World(100)
    for session in ("dead", "live"):
        world.whole(b"n", [1] * 10, Scope(session=session))
    world.whole(b"n", [2] * 10, Scope(session="other"))
    world.cache.hint(SessionDone("dead"))
    world.cache.hint(SessionWaits("live", 9.0))
    world.cache.evict(10)
    assert world.cache.peek(b"n", pack([1] * 10)) == 10


def test_a_front_that_several_sessions_have_left_is_ordinary_when_all_are_done() -> None:
    world = World(200)
    world.whole(b"n", [9] * 10)
    for n in range(3):
        scope = Scope(session=f"reader {n}", tags=frozenset({"reader"}))
        run = world.begin(b"n", [1] * 10 + [2 + n] * 5, scope)
        world.compute(run, 15 - run.lease.committed)
        world.release(run)
        world.cache.hint(SessionDone(f"reader {n}"))
    world.cache.evict(15)
    assert world.cache.peek(b"n", pack([1] * 10)) == 10, "their tails went, not their front"
    world.check()
    world.cache.evict(10)
    assert world.cache.peek(b"n", pack([9] * 10)) == 0, "the oldest of what is ordinary"
    assert world.cache.peek(b"n", pack([1] * 10)) == 10


def test_the_tail_of_a_done_session_goes_first_also_where_its_tag_is_expected(world: World) -> None:
    world.cache.hint(LikelyNext(frozenset({"writer"}), 60.0, "t"))
    world.cache.hint(SessionDone("c", "t"))
    world.cache.hint(LikelyNext(frozenset({"writer"}), 90.0, "t"))
    world.cache.evict(10)
    assert kept(world) == "ab"
    world.check()


def test_a_front_that_is_expected_again_outlives_ordinary_prefixes() -> None:
    world = World(200)
    for n in range(2):
        scope = Scope(session=f"reader {n}", tags=frozenset({"reader"}))
        run = world.begin(b"n", [1] * 10 + [2 + n] * 5, scope)
        world.compute(run, 15 - run.lease.committed)
        world.release(run)
        world.cache.hint(SessionDone(f"reader {n}"))
    world.whole(b"n", [9] * 10)
    world.cache.hint(LikelyNext(frozenset({"reader"}), 60.0))
    world.cache.evict(20)
    assert world.cache.peek(b"n", pack([1] * 10)) == 10
    assert world.cache.peek(b"n", pack([9] * 10)) == 0


def test_hints_about_another_tenant_s_sessions_do_nothing(world: World) -> None:
    world.cache.hint(SessionDone("c", "intruder"))
    world.cache.hint(SessionWaits("a", 5.0, "intruder"))
    world.cache.hint(LikelyNext(frozenset({"writer"}), 5.0, "intruder"))
    world.cache.evict(10)
    assert kept(world) == "bc"


def test_a_leaf_that_a_wanted_session_has_left_behind_is_ordinary() -> None:
    world = World(100)
    wanted = Scope(session="w", tags=frozenset({"x"}))
    world.cache.hint(LikelyNext(frozenset({"x"}), 60.0))
    world.whole(b"n", [1] * 10, wanted)
    other = world.begin(b"n", [1] * 10 + [9], Scope(session="other"))
    longer = world.begin(b"n", [1] * 10 + [2] * 5, wanted)
    world.compute(longer, 5)
    for run in (other, longer):
        world.release(run)
    world.cache.prune(ByPrefix(b"n", pack([1] * 10 + [2])))
    world.check()
    world.whole(b"n", [3] * 10, Scope(session="later"))
    world.cache.evict(10)
    assert world.cache.peek(b"n", pack([3] * 10)) == 10


def test_a_leaf_that_inherits_a_session_that_is_done_goes_first() -> None:
    world = World(100)
    world.whole(b"n", [1] * 10)
    world.whole(b"m", [5])  # takes the next slot: what follows gets a leaf of its own
    run = world.begin(b"n", [1] * 10 + [2] * 5, Scope(session="s"))
    world.compute(run, 5)
    world.release(run)
    world.cache.hint(SessionDone("s"))
    world.cache.evict(5)
    world.check()
    assert [len(label.ends) for label in world.cache._labels.all()] == [1]


def test_plain_lru_looks_at_no_hint() -> None:
    world = World(100, policy="lru")
    for session in "ab":
        world.whole(b"n", tokens_of(session), Scope(session=session))
    world.cache.hint(SessionDone("b"))
    world.cache.evict(10)
    assert kept(world) == "b"


def test_a_hint_keeps_nothing_for_longer_than_an_hour(world: World) -> None:
    world.cache.hint(SessionWaits("a", float("inf"), "t"))
    world.now_s += MAX_EXPECTED_S
    world.cache.evict(10)
    assert kept(world) == "bc"


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels_module, "MAX_OWNERS", 5)
    monkeypatch.setattr(labels_module, "MAX_TAGS", 3)
    world = World(200)
    for session in range(20):
        world.whole(b"n", [session, 1, 2], Scope(session=str(session)))
        world.cache.hint(SessionWaits(str(session), 60.0))
        world.cache.hint(LikelyNext(frozenset({f"tag {session}"}), 60.0))
    assert len(world.cache._labels) == 5
    assert len(world.cache._timers) == 5 + 3
    world.check()
    for _ in range(1_000):
        world.cache.hint(SessionWaits("19", 60.0))
        world.cache.hint(LikelyNext(frozenset({"tag 19"}), 50.0))
    assert len(world.cache._timers._heap) < 200
    world.cache.evict(45)
    assert world.cache.peek(b"n", pack([19, 1, 2])) == 3, "the newest are the ones known"
    world.now_s += 60.0
    world.cache.tick()
    assert len(world.cache._timers) == 0
    world.check()


def test_a_session_that_was_forgotten_while_it_ran_leaves_ordinary_prefixes(world: World) -> None:
    run = world.begin(b"n", [9] * 10, Scope(tenant="t", session="d"))
    world.cache.hint(SessionWaits("d", 60.0, "t"))
    world.cache.prune(BySession("d", "t"))
    world.compute(run, 10)
    world.release(run)
    world.check()
    for session in "abc":
        world.whole(b"n", tokens_of(session), Scope(tenant="t", session=session))
    world.cache.evict(10)
    assert kept(world) == "abc"


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_times_before_now_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"expected_s must (not be negative|be a number)"):
        SessionWaits("s", seconds)
    with pytest.raises(ValueError, match=r"within_s must (not be negative|be a number)"):
        LikelyNext(frozenset(), seconds)


def test_a_tenant_with_endless_sessions_and_tags_takes_no_protection_from_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names are free: else whoever invents enough of them decides what others keep."""
    monkeypatch.setattr(labels_module, "MAX_OWNERS", 6)
    monkeypatch.setattr(labels_module, "MAX_TAGS", 6)
    world = World(200)
    for index in range(2):
        scope = Scope(tenant="quiet", session=f"s{index}")
        world.whole(b"quiet", [index] * 5, scope)
    world.whole(b"quiet", [7] * 5, Scope(tenant="quiet", tags=frozenset({"tag"})))
    world.cache.hint(SessionWaits("s0", 60.0, "quiet"))
    world.cache.hint(LikelyNext(frozenset({"tag"}), 60.0, "quiet"))
    for index in range(20):
        world.whole(b"loud", [index] * 5, Scope(tenant="loud", session=f"s{index}"))
        world.cache.hint(SessionWaits(f"s{index}", 60.0, "loud"))
        world.cache.hint(LikelyNext(frozenset({f"tag {index}", "tag"}), 60.0, "loud"))
    world.check()

    assert len(world.cache._labels) == 6
    assert world.cache.expects(Scope(tenant="quiet", session="s0"))
    assert world.cache.expects(Scope(tenant="quiet", tags=frozenset({"tag"})))
    assert world.cache.prune(BySession("s1", "quiet")).freed_tokens == 5
    # A newcomer gets its place from who has most.
    world.whole(b"new", [1] * 5, Scope(tenant="new", session="s0"))
    world.cache.hint(SessionWaits("s0", 60.0, "new"))
    assert world.cache.expects(Scope(tenant="new", session="s0"))
    assert world.cache.expects(Scope(tenant="quiet", session="s0"))
    assert not world.cache.expects(Scope(tenant="loud", session="s0"))
