from __future__ import annotations

from agentkit_runtime.kv.timers import Timers


def test_actions_run_in_order_and_once() -> None:
    timers, ran = Timers(), list[str]()
    for name, when_s in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
        timers.set(name, when_s, lambda name=name: ran.append(name))
    timers.run(2.0)
    assert ran == ["a", "b"]
    timers.run(9.0)
    timers.run(9.0)
    assert ran == ["a", "b", "c"]
    assert len(timers) == 0


def test_a_key_has_one_time_the_last_one_set() -> None:
    timers, ran = Timers(), list[str]()
    timers.set("k", 1.0, lambda: ran.append("early"))
    timers.set("k", 5.0, lambda: ran.append("late"))
    timers.run(4.0)
    assert ran == []
    timers.set("k", 4.5, lambda: ran.append("earlier again"))
    timers.run(9.0)
    assert ran == ["earlier again"]


def test_what_is_cancelled_does_not_run() -> None:
    timers, ran = Timers(), list[str]()
    timers.set("k", 1.0, lambda: ran.append("k"))
    timers.cancel("k")
    timers.cancel("never set")
    timers.run(9.0)
    assert ran == []


def test_an_action_may_set_itself_again() -> None:
    timers, ran = Timers(), list[float]()

    def again() -> None:
        ran.append(len(ran))
        if len(ran) < 3:
            timers.set("k", float(len(ran)), again)

    timers.set("k", 0.0, again)
    timers.run(1.0)
    assert len(ran) == 2
    timers.run(2.0)
    assert len(ran) == 3


def test_times_that_are_replaced_for_ever_do_not_pile_up() -> None:
    timers = Timers()
    for n in range(10_000):
        timers.set("k", 1e9 - n, lambda: None)
    assert len(timers) == 1
    assert len(timers._heap) < 200
