"""A changed front is appended or begins a new epoch, whichever costs less over what follows."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.blocks import AssistantMessage, Text, Thinking, ToolCall, UserMessage
from agentkit.caching.policy import anthropic_policy
from agentkit.context import Context, Document, SystemPart, SystemText
from agentkit.context.prices import Prices
from agentkit.context.turns import delta
from agentkit.context.version import EpochRule, FrontChange, choose, rebase
from agentkit.errors import ContextError
from agentkit.testing import assert_extends

from .conversations import NOON, Cache, make_conversation, with_turn

SONNET = Prices(row=anthropic_policy("claude-sonnet-5-5", date(2026, 11, 27)).prices, at=NOON)
UNKNOWN = Prices(row=None, at=NOON)
MILLION = Decimal(1_000_000)
COUNT = st.integers(0, 50_000)
CHANGES = st.builds(
    FrontChange,
    shared_tokens=COUNT,
    old_tokens=COUNT,
    new_tokens=COUNT,
    history_tokens=COUNT,
    superseded_tokens=COUNT,
    delta_tokens=COUNT,
)


def change(**sizes: int) -> FrontChange:
    defaults = {
        "shared_tokens": 10_000,
        "old_tokens": 5_000,
        "new_tokens": 5_000,
        "history_tokens": 20_000,
        "delta_tokens": 500,
    }
    return FrontChange(**(defaults | sizes))


def test_a_small_change_in_a_long_run_is_appended() -> None:
    decision = choose(change(), SONNET, turns_left=10)

    assert decision.action == "append"
    assert "append 500 tokens" in decision.reason


def test_both_costs_and_the_switch_are_exact() -> None:
    """By hand, Sonnet 5.5: read 0.10 and write 2.50 USD a million."""
    decision = choose(change(), SONNET, turns_left=10)
    read, write = Decimal("0.1") / MILLION, Decimal("2.5") / MILLION

    assert decision.append_cost == 35_000 * read + 500 * write + 9 * 35_500 * read
    assert decision.rebase_cost == 10_000 * read + 25_000 * write + 9 * 35_000 * read
    assert decision.switch_cost == 500 * write


def test_much_dead_weight_and_many_requests_begin_a_new_epoch() -> None:
    heavy = change(old_tokens=200_000, superseded_tokens=20_000, history_tokens=2_000)
    decision = choose(heavy, SONNET, turns_left=40)

    assert decision.action == "rebase"
    assert decision.append_cost is not None
    assert decision.rebase_cost is not None
    assert decision.rebase_cost < decision.append_cost


def test_what_is_not_cached_any_more_is_begun_anew() -> None:
    decision = choose(change(superseded_tokens=15_000), SONNET, turns_left=5, is_cached=False)

    assert decision.action == "rebase"
    assert "nothing is cached any more" in decision.reason


def test_without_a_known_price_it_decides_and_claims_no_money() -> None:
    decision = choose(change(), UNKNOWN)

    assert decision.action == "append"
    assert decision.append_cost is decision.rebase_cost is decision.switch_cost is None


@settings(max_examples=200, deadline=None)
@given(CHANGES, st.integers(1, 200), st.booleans())
def test_the_choice_is_never_dearer_than_the_other_by_more_than_the_margin(
    sizes: FrontChange, turns_left: int, is_cached: bool
) -> None:
    rule = EpochRule(margin=Decimal("0.1"))
    decision = choose(sizes, SONNET, turns_left=turns_left, is_cached=is_cached, rule=rule)
    assert decision.append_cost is not None
    assert decision.rebase_cost is not None
    if decision.action == "append":
        assert decision.append_cost * (1 - rule.margin) <= decision.rebase_cost
    else:
        assert decision.rebase_cost < decision.append_cost


@settings(max_examples=100, deadline=None)
@given(CHANGES, st.integers(1, 100))
def test_once_a_new_epoch_pays_it_pays_for_any_longer_run(
    sizes: FrontChange, turns_left: int
) -> None:
    rule = EpochRule(margin=Decimal(0))
    if choose(sizes, SONNET, turns_left=turns_left, rule=rule).action == "rebase":
        grows = sizes.rebased <= sizes.appended
        assert not grows or choose(sizes, SONNET, turns_left=turns_left + 50, rule=rule).action == (
            "rebase"
        )


def test_the_sizes_come_from_the_contexts() -> None:
    context = make_conversation(3)
    delta = UserMessage.of("Document 'a' changed.")
    front = context.front.append(Document(uri="a", text="new " * 400))
    sizes = FrontChange.of(context, front, delta)

    assert sizes.old_tokens == 0
    assert sizes.shared_tokens == pytest.approx(len(context.front.dump()) / 4, rel=0.01)
    assert sizes.new_tokens == pytest.approx(410, rel=0.1)
    assert sizes.before == pytest.approx(len(context.dump()) / 4, rel=0.01)
    carried = FrontChange.of(context.append(delta), front, delta, without=[delta])
    assert carried.superseded_tokens == carried.delta_tokens > 0
    assert carried.history_tokens == sizes.history_tokens


def test_a_delta_changes_no_byte_before_it_and_a_rebase_keeps_what_is_shared() -> None:
    """C19: an edited memory invalidated skills, files and subagent texts that did not change."""
    front = make_conversation(0).front.append(Document(uri="m", text="old memory"))
    context = front.append(UserMessage.of("go"))
    context = with_turn(context, "c", "1")
    edited = make_conversation(0).front.append(Document(uri="m", text="new memory"))

    assert_extends(context.dump(), context.append(UserMessage.of("memory changed")).dump())
    rebased = rebase(context, edited)
    assert rebased.common_length(context) == len(front) - 1
    assert rebased.messages == context.messages


def test_a_rebase_leaves_out_only_what_is_named_and_drops_bound_thinking() -> None:
    delta = UserMessage.of("Document 'a' changed.")
    thought = AssistantMessage((Thinking("hm", signature="s"), Text("ok")))
    context = make_conversation(2).append(delta, thought)
    front = Context(SystemText(SystemPart.RULES, "New rules."))

    epoch = rebase(context, front, without=[delta])
    assert epoch.front == front
    assert epoch.messages == (*context.messages[:-2], AssistantMessage((Text("ok"),)))
    assert rebase(context, front, keeps_thinking=True).messages == context.messages
    assert context.messages[-1] == thought


def test_a_rebase_that_cannot_be_whole_is_refused_and_the_context_stays() -> None:
    context = make_conversation(2)
    before = context.dump()
    opened = context.append(AssistantMessage((ToolCall(id="o", name="f", arguments="{}"),)))

    with pytest.raises(ContextError, match=r"calls \['o'\] have no result yet"):
        rebase(opened, context.front)
    with pytest.raises(ContextError, match="give it without a history"):
        rebase(context, context)
    with pytest.raises(ContextError, match="what is not in the history"):
        rebase(context, context.front, without=[UserMessage.of("never said")])
    assert context.dump() == before


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="delta_tokens must be at least 0, got -1"):
        change(delta_tokens=-1)
    with pytest.raises(ValueError, match="margin"):
        EpochRule(margin=Decimal(1))
    with pytest.raises(ValueError, match="turns_left"):
        EpochRule(turns_left=0)


def spent(context: Context, anew: Context, n_requests: int) -> Decimal:
    """What the requests after a change cost in the simulated cache, which knows `context`."""
    cache = Cache()
    cache.ask(context)
    before = cache.spent
    for index in range(n_requests):
        cache.ask(anew)
        anew = with_turn(anew, f"n{index}", "n" * 2_000)
    return cache.spent - before


@pytest.mark.parametrize("document_bytes", [2_000, 40_000, 400_000])
@pytest.mark.parametrize("n_turns", [1, 20])
@pytest.mark.parametrize("n_requests", [1, 5, 40])
def test_the_choice_is_the_cheaper_one_in_a_simulated_cache(
    document_bytes: int, n_turns: int, n_requests: int
) -> None:
    old = Document(uri="d", text="o" * document_bytes)
    front = make_conversation(0).front
    context = front.append(old, UserMessage.of("go"))
    for index in range(n_turns):
        context = with_turn(context, f"c{index}", "x" * 4_000)
    newer = front.append(Document(uri="d", text="n" * document_bytes))
    told = delta("n" * document_bytes)
    decision = choose(FrontChange.of(context, newer, told), SONNET, turns_left=n_requests)

    appended = spent(context, context.append(told), n_requests)
    rebased = spent(context, rebase(context, newer), n_requests)
    if decision.action == "rebase":
        assert rebased <= appended
    else:
        assert appended * Decimal("0.85") <= rebased
