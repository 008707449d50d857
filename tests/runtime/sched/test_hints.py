"""What the framework says of the future: sessions that come back, pins that end."""

from __future__ import annotations

from agentkit_runtime.kv.hints import LikelyNext, SessionWaits
from agentkit_runtime.sched.options import SchedulerOptions
from tests.runtime.sched.simulation import Request, Simulation, prompt_of, simulation


def busy(**options: object) -> Simulation:
    """One lane, which is taken, and a session that has had one request."""
    options = {"max_lanes": 1, "cached_token_s": 0.0, **options}
    sim = simulation(2000, options=SchedulerOptions(**options))  # type: ignore[arg-type]
    sim.add(prompt_of(0, 10), 1, session="s")
    sim.drain()
    sim.add(prompt_of(1, 10), 20)
    sim.run(2)
    return sim


def first_of(sim: Simulation, *requests: Request) -> int:
    sim.drain()
    return min(range(len(requests)), key=lambda i: requests[i].started_step or 0)


def come(sim: Simulation) -> tuple[Request, Request]:
    other = sim.add(prompt_of(2, 10), 1)
    sim.run(5)
    return other, sim.add(prompt_of(3, 10), 1, session="s")


def test_a_session_that_comes_back_from_its_tool_goes_a_little_earlier() -> None:
    sim = busy()
    sim.cache.hint(SessionWaits("s", expected_s=30.0))
    assert first_of(sim, *come(sim)) == 1


def test_it_goes_before_those_only_that_came_shortly_before_it() -> None:
    sim = busy(returning_s=0.3)
    sim.cache.hint(SessionWaits("s", expected_s=30.0))
    assert first_of(sim, *come(sim)) == 0


def test_a_session_that_nobody_expects_takes_its_turn() -> None:
    sim = busy()
    assert first_of(sim, *come(sim)) == 0


def test_a_session_that_comes_too_late_is_not_expected_any_more() -> None:
    sim = busy()
    sim.cache.hint(SessionWaits("s", expected_s=0.2))
    assert first_of(sim, *come(sim)) == 0


def test_an_agent_that_is_likely_next_goes_a_little_earlier() -> None:
    sim = busy()
    sim.cache.hint(LikelyNext(frozenset({"coder"}), within_s=30.0))
    other = sim.add(prompt_of(2, 10), 1)
    sim.run(5)
    assert first_of(sim, other, sim.add(prompt_of(3, 10), 1, tags=frozenset({"coder"}))) == 1


def test_each_step_ends_pins_whose_time_is_over() -> None:
    sim = simulation(500)
    known = sim.add(prompt_of(0, 50), 1)
    sim.drain()
    sim.cache.pin(b"ns", known.sequence.key(50), ttl_s=0.45)
    sim.add(prompt_of(1, 20), 20)
    sim.run(3)
    assert sim.cache.evictable_slots == 0
    sim.run(3)
    assert sim.cache.evictable_slots == 50
