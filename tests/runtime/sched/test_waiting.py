"""The waiting queue against a plain list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.sched.sequence import Sequence
from agentkit_runtime.sched.waiting import WaitingQueue
from agentkit_runtime.types import GenerateRequest, Priority
from tests.runtime.sched.simulation import NoText

TENANTS = "ab"


def sequence(arrival: int, priority: Priority, tenant: str, rank: float) -> Sequence:
    request = GenerateRequest(
        request_id=str(arrival),
        prompt=(1,),
        namespace=b"n",
        text=NoText(),
        scope=Scope(tenant=tenant),
        priority=priority,
    )
    made = Sequence.start(request, arrival=arrival, now_s=0.0, max_length=10)
    made.rank = rank
    return made


ranks = st.sampled_from([-1.0, 0.0, 2.0])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "remove", "rerank", "return"]),
            st.sampled_from(Priority),
            st.sampled_from(TENANTS),
            ranks,
            st.integers(0, 50),
        ),
        max_size=40,
    )
)
def test_lines_are_in_order_whatever_came_and_went(
    steps: list[tuple[str, Priority, str, float, int]],
) -> None:
    queue = WaitingQueue()
    here: list[Sequence] = []
    gone: list[Sequence] = []
    for arrival, (what, priority, tenant, rank, pick) in enumerate(steps):
        if what == "add":
            here.append(sequence(arrival, priority, tenant, rank))
            queue.add(here[-1])
        elif what == "remove" and here:
            gone.append(here.pop(pick % len(here)))
            queue.remove(gone[-1])
        elif what == "rerank" and here:
            queue.rerank(here[pick % len(here)], rank)
        elif what == "return" and gone:
            here.append(gone.pop(pick % len(gone)))
            queue.add(here[-1])
        check(queue, here)


def check(queue: WaitingQueue, here: list[Sequence]) -> None:
    assert len(queue) == len(here)
    assert set(queue) == set(here)
    assert queue.oldest() is min(here, key=lambda s: s.arrival, default=None)
    assert queue.highest() == max((s.priority for s in here), default=None)
    for priority in Priority:
        mine = [s for s in here if s.priority is priority]
        assert queue.counts[priority] == len(mine)
        assert set(queue.tenants(priority)) == {s.tenant for s in mine}
        for tenant in TENANTS:
            line = sorted(
                (s for s in mine if s.tenant == tenant), key=lambda s: (s.rank, s.arrival)
            )
            assert queue.line(priority, tenant, 100) == line
            assert queue.line(priority, tenant, 2) == line[:2]


def test_everybody_is_looked_at_in_turn() -> None:
    queue = WaitingQueue()
    for i in range(5):
        queue.add(sequence(i, Priority.NORMAL, "a", 0.0))
    seen = [s.arrival for _ in range(5) for s in queue.next_in_turn(2)]
    assert sorted(seen) == sorted([*range(5), *range(5)])
    assert len(queue.next_in_turn(100)) == 5


def test_memory_is_bounded_while_one_waits_and_many_come_and_go() -> None:
    queue = WaitingQueue()
    queue.add(sequence(0, Priority.NORMAL, "a", 0.0))
    for i in range(1, 3000):
        passing = sequence(i, Priority.NORMAL, "b", 0.0)
        queue.add(passing)
        queue.remove(passing)
    assert len(queue._by_age) <= 70
    assert queue.tenants(Priority.NORMAL) == ["a"]
