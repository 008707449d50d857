"""The gate and its pressure, whatever the engine says and in whatever order requests go."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.governing.gate import GateLimits, Pass, PressureGate
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.governing.pressure import PressureLimits, pressure_of
from agentkit_runtime.types import Priority
from tests.runtime.governing.test_gate import Clock, Engine, asked, stats

FIGURES = st.fixed_dictionaries(
    {
        "held": st.integers(0, 2_000),
        "waiting": st.integers(0, 600),
        "waiting_tokens": st.integers(0, 10**9),
        "oldest_wait_s": st.floats(0, 1e6),
        "prefill": st.tuples(st.integers(0, 10**9), st.floats(0, 1e6), st.integers(0, 1_000)),
    }
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["enter", "opened", "leave"]), st.integers(0, 9)), max_size=40
)


@settings(deadline=None)
@given(figures=FIGURES, n_coming=st.integers(0, 500), more=st.integers(0, 500))
def test_pressure_is_a_share_and_more_load_never_lowers_it(
    figures: dict[str, object], n_coming: int, more: int
) -> None:
    now, limits = stats(**figures), PressureLimits()  # type: ignore[arg-type]
    found = pressure_of(now, limits, n_coming=n_coming)
    for share in (found.slots, found.queue, found.wait, found.index):
        assert 0.0 <= share <= 1.0
    assert found.cause
    busier = dataclasses.replace(now, waiting=now.waiting + more)
    assert pressure_of(busier, limits, n_coming=n_coming).index >= found.index
    assert pressure_of(now, limits, n_coming=n_coming + more).index >= found.index


@settings(deadline=None)
@given(steps=STEPS)
def test_no_place_is_left_behind_and_no_more_are_taken_than_there_are(
    steps: list[tuple[str, int]],
) -> None:
    lifecycle = Lifecycle("ready")
    limits = GateLimits(max_requests=8, pressure=PressureLimits(max_waiting=12))
    gate = PressureGate(Engine(), lifecycle, limits, clock=Clock())
    inside: list[tuple[Pass, int]] = []
    refusals: list[ApiError] = []
    coming = 0
    for kind, which in steps:
        if kind == "enter":
            n = 1 + which % 4
            try:
                inside.append((gate.enter(asked(priority=Priority(which % 3), n=n)), n))
            except ApiError as refused:
                refusals.append(refused)
            else:
                coming += n
        elif inside:
            at = which % len(inside)
            ticket, n = inside[at]
            coming -= n
            if kind == "opened":
                ticket.opened()
                inside[at] = (ticket, 0)
            else:
                ticket.leave()
                del inside[at]
        assert lifecycle.n_inside == len(inside) <= 8
        assert gate.pressure().queue == coming / 12
    for ticket, _ in inside:
        ticket.leave()
    assert all(refused.status == 429 and refused.retry_after_s for refused in refusals)
    assert (lifecycle.n_inside, gate.pressure().index) == (0, 0.0)
