"""Marks at Anthropic: where they go, what for, and what they cost."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import pytest

from agentkit.caching.plan.draft import Draft, SharedBy, SharedPrefix, Written
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import (
    AnthropicPolicy,
    BlockKind,
    LookbackUnit,
    Policy,
    Switches,
    Ttl,
    policy_for,
)
from agentkit.caching.request import CacheRequest, Mark, Message
from agentkit.caching.simulate import InFlight, ManualClock, SimulatedAnthropic
from tests.agentkit.caching.plan.planning import (
    CLAUDE,
    DAY,
    assistant,
    block,
    draft_of,
    policy_of,
    request,
    send,
    user,
    with_tail,
    with_user_marks,
)

NOW = ManualClock()()


def places(draft: Draft, policy: Policy, written: Written | None = None) -> list[int]:
    return [m.index for m in plan(draft, policy, written or Written(), NOW).marks]


TOOLS = [block(f"tool{i}", 400, BlockKind.TOOL) for i in range(3)]
SYSTEM = [block("rules"), block("role")]


def steps(n_steps: int, n_calls: int = 1) -> list[CacheRequest]:
    """The requests of a run that calls tools `n_steps` times."""
    messages: list[Message] = [user(block("question"))]
    found = [request(messages, tools=TOOLS, system=SYSTEM)]
    for step in range(n_steps):
        calls = [block(f"call{step}.{i}", 60, BlockKind.TOOL_USE) for i in range(n_calls)]
        results = [block(f"result{step}.{i}", 500, BlockKind.TOOL_RESULT) for i in range(n_calls)]
        messages = [*messages, assistant(*calls), user(*results)]
        found.append(request(messages, tools=TOOLS, system=SYSTEM))
    return found


def test_a_first_request_marks_its_end_and_both_fronts(policy: Policy) -> None:
    assert places(draft_of(steps(0)[0], organization=(4, 2)), policy) == [3, 4, 5]


def test_a_later_request_also_marks_where_the_one_before_ended(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    for asked in steps(3):
        sent = send(cache, clock, draft_of(asked, organization=(4, 2)), policy)
        clock.advance(20)
    n_blocks = sum(1 for _ in asked.blocks)
    assert [m.index for m in sent.plan.marks] == [3, 4, n_blocks - 3, n_blocks - 1]


def test_three_parallel_results_count_as_three_blocks(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C25: a message-level mark would become three; marks are counted block by block."""
    for asked in steps(6, n_calls=3):
        sent = send(cache, clock, draft_of(asked, organization=(4, 2)), policy)
        assert len(sent.plan.marks) <= 4
        assert sum(b.mark is not None for b in sent.plan.applied(asked).blocks) <= 4


def test_deferred_tools_and_the_users_marks_share_one_budget(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C26: deferred tools, two marked system blocks and one marked message leave one mark."""
    tools = [*TOOLS, block("deferred", 400, BlockKind.DEFERRED_TOOL)]
    asked = request(
        [user(block("one"), block("two")), assistant(block("answer")), user(block("three"))],
        tools=tools,
        system=SYSTEM,
    )
    sent = send(cache, clock, draft_of(with_user_marks(asked, [4, 5, 6], None)), policy)
    assert [(m.index, m.by_user) for m in sent.plan.marks] == [
        (4, True),
        (5, True),
        (6, True),
        (9, False),
    ]


def test_of_more_marks_than_the_budget_the_newest_count(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C25: the API would refuse the request again on every retry, and what was sent stays."""
    asked = with_user_marks(steps(2)[-1], [0, 1, 2, 3, 4, 6], None)
    sent = send(cache, clock, draft_of(asked), policy)
    assert re.search(r"more marks than the 4 .*older ones give way", str(sent.plan.lost_marks))
    assert [(m.index, m.by_user) for m in sent.plan.marks] == [(i, True) for i in (2, 3, 4, 6)]
    assert "older ones give way" in sent.plan.notes[-1]
    assert sent.served.split.written == sum(b.n_tokens for b in list(asked.blocks)[:7])


def test_a_conversation_with_a_mark_in_each_message_goes_on_and_reads_itself(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C25, C28: an append-only context cannot give its old marks back."""
    messages = []
    for turn in range(8):
        messages.append(user(block(f"document {turn}", 2000, mark=Mark())))
        sent = send(cache, clock, draft_of(request(messages)), policy)
        assert bool(sent.plan.lost_marks) == (turn >= 4)
        assert sent.served.read == (0 if turn == 0 else 2000 * turn + 20 * (turn - 1))
        messages.append(assistant(block(f"answer {turn}", 20)))


def test_a_mark_on_a_block_that_takes_none_is_left_out(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    asked = request([user(block("question")), assistant(block("text"), block("", 0))])
    sent = send(cache, clock, draft_of(with_user_marks(asked, [2], None)), policy)
    assert re.search("'empty text' takes no cache_control", str(sent.plan.lost_marks))
    assert [(m.index, m.by_user) for m in sent.plan.marks] == [(0, False), (1, False)]


def test_a_user_who_marks_the_system_prompt_still_gets_a_mark_at_the_end(policy: Policy) -> None:
    """C28: one mark of the user must not turn the planner off."""
    asked = steps(2)[-1]
    marked = places(draft_of(with_user_marks(asked, [4], None)), policy)
    assert marked[-1] == sum(1 for _ in asked.blocks) - 1


@pytest.mark.parametrize("kind", [BlockKind.THINKING, BlockKind.REDACTED_THINKING])
def test_an_end_in_thinking_walks_back_to_a_block_that_takes_a_mark(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy, kind: BlockKind
) -> None:
    """C31: a mark on a thinking block is refused, and only when a turn happens to end in one."""
    asked = request([user(block("question")), assistant(block("text"), block("thought", 90, kind))])
    sent = send(cache, clock, draft_of(asked), policy)
    assert [m.index for m in sent.plan.marks] == [0, 1]


def test_calls_made_by_code_are_skipped(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C32: tool blocks that were called from code execution take no mark."""
    asked = request(
        [
            user(block("question")),
            assistant(block("code"), block("call", 50, BlockKind.PROGRAMMATIC_TOOL_USE)),
            user(block("result", 500, BlockKind.PROGRAMMATIC_TOOL_RESULT)),
        ]
    )
    sent = send(cache, clock, draft_of(asked), policy)
    assert [m.index for m in sent.plan.marks] == [0, 1]


def test_empty_text_is_never_marked(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    asked = request([user(block("question"), block("empty", 0))])
    assert [m.index for m in send(cache, clock, draft_of(asked), policy).plan.marks] == [0]


def test_where_documents_take_no_mark_it_stands_before_them() -> None:
    """C34: a mark behind a text document fails on some platforms; it goes before it."""
    policy = policy_of("anthropic", CLAUDE)
    assert isinstance(policy, AnthropicPolicy)
    strict = replace(policy, markable=policy.markable - {BlockKind.DOCUMENT})
    asked = request([user(block("text"), block("docx", 3000, BlockKind.DOCUMENT))])
    assert places(draft_of(asked), policy) == [1]
    assert places(draft_of(asked), strict) == [0]


def test_a_longer_lifetime_behind_a_shorter_one_is_taken_with_the_shorter(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C35: tools for five minutes before a system prompt for an hour is a 400 on each request."""
    asked = with_user_marks(with_user_marks(steps(0)[0], [2], Ttl.FIVE_MINUTES), [4], Ttl.ONE_HOUR)
    sent = send(cache, clock, draft_of(asked), policy)
    assert re.search(r"'1h' behind one with '5m' .*the shorter", str(sent.plan.lost_marks))
    assert [(m.index, m.ttl, m.by_user) for m in sent.plan.marks if m.by_user] == [
        (2, Ttl.FIVE_MINUTES, True),
        (4, Ttl.FIVE_MINUTES, True),
    ]
    assert sent.served.read == 0


def test_an_hour_before_five_minutes_keeps_its_hour(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C35: nothing is said where nothing is changed."""
    asked = with_user_marks(with_user_marks(steps(0)[0], [2], Ttl.ONE_HOUR), [4], Ttl.FIVE_MINUTES)
    sent = send(cache, clock, draft_of(asked), policy)
    assert [m.ttl for m in sent.plan.marks if m.by_user] == [Ttl.ONE_HOUR, Ttl.FIVE_MINUTES]
    assert sent.plan.lost_marks == ()


def test_an_hour_of_the_user_behind_our_marks_makes_ours_last_an_hour(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C35: what the planner adds keeps the order, too."""
    asked = with_user_marks(steps(0)[0], [5], Ttl.ONE_HOUR)
    sent = send(cache, clock, draft_of(asked, organization=(4, 2)), policy)
    assert [(m.index, m.ttl) for m in sent.plan.marks] == [
        (3, Ttl.ONE_HOUR),
        (4, Ttl.ONE_HOUR),
        (5, Ttl.ONE_HOUR),
    ]


def test_the_users_mark_stays_before_volatile_text(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C37: [stable, MARK, volatile] keeps the mark, and puts none on what changes."""
    asked = with_user_marks(request([user(block("stable"), block("marked"))]), [1], None)
    for name in ("noon", "one o'clock"):
        sent = send(cache, clock, draft_of(with_tail(asked, name), n_volatile=1), policy)
        assert [(m.index, m.by_user) for m in sent.plan.marks] == [(1, True)]
    assert sent.served.read == 2000


def test_one_shot_runs_read_the_system_prompt_from_the_second_on(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C38: a mark only on the changing user message would never be read by the next run."""
    reads = []
    for question in ("one", "two", "three"):
        asked = request([user(block(question))], tools=TOOLS, system=SYSTEM)
        reads.append(send(cache, clock, draft_of(asked, run=0), policy).served)
        clock.advance(60)
    assert [served.read for served in reads] == [0, 3200, 3200]
    # The question itself is nobody's to read, so it is not written.
    assert [served.split.written for served in reads] == [3200, 0, 0]


def test_the_last_mark_is_always_at_the_end(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C40: marks that are only added while there are fewer than four leave a growing tail."""
    for asked in steps(40):
        sent = send(cache, clock, draft_of(asked, organization=(4, 2)), policy)
        assert sent.plan.marks[-1].index == sum(1 for _ in asked.blocks) - 1
        assert sent.served.uncached == 0
        clock.advance(20)


@pytest.mark.parametrize("marked", [[], [4], [3, 4]])
def test_marks_on_the_system_prompt_take_nothing_from_the_run(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy, marked: list[int]
) -> None:
    """C41: with one, two or no system marks of the user, each turn reads all that was written."""
    written = 0
    for asked in steps(12, n_calls=4):
        sent = send(cache, clock, draft_of(with_user_marks(asked, marked, None)), policy)
        assert sent.served.read == written
        written += sent.served.split.written
        clock.advance(20)


def test_a_prefix_that_is_too_short_says_so_with_the_minimum(policy: Policy) -> None:
    """C88: below the minimum nothing is cached, and no API says why."""
    planned = plan(draft_of(request([user(block("short", 300))])), policy, Written(), NOW)
    assert planned.marks == ()
    assert "about 300 tokens" in planned.notes[0]
    assert "from 512 on" in planned.notes[0]


@pytest.mark.parametrize(("front_reads", "expected"), [(2, [4]), (0, [])])
def test_a_side_call_writes_only_what_somebody_reads(
    policy: Policy, front_reads: int, expected: list[int]
) -> None:
    planned = plan(draft_of(steps(0)[0], run=0, agent=front_reads), policy, Written(), NOW)
    assert [m.index for m in planned.marks] == expected
    if not expected:
        assert "nobody is expected to read" in planned.notes[0]


def test_a_side_call_on_a_warm_history_reads_it_and_writes_nothing(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    asked = steps(3)[-1]
    send(cache, clock, draft_of(asked), policy)
    total = sum(b.n_tokens for b in asked.blocks)
    side = replace(asked, messages=(*asked.messages, user(block("Summarise.", 700))))
    sent = send(cache, clock, draft_of(side, run=0), policy)
    assert (sent.served.read, sent.served.split.written, sent.served.uncached) == (total, 0, 700)


def test_a_chance_too_small_to_pay_for_a_write_is_not_taken(policy: Policy) -> None:
    """A write of 1.25 and a read of 0.05: worth it above 0.25 / 1.2, if it can come again."""
    asked = request([user(block("question", 5000))])
    assert places(draft_of(asked, run="0.20"), policy) == []
    assert places(draft_of(asked, run="0.22"), policy) == [0]


def test_without_any_knowledge_the_end_of_the_last_request_is_marked(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """After a restart nothing is known, but entries may be there: 25 long texts further back."""
    asked = steps(3)[-1]
    send(cache, clock, draft_of(asked), policy)
    texts = [block(f"text{i}", 50) for i in range(25)]
    longer = replace(asked, messages=(*asked.messages, assistant(block("ok", 10)), user(*texts)))
    sent = send(cache, clock, draft_of(longer, organization=(4, 2)), policy, knows=False)
    assert sent.served.read == sum(b.n_tokens for b in asked.blocks)


def test_eight_agents_pay_what_the_known_economics_say(clock: ManualClock, policy: Policy) -> None:
    """40,000 shared tokens: 0.80 all at once, 0.64 without caching, 0.128 with one ahead."""

    def draft(number: int) -> Draft:
        asked = request([user(block(f"task{number}", 0))], system=[block("front", 40_000)])
        shared = SharedPrefix(end=1, by=SharedBy.AGENT, reads=Decimal(7))
        return Draft(request=asked, shared=(shared,))

    def cost(cache: SimulatedAnthropic, *, together: bool) -> Decimal:
        total, flights = Decimal(0), []
        for number in range(8):
            wrote = Written() if together else cache.written(draft(number).request)
            planned = plan(draft(number), policy, wrote, clock())
            flight = cache.begin(planned.applied(draft(number).request))
            assert isinstance(flight, InFlight)
            assert flight.served.cost is not None
            total += flight.served.cost.total
            flights.append(flight)
            if not together:
                flight.end()
        return total

    assert cost(SimulatedAnthropic(clock=clock), together=True) == Decimal("0.80")
    assert cost(SimulatedAnthropic(clock=clock), together=False) == Decimal("0.128")
    uncached = plan(draft(0), policy, Written(), clock()).predicted.uncached
    assert uncached is not None
    assert 8 * uncached == Decimal("0.64")
    assert plan(draft(0), policy, Written(), clock()).siblings_ahead == 1


def test_a_prefix_that_a_sibling_is_writing_is_not_written_twice(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """Who cannot wait pays plain input: the entry will be there for those after."""

    def draft(name: str) -> Draft:
        asked = request([user(block(name, 100))], system=[block("front", 40_000)])
        return draft_of(asked, run=0, agent=5)

    first = plan(draft("one"), policy, cache.written(draft("one").request), clock())
    flight = cache.begin(first.applied(draft("one").request))
    assert isinstance(flight, InFlight)
    second = plan(draft("two"), policy, cache.written(draft("two").request), clock())
    assert second.predicted.split.written == 0
    flight.end()
    third = plan(draft("three"), policy, cache.written(draft("three").request), clock())
    assert third.predicted.split.read == 40_000
    assert third.siblings_ahead == 0


def test_a_child_reads_the_front_that_its_parent_wrote(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C53: the planner knows no children: they get the marks that their parents get."""
    send(cache, clock, draft_of(steps(0)[0], organization=(4, 2)), policy)
    child = request([user(block("task"))], tools=TOOLS, system=[SYSTEM[0], block("another role")])
    sent = send(cache, clock, draft_of(child, organization=(4, 2)), policy)
    assert sent.served.read == 2200
    assert [m.index for m in sent.plan.marks] == [3, 4, 5]


def test_a_mark_by_the_top_level_field_takes_a_place(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    asked = replace(with_user_marks(steps(1)[-1], [2, 3, 4], None), automatic=Mark())
    sent = send(cache, clock, draft_of(asked), policy)
    assert [m.index for m in sent.plan.marks] == [2, 3, 4]
    one_more = replace(with_user_marks(steps(1)[-1], [1, 2, 3, 4], None), automatic=Mark())
    sent = send(cache, clock, draft_of(one_more), policy)
    assert re.search("one of them by the top-level cache_control", str(sent.plan.lost_marks))
    assert [m.index for m in sent.plan.marks] == [2, 3, 4]


def test_shorter_marks_give_way_to_an_hour_by_the_top_level_field(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C35: the server's own mark is the last one, and cannot be shortened by a plan."""
    asked = with_user_marks(steps(1)[-1], [2], Ttl.FIVE_MINUTES)
    asked = replace(asked, automatic=Mark(Ttl.ONE_HOUR))
    sent = send(cache, clock, draft_of(asked), policy)
    assert re.search("gives way to the longer one", str(sent.plan.lost_marks))
    assert not any(mark.by_user for mark in sent.plan.marks)


def test_an_unknown_model_is_planned_and_said_to_be_unknown() -> None:
    policy = policy_of("anthropic", "claude-opus-9")
    planned = plan(draft_of(request([user(block("question"))])), policy, Written(), NOW)
    assert [m.index for m in planned.marks] == [0]
    assert planned.predicted.cost is None
    assert planned.predicted.uncached is None
    assert len(planned.notes) == 2


@pytest.mark.parametrize("knows", [True, False])
def test_a_wide_turn_is_read_where_every_block_is_a_position(
    clock: ManualClock, knows: bool
) -> None:
    """C40: fifteen calls and results are 31 blocks, more than the lookback has in its old unit."""
    switches = Switches(anthropic_lookback=LookbackUnit.BLOCKS)
    cache = SimulatedAnthropic(clock=clock, switches=switches)
    policy = policy_for("anthropic", CLAUDE, DAY, switches=switches)
    written = 0
    for asked in steps(6, n_calls=15):
        sent = send(cache, clock, draft_of(asked, organization=(4, 2)), policy, knows=knows)
        assert sent.served.read == written
        written += sent.served.split.written
        clock.advance(20)


def test_marks_of_the_user_that_leave_no_room_are_said(
    cache: SimulatedAnthropic, clock: ManualClock, policy: Policy
) -> None:
    """C26: the planner adds none, and says what that costs."""
    asked = with_user_marks(steps(2)[-1], [1, 2, 3, 4], None)
    sent = send(cache, clock, draft_of(asked), policy)
    assert [m.index for m in sent.plan.marks] == [1, 2, 3, 4]
    assert "leave none to the planner" in sent.plan.notes[0]


def test_a_mask_has_no_place_on_this_wire(policy: Policy) -> None:
    draft = draft_of(steps(0)[0], mask=frozenset({"tool0"}))
    assert plan(draft, policy, Written(), NOW).mask is None
