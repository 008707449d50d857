"""The order in which running sequences leave."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agentkit_runtime.sched.sequence import Sequence
from agentkit_runtime.sched.victims import by_cost, freed_slots, recompute_cost
from agentkit_runtime.types import GenerateRequest, Priority
from tests.runtime.sched.simulation import NoText


@dataclass
class FakeLease:
    """Of 100 committed tokens, `exclusive` are read by nobody else."""

    exclusive: int
    capacity: int
    committed: int = 100


def running(
    arrival: int = 0,
    *,
    priority: Priority = Priority.NORMAL,
    exclusive: int = 50,
    computed: int = 100,
    capacity: int = 100,
    preemptions: int = 0,
) -> Sequence:
    request = GenerateRequest(
        request_id=str(arrival),
        prompt=(1,) * 100,
        namespace=b"n",
        text=NoText(),
        priority=priority,
    )
    sequence = Sequence.start(request, arrival=arrival, now_s=0.0, max_length=1000)
    sequence.lease = FakeLease(exclusive, capacity)  # type: ignore[assignment]
    sequence.computed, sequence.preemptions = computed, preemptions
    return sequence


def test_what_is_locked_by_others_costs_nothing_and_frees_nothing() -> None:
    sequence = running(exclusive=30, computed=120, capacity=160)
    assert recompute_cost(sequence) == 30 + 20
    assert freed_slots(sequence) == 30 + 60


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (running(priority=Priority.BATCH, exclusive=90), running(exclusive=40)),
        (running(exclusive=90), running(exclusive=40, preemptions=2)),
        (running(exclusive=40), running(exclusive=90)),
        (running(exclusive=90), running(exclusive=10)),  # which frees too little
        (running(exclusive=20), running(exclusive=10)),  # both free too little
        (running(exclusive=0, capacity=200), running(exclusive=40)),  # nothing computed yet
        (running(arrival=2), running(arrival=1)),
    ],
)
def test_it_hurts_least_when_the_first_leaves(first: Sequence, second: Sequence) -> None:
    for order in ([first, second], [second, first]):
        assert by_cost(order, n_slots=30, max_preemptions=2) == [first, second]
