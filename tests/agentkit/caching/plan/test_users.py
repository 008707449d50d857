"""Marks of the user's, any of them: nothing is ever refused, and a conversation always goes on."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.plan.draft import Written
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import BlockKind, Ttl
from agentkit.caching.request import Mark, Message, OpenAiOptions
from agentkit.caching.simulate import ManualClock, Refused
from tests.agentkit.caching.plan.planning import (
    CLAUDE,
    GPT,
    assistant,
    block,
    cache_for,
    draft_of,
    policy_of,
    request,
    send,
    user,
)

MARKS = st.sampled_from([None, None, Mark(), *(Mark(ttl) for ttl in Ttl)])
KINDS = st.sampled_from([BlockKind.TEXT, BlockKind.IMAGE, BlockKind.DOCUMENT, BlockKind.THINKING])
TURNS = st.lists(
    st.tuples(MARKS, MARKS, KINDS, st.sampled_from([0, 40, 2_000])), min_size=1, max_size=9
)
FRONT = st.tuples(MARKS, MARKS)


@pytest.mark.parametrize(
    ("provider", "model", "api"),
    [
        ("anthropic", CLAUDE, "responses"),
        ("openai", GPT, "responses"),
        ("openai", GPT, "chat"),
        ("openai", "gpt-5.4", "responses"),
        ("deepseek", "deepseek-flash", "chat"),
    ],
)
@given(turns=TURNS, front=FRONT)
def test_a_conversation_with_marks_anywhere_is_never_refused(
    provider: str,
    model: str,
    api: str,
    turns: list[tuple[Mark | None, Mark | None, BlockKind, int]],
    front: tuple[Mark | None, Mark | None],
) -> None:
    """C25, C28, C35: what was sent stays marked, whatever comes behind it."""
    clock, policy = ManualClock(), policy_of(provider, model)
    cache = cache_for(provider, model, clock)
    tools = [block("tool", 900, BlockKind.TOOL, front[0])]
    system = [block("role", 700, mark=front[1])]
    messages: list[Message] = []
    for number, (mark, other, kind, n_tokens) in enumerate(turns):
        messages.append(user(block(f"question {number}", 2_000, mark=mark)))
        asked = request(messages, model=model, tools=tools, system=system)
        asked = replace(asked, openai=OpenAiOptions(api="chat" if api == "chat" else "responses"))
        sent = send(cache, clock, draft_of(asked, organization=(2, 2)), policy)
        assert not isinstance(sent.served, Refused)
        wanted = {place for place, each in enumerate(asked.blocks) if each.mark is not None}
        theirs = [mark.index for mark in sent.plan.marks if mark.by_user]
        assert wanted.issuperset(theirs)
        assert len(theirs) == len(wanted) or sent.plan.lost_marks
        messages.append(assistant(block(f"answer {number}", n_tokens, kind, other)))
        clock.advance(20)


@given(turns=TURNS, front=FRONT)
def test_a_gateways_marks_are_few_and_in_the_order_of_their_lifetimes(
    turns: list[tuple[Mark | None, Mark | None, BlockKind, int]],
    front: tuple[Mark | None, Mark | None],
) -> None:
    """C25, C35: behind a gateway the provider's own rules hold."""
    system = [block("rules", 900, mark=front[0]), block("role", 700, mark=front[1])]
    messages: list[Message] = []
    for number, (mark, other, kind, n_tokens) in enumerate(turns):
        messages.append(user(block(f"question {number}", 2_000, mark=mark)))
        messages.append(assistant(block(f"answer {number}", n_tokens, kind, other)))
    asked = request(messages, model="anthropic/claude-sonnet-5-5", system=system)
    policy = policy_of("openrouter", "anthropic/claude-sonnet-5-5")
    planned = plan(draft_of(asked), policy, Written(), ManualClock()())
    assert len(planned.marks) <= 4
    lives = [(mark.ttl or Ttl.FIVE_MINUTES).seconds for mark in planned.marks]
    assert all(before >= after for before, after in pairwise(lives))
