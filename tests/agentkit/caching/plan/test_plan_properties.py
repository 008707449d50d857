"""What holds for every plan, whatever is asked: checked against the simulated caches."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit.caching.plan.draft import Draft, Written
from agentkit.caching.plan.keys import with_key
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import (
    AnthropicMinimums,
    AnthropicPolicy,
    AnthropicRefresh,
    BlockKind,
    DeepSeekUnit,
    GeminiMinimums,
    LookbackUnit,
    OpenAiKey,
    OpenAiLookup,
    OpenAiMarkPolicy,
    Policy,
    Switches,
    ThinkingTier,
    Ttl,
    TwelveHours,
)
from agentkit.caching.request import Block, CacheRequest, Role
from agentkit.caching.simulate import ManualClock, Refused, Served
from agentkit.caching.simulate.anthropic_checks import is_markable, shown_indexes
from tests.agentkit.caching.plan.planning import (
    CLAUDE,
    GPT,
    cache_for,
    conversations,
    draft_of,
    policy_of,
    send,
    with_tail,
    with_user_marks,
)

PLAIN = [BlockKind.TEXT, BlockKind.TOOL_USE]
CASES = {
    "anthropic": ("anthropic", CLAUDE, None),
    "anthropic-strips-thinking": ("anthropic", "claude-haiku-4-5", None),
    "openai": ("openai", GPT, PLAIN),
    "openai-before": ("openai", "gpt-5.5", PLAIN),
    "deepseek": ("deepseek", "deepseek-flash", PLAIN),
    "gemini": ("gemini", "gemini-4-argon", PLAIN),
}
MARKS = pytest.mark.parametrize("name", ["anthropic", "anthropic-strips-thinking", "openai"])
ALL = pytest.mark.parametrize("name", list(CASES))
SWITCHES = st.builds(
    Switches,
    openai_lookup=st.sampled_from(OpenAiLookup),
    openai_reads_earlier_endings=st.booleans(),
    openai_key=st.sampled_from(OpenAiKey),
    openai_twelve_hours=st.sampled_from(TwelveHours),
    anthropic_lookback=st.sampled_from(LookbackUnit),
    anthropic_minimums=st.sampled_from(AnthropicMinimums),
    anthropic_thinking=st.sampled_from(ThinkingTier),
    anthropic_refresh=st.sampled_from(AnthropicRefresh),
    gemini_minimums=st.sampled_from(GeminiMinimums),
    deepseek_unit=st.sampled_from(DeepSeekUnit),
)
FAST = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def drafts(draw: st.DrawFn, name: str, asked: CacheRequest) -> Draft:
    n_volatile = draw(st.integers(0, 1))
    if n_volatile:
        asked = with_tail(asked, draw(st.sampled_from(["now", "later", "latest"])))
    n_blocks = sum(1 for _ in asked.blocks)
    n_front = len(asked.tools) + len(asked.system)
    takes = [
        index
        for index, each in enumerate(asked.blocks)
        if each.kind is BlockKind.TEXT
        and each.n_tokens
        and (n_front <= index < n_blocks)
        and _role(asked, index) is not Role.ASSISTANT
    ]
    marked: tuple[int, ...] = ()
    if CASES[name][0] in ("anthropic", "openai") and name != "openai-before" and takes:
        marked = draw(st.lists(st.sampled_from(takes), max_size=3, unique=True).map(tuple))
    ttl = draw(st.sampled_from([None, Ttl.ONE_HOUR])) if name.startswith("anthropic") else None
    return draft_of(
        with_user_marks(asked, marked, ttl),
        run=draw(st.sampled_from(["0", "0.3", "0.85", "3"])),
        agent=draw(st.sampled_from([0, 2])),
        organization=(draw(st.integers(0, n_front)), draw(st.integers(0, 2))),
        n_volatile=n_volatile,
        gap_s=Decimal(draw(st.sampled_from([10, 400, 4000]))),
        slow_chance=Decimal(draw(st.sampled_from(["0", "0.02", "0.5", "1"]))),
        slow_gap_s=Decimal(draw(st.sampled_from([900, 5000]))),
        keep_alive=draw(st.booleans()),
    )


def _role(asked: CacheRequest, index: int) -> Role | None:
    at = len(asked.tools) + len(asked.system)
    for message in asked.messages:
        at += len(message.blocks)
        if index < at:
            return message.role
    return None


@ALL
@FAST
@given(data=st.data())
def test_the_prediction_is_what_the_simulated_cache_does(name: str, data: st.DataObject) -> None:
    """Whichever of two contradicting sources is believed."""
    provider, model, kinds = CASES[name]
    switches = data.draw(SWITCHES)
    policy = policy_of(provider, model, switches)
    clock = ManualClock()
    cache = cache_for(provider, model, clock, switches)
    kinds = kinds or [*PLAIN, BlockKind.IMAGE, BlockKind.THINKING, BlockKind.SERVER_TOOL_RESULT]
    asked = data.draw(conversations(model=model, kinds=kinds, max_turns=4))
    for each in [*asked, data.draw(st.sampled_from(asked))]:
        draft = with_key(data.draw(drafts(name, each)), policy, None, clock())
        planned = plan(draft, policy, cache.written(draft.request), clock())
        applied = planned.applied(draft.request)
        before = cache.preview(applied)
        flight = cache.begin(applied)
        assert not isinstance(flight, Refused), flight.message
        assert isinstance(before, Served)
        assert before.split == flight.served.split == planned.predicted.split
        assert planned.predicted.cost == flight.served.cost
        read = sum(b.n_tokens for b in list(_shown(applied, policy))[: planned.predicted.hit])
        cut = name == "openai-before" or switches.deepseek_unit is DeepSeekUnit.BLOCKS_OF_64
        assert read <= flight.served.read if cut else read == flight.served.read
        clock.advance(data.draw(st.sampled_from([0, 1, 250, 400, 4000])))
        if data.draw(st.integers(0, 4)):
            flight.end()


def _shown(asked: CacheRequest, policy: Policy) -> list[Block]:
    """The blocks; those that are not in the prompt have no tokens."""
    blocks = list(asked.blocks)
    if not isinstance(policy, AnthropicPolicy):
        return blocks
    shown = set(shown_indexes(asked, policy))
    return [b if i in shown else replace(b, n_tokens=0) for i, b in enumerate(blocks)]


@MARKS
@FAST
@given(data=st.data())
def test_marks_keep_to_the_budget_and_stand_where_they_may(name: str, data: st.DataObject) -> None:
    """Also beside the user's, which stay where they are."""
    provider, model, kinds = CASES[name]
    policy = policy_of(provider, model)
    assert isinstance(policy, AnthropicPolicy | OpenAiMarkPolicy)
    clock = ManualClock()
    cache = cache_for(provider, model, clock)
    kinds = kinds or [*PLAIN, BlockKind.IMAGE, BlockKind.THINKING, BlockKind.SERVER_TOOL_RESULT]
    for each in data.draw(conversations(model=model, kinds=kinds)):
        draft = with_key(data.draw(drafts(name, each)), policy, None, clock())
        knows = data.draw(st.booleans())
        written = cache.written(draft.request) if knows else Written()
        planned = plan(draft, policy, written, clock())
        blocks = list(draft.request.blocks)
        theirs = {index for index, b in enumerate(blocks) if b.mark is not None}
        assert {mark.index for mark in planned.marks if mark.by_user} == theirs
        for mark in planned.marks:
            if mark.by_user:
                assert mark.ttl is blocks[mark.index].mark.ttl  # type: ignore[union-attr]
                continue
            assert mark.index < len(blocks) - draft.n_volatile
            if isinstance(policy, AnthropicPolicy):
                assert is_markable(blocks[mark.index], policy)
            else:
                assert blocks[mark.index].kind in policy.markable
        if isinstance(policy, AnthropicPolicy):
            assert len(planned.marks) <= policy.mark_budget
        served = cache.request(planned.applied(draft.request))
        assert not isinstance(served, Refused), served.message
        clock.advance(data.draw(st.sampled_from([1, 400, 4000])))


@pytest.mark.parametrize("name", ["anthropic", "openai"])
@pytest.mark.parametrize("knows", [True, False])
@FAST
@given(data=st.data())
def test_an_append_only_run_reads_everything_that_it_wrote(
    name: str, knows: bool, data: st.DataObject
) -> None:
    """However long its turns are, and also if nothing is known of what was written.

    More blocks than the lookback has are no obstacle: the last request's end is marked again.
    """
    provider, model, kinds = CASES[name]
    policy = policy_of(provider, model)
    clock = ManualClock()
    cache = cache_for(provider, model, clock)
    kinds = kinds or [*PLAIN, BlockKind.THINKING]  # a first image would lose the messages
    paid = 0
    for each in data.draw(conversations(model=model, kinds=kinds)):
        sent = send(cache, clock, draft_of(each), policy, knows=knows)
        assert sent.served.read == paid
        paid += sent.served.split.written
        clock.advance(60)
