"""Breakpoints, modes and retention at OpenAI."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

import pytest

from agentkit.caching.plan.draft import Draft, Written
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import BlockKind, Policy, Ttl
from agentkit.caching.request import CacheRequest, Message, OpenAiOptions, Role
from agentkit.caching.simulate import ManualClock, SimulatedOpenAi
from tests.agentkit.caching.plan.planning import (
    GPT,
    assistant,
    block,
    draft_of,
    policy_of,
    send,
    user,
    with_tail,
    with_user_marks,
)
from tests.agentkit.caching.plan.planning import request as claude_request

NOW = ManualClock()()
TOOLS = [block(f"tool{i}", 400, BlockKind.TOOL) for i in range(3)]
SYSTEM = [block("rules"), block("role")]


def request(messages: list[Message], **more: Any) -> CacheRequest:
    return claude_request(messages, model=GPT, **more)


def steps(n_steps: int) -> list[CacheRequest]:
    messages: list[Message] = [user(block("question"))]
    found = [request(messages, tools=TOOLS, system=SYSTEM)]
    for step in range(n_steps):
        results = tuple(block(f"r{step}.{i}", 700, BlockKind.TOOL_RESULT) for i in range(2))
        messages = [
            *messages,
            assistant(block(f"call{step}", 60, BlockKind.TOOL_USE)),
            *(Message(Role.TOOL, (result,)) for result in results),
        ]
        found.append(request(messages, tools=TOOLS, system=SYSTEM))
    return found


@pytest.fixture
def cache(clock: ManualClock) -> SimulatedOpenAi:
    return SimulatedOpenAi(clock=clock)


@pytest.fixture
def policy() -> Policy:
    return policy_of("openai", GPT)


def test_tools_and_assistant_messages_carry_no_breakpoint(
    cache: SimulatedOpenAi, clock: ManualClock, policy: Policy
) -> None:
    for asked in steps(5):
        sent = send(cache, clock, draft_of(asked, organization=(4, 2)), policy)
        assert sent.plan.openai.mode == "explicit"
        assert sent.served.uncached == 0
    roles = {b.kind for b in sent.plan.applied(asked).blocks if b.mark is not None}
    assert roles <= {BlockKind.TEXT, BlockKind.TOOL_RESULT}
    assert [m.index for m in sent.plan.marks] == [3, 4, 17, 20]


def test_volatile_text_is_never_written(
    cache: SimulatedOpenAi, clock: ManualClock, policy: Policy
) -> None:
    """Implicit mode would write it at each request, and read nothing of it ever."""
    for number, asked in enumerate(steps(4)):
        draft = draft_of(with_tail(asked, f"now{number}", 300), n_volatile=1)
        served = send(cache, clock, draft, policy).served
        assert served.uncached == 300


def test_a_side_call_only_names_what_is_written_already(
    cache: SimulatedOpenAi, clock: ManualClock, policy: Policy
) -> None:
    asked = steps(3)[-1]
    send(cache, clock, draft_of(asked), policy)
    side = replace(asked, messages=(*asked.messages, user(block("Summarise.", 2000))))
    sent = send(cache, clock, draft_of(side, run=0), policy)
    assert sent.plan.openai.mode == "explicit"
    assert (sent.served.split.written, sent.served.uncached) == (0, 2000)


def test_what_nobody_reads_is_sent_in_explicit_mode_without_breakpoints(
    cache: SimulatedOpenAi, clock: ManualClock, policy: Policy
) -> None:
    """Which turns caching off; implicit mode would charge a write."""
    sent = send(cache, clock, draft_of(steps(0)[0], run=0, agent=0), policy)
    assert sent.plan.marks == ()
    assert sent.served.cost is not None
    assert sent.served.cost.total == sent.plan.predicted.uncached


@pytest.mark.parametrize(("api", "ttl"), [("responses", Ttl.TWELVE_HOURS), ("chat", None)])
def test_twelve_hours_are_asked_for_where_the_api_has_them(
    policy: Policy, api: Literal["responses", "chat"], ttl: Ttl | None
) -> None:
    asked = replace(request([user(block("question", 90_000))]), openai=OpenAiOptions(api=api))
    draft = draft_of(asked, run=4, gap_s=Decimal(7_200))
    marks = plan(draft, policy, Written(), NOW).marks
    assert [m.ttl for m in marks] == ([ttl] if ttl else [])


def test_below_1024_tokens_nothing_is_marked(policy: Policy) -> None:
    """C88: and the plan says so."""
    planned = plan(draft_of(request([user(block("short", 1023))])), policy, Written(), NOW)
    assert planned.marks == ()
    assert "from 1024 on" in planned.notes[0]
    longer = plan(draft_of(request([user(block("long", 1024))])), policy, Written(), NOW)
    assert len(longer.marks) == 1


def test_the_users_breakpoints_stay_and_count(
    cache: SimulatedOpenAi, clock: ManualClock, policy: Policy
) -> None:
    """C28: and do not turn the planner off."""
    asked = with_user_marks(steps(2)[-1], [3, 5], None)
    sent = send(cache, clock, draft_of(asked, organization=(4, 2)), policy)
    assert [m.index for m in sent.plan.marks if m.by_user] == [3, 5]
    assert sent.plan.marks[-1].index == sum(1 for _ in asked.blocks) - 1


def test_a_breakpoint_on_a_tool_is_left_out(
    cache: SimulatedOpenAi, clock: ManualClock, policy: Policy
) -> None:
    sent = send(cache, clock, draft_of(with_user_marks(steps(0)[0], [0], None)), policy)
    assert re.search("'tool' takes no prompt_cache_breakpoint", str(sent.plan.lost_marks))
    assert not any(mark.by_user for mark in sent.plan.marks)


def test_a_lifetime_that_the_api_does_not_know_is_taken_as_one_that_it_knows(
    cache: SimulatedOpenAi, clock: ManualClock, policy: Policy
) -> None:
    asked = with_user_marks(steps(2)[-1], [3], Ttl.FIVE_MINUTES)
    sent = send(cache, clock, draft_of(asked), policy)
    assert re.search(r"ttl '5m' is taken with", str(sent.plan.lost_marks))
    assert [m.index for m in sent.plan.marks if m.by_user] == [3]


def test_a_breakpoint_that_chat_ignores_is_left_where_it_is(
    cache: SimulatedOpenAi, clock: ManualClock, policy: Policy
) -> None:
    asked = request([user(block("one", 2000)), assistant(block("two")), user(block("three"))])
    asked = replace(with_user_marks(asked, [1], None), openai=OpenAiOptions(api="chat"))
    sent = send(cache, clock, draft_of(asked), policy)
    assert [(m.index, m.by_user) for m in sent.plan.marks] == [(0, False), (1, True), (2, False)]
    assert sent.served.split == sent.plan.predicted.split


def test_an_end_that_takes_no_breakpoint_is_left_to_implicit_mode(
    cache: SimulatedOpenAi, clock: ManualClock, policy: Policy
) -> None:
    """A user message that ends in a kind without breakpoints is still a message ending."""
    asked = request([user(block("question", 2000), block("found", 9000, BlockKind.SEARCH_RESULT))])
    sent = send(cache, clock, draft_of(asked, run=3), policy)
    assert sent.plan.openai.mode == "implicit"
    assert sent.served.split == sent.plan.predicted.split
    assert sent.served.split.written == 11_000
    again = send(cache, clock, draft_of(asked, run=3), policy)
    assert again.served.read == again.plan.predicted.split.read == 11_000


def test_masks_are_passed_on(policy: Policy) -> None:
    draft = draft_of(steps(0)[0], mask=frozenset({"search"}))
    assert plan(draft, policy, Written(), NOW).mask == frozenset({"search"})


@pytest.mark.parametrize(
    ("model", "gap_s", "retention"),
    [("gpt-5.5", 3000, None), ("gpt-5.4", 3000, None), ("gpt-5.4", 20, None)],
)
def test_models_before_keep_their_default_retention(
    model: str, gap_s: int, retention: str | None
) -> None:
    draft = draft_of(claude_request([user(block("q", 3000))], model=model), gap_s=Decimal(gap_s))
    planned = plan(draft, policy_of("openai", model), Written(), NOW)
    assert planned.openai.retention == retention
    assert planned.marks == ()


def test_a_short_default_retention_is_lengthened_for_long_gaps() -> None:
    """On Azure entries live five minutes by default; a day costs no more."""
    from agentkit.caching.policy import Platform, policy_for
    from tests.agentkit.caching.plan.planning import DAY

    azure = policy_for("openai", "gpt-5.4", DAY, platform=Platform.AZURE)
    asked = claude_request([user(block("q", 3000))], model="gpt-5.4")

    def retention(draft: Draft) -> str | None:
        return plan(draft, azure, Written(), NOW).openai.retention

    assert retention(draft_of(asked)) is None
    assert retention(draft_of(asked, gap_s=Decimal(600))) == "24h"
    assert retention(draft_of(asked, slow_chance=Decimal("0.5"))) == "24h"


def test_models_before_take_no_marks() -> None:
    """C37: a conversation that was begun elsewhere goes on without its marks."""
    asked = with_user_marks(claude_request([user(block("q", 3000))], model="gpt-5.4"), [0], None)
    planned = plan(draft_of(asked), policy_of("openai", "gpt-5.4"), Written(), NOW)
    assert re.search(r"came with GPT-5\.6.*do nothing", str(planned.lost_marks))
    assert planned.marks == ()
    assert "do nothing" in planned.notes[-1]
