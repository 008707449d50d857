"""A conversation is summarised from the cache, seldom, and goes on from a front that is cached."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.blocks import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    VendorItem,
)
from agentkit.caching.policy import Provider, anthropic_policy
from agentkit.caching.policy.edits import context_edits
from agentkit.caching.simulate import Served
from agentkit.context import Context, SystemPart, SystemText
from agentkit.context.compact import (
    CompactionRule,
    Keep,
    Summarise,
    compacted,
    next_step,
    summary_request_context,
)
from agentkit.context.prices import Prices
from agentkit.context.provider_edits import better_than
from agentkit.context.turns import delta
from agentkit.errors import ContextError
from agentkit.testing import assert_extends
from agentkit.usage import Usage

from .conversations import NOON, Cache, make_conversation, with_turn

SONNET = Prices(row=anthropic_policy("claude-sonnet-5-5", date(2026, 11, 27)).prices, at=NOON)
HAIKU = Prices(row=anthropic_policy("claude-haiku-5-5", date(2026, 11, 27)).prices, at=NOON)
UNKNOWN = Prices(row=None, at=NOON)
RULE = CompactionRule(trigger_tokens=20_000, limit_tokens=30_000, summary_tokens=500)
SUMMARY = "Files 1 to 9 hold only the letter x."


@pytest.fixture
def cache() -> Cache:
    return Cache()


def size(context: Context) -> Usage:
    return Usage(input_tokens=len(context.dump()) // 4, output_tokens=0)


def hit(served: Served) -> float:
    return served.read / served.split.total


def summarise(context: Context, rule: CompactionRule = RULE, turns_left: int = 12) -> Summarise:
    step = next_step(context, None, rule, SONNET, turns_left=turns_left)
    assert isinstance(step, Summarise), step
    return step


def test_the_request_for_a_summary_extends_the_bytes_that_were_sent() -> None:
    """C59: flattened history without system and tools made 90 % of compaction's cost avoidable."""
    sent = make_conversation(25)
    step = summarise(sent)

    assert_extends(sent.dump(), step.request_context.dump())
    assert step.request_context.front == sent.front
    assert len(step.request_context) == len(sent) + 1
    assert "Do not call any tool" in step.request_context.messages[-1].text  # type: ignore[union-attr]


def test_the_request_for_a_summary_is_read_from_the_cache(cache: Cache) -> None:
    """C61: the compaction call had a hit ratio of 0 %."""
    sent = make_conversation(25)
    cache.ask(sent)

    assert hit(cache.ask(summarise(sent).request_context)) > 0.95


def test_another_tool_choice_for_the_summary_would_lose_the_messages(cache: Cache) -> None:
    """C61: why the instruction forbids tools, and not the request."""
    sent = make_conversation(25)
    cache.ask(sent)

    assert hit(cache.ask(summarise(sent).request_context, tool_choice="none")) < 0.5


def test_the_summary_is_asked_of_what_was_sent_whatever_happens_to_the_run_since() -> None:
    """C62: the summariser replayed a live view that had drifted from what was sent."""
    sent = make_conversation(25)
    step = summarise(sent)
    frozen = step.request_context.dump()
    with_turn(sent, "later", "y")
    step.after(SUMMARY)

    assert step.request_context.dump() == frozen
    assert_extends(sent.dump(), frozen)


def test_the_new_epoch_reads_its_front_from_the_cache(cache: Cache) -> None:
    sent = make_conversation(25)
    cache.ask(sent)
    front = cache.ask(sent.front).split.total

    assert cache.ask(summarise(sent).after(SUMMARY)).read == front


def test_a_new_epoch_holds_the_front_the_summary_and_the_last_whole_turns() -> None:
    sent = make_conversation(5)
    epoch = compacted(sent, SUMMARY, 2)

    assert epoch.front == sent.front
    assert SUMMARY in epoch.messages[0].text  # type: ignore[union-attr]
    assert epoch.messages[1:] == sent.messages[-4:]
    assert epoch.open_calls == ()


def test_what_nobody_has_answered_yet_is_always_kept() -> None:
    question = UserMessage.of("And file 26?")
    sent = make_conversation(3).append(AssistantMessage((Text("Done."),)), question)

    assert compacted(sent, SUMMARY, 0).messages[1:] == (question,)
    assert compacted(sent, SUMMARY, 1).messages[1:] == sent.messages[-2:]
    only_asked = Context(UserMessage.of("a"), UserMessage.of("b"))
    assert compacted(only_asked, SUMMARY, 3).messages[1:] == only_asked.messages


def test_kept_turns_lose_what_is_bound_to_the_old_prefix_and_keep_all_else() -> None:
    """Newer models refuse thinking behind another prefix than the one it was thought behind."""
    call = ToolCall(id="c", name="read", arguments="{ }")
    marked = UserMessage.of(
        Image(media_type="image/png", data="AAAA"), Text("look", breakpoint="1h")
    )
    turn = AssistantMessage(
        (Thinking("hm", signature="s"), VendorItem(source="openai:x", data="{}"), call)
    )
    result = ToolMessage((ToolResult(call_id="c", name="read", content="1"),))
    sent = make_conversation(2).append(marked, turn, result)

    dropped = compacted(sent, SUMMARY, 2)
    assert AssistantMessage((call,)) in dropped.messages
    assert marked in dropped.messages
    assert dropped.messages[-1] == result
    assert turn in compacted(sent, SUMMARY, 1, keeps_thinking=True).messages


def test_hovering_near_the_trigger_rewrites_once() -> None:
    """C64: with the target at the trigger each request near the limit broke the prefix."""
    context = make_conversation(5)
    rewrites = 0
    for index in range(40):
        context = with_turn(context, f"h{index}", "y" * 4_000)
        step = next_step(context, size(context), RULE, SONNET, turns_left=20)
        if isinstance(step, Summarise):
            rewrites += 1
            context = step.after(SUMMARY)
    # 40 turns of about 1,000 tokens, and 12,000 tokens from the target back to the trigger
    assert 2 <= rewrites <= 4


def test_ten_turns_at_the_threshold_rewrite_once() -> None:
    """C64: ten turns near the limit, one rewrite, also if the summary is far too long."""
    context = make_conversation(15, 4_000)
    rewrites = 0
    for index in range(10):
        context = with_turn(context, f"h{index}", "y" * 400)
        step = next_step(context, size(context), RULE, SONNET, turns_left=20)
        if isinstance(step, Summarise):
            rewrites += 1
            context = step.after("A summary that does not end. " * 2_000)
    assert rewrites == 1


def test_three_hundred_turns_are_rewritten_in_batches() -> None:
    """C65: pruning per render broke 71 % of the warm requests."""
    context = make_conversation(1)
    breaks, before = 0, context
    for index in range(300):
        context = with_turn(context, f"t{index}", "z" * 2_000)
        breaks += not context.starts_with(before)
        step = next_step(context, size(context), RULE, SONNET, turns_left=300 - index)
        before = context
        context = step.after(SUMMARY) if isinstance(step, Summarise) else context
    assert 0 < breaks <= 20


def spent(n_turns: int, result_bytes: int, rule: CompactionRule) -> tuple[Decimal, int]:
    """What a run costs in the simulated cache, and how often it was begun anew."""
    cache, context, rewrites = Cache(), make_conversation(0), 0
    for index in range(n_turns):
        cache.ask(context)
        context = with_turn(context, f"t{index}", "z" * result_bytes)
        step = next_step(context, size(context), rule, SONNET, turns_left=n_turns - index - 1)
        if isinstance(step, Summarise):
            cache.ask(step.request_context, output_tokens=rule.summary)
            context = step.after("s" * rule.summary * 4)
            rewrites += 1
    return cache.spent, rewrites


@pytest.mark.parametrize("n_turns", [20, 60, 150])
@pytest.mark.parametrize("result_bytes", [1_000, 8_000])
def test_where_nothing_forces_it_a_summary_never_makes_a_run_dearer(
    n_turns: int, result_bytes: int
) -> None:
    """Against the simulated cache, with lookback, minimum, write price and all."""
    free = CompactionRule(trigger_tokens=20_000, limit_tokens=10**9, summary_tokens=500)
    never = CompactionRule(trigger_tokens=10**9, limit_tokens=10**9, summary_tokens=500)
    with_rule, rewrites = spent(n_turns, result_bytes, free)
    without, none = spent(n_turns, result_bytes, never)

    assert none == 0
    assert with_rule <= without
    if n_turns * result_bytes >= 480_000:
        assert rewrites > 0
        assert with_rule < without * Decimal("0.9")


def test_a_front_that_is_too_long_by_itself_is_no_reason_to_rewrite_at_each_turn() -> None:
    context = make_conversation(3, 400, front_bytes=100_000)
    step = next_step(context, size(context), RULE, SONNET)

    assert isinstance(step, Keep)
    assert "raise trigger_tokens or use less knowledge" in step.reason


@pytest.mark.parametrize(
    ("usage", "turns_left", "reason"),
    [
        (Usage(input_tokens=100, output_tokens=5), 12, "105 tokens are below the trigger"),
        (None, 0, "no request follows"),
        (None, 1, "would cost more than it saves"),
        (Usage(input_tokens=25_000, output_tokens=10), 1, "would cost more than it saves"),
    ],
)
def test_it_goes_on_where_a_summary_would_not_pay(
    usage: Usage | None, turns_left: int, reason: str
) -> None:
    step = next_step(make_conversation(20), usage, RULE, SONNET, turns_left=turns_left)

    assert isinstance(step, Keep)
    assert reason in step.reason


def test_at_the_limit_it_is_summarised_whatever_it_costs() -> None:
    step = next_step(make_conversation(40), None, RULE, SONNET, turns_left=1)

    assert isinstance(step, Summarise)
    assert step.saved is not None
    assert step.saved < 0
    assert "at the limit of 30000" in step.reason


def test_the_saving_is_exact() -> None:
    """By hand, Sonnet 5.5: read 0.10, write 2.50, output 10 USD a million."""
    step = summarise(make_conversation(25), turns_left=12)
    per = Decimal(1) / 1_000_000
    instruction = -(-len(RULE.instruction.encode()) // 4)
    asking = step.n_before * Decimal("0.1") + instruction * Decimal("2.5") + 500 * 10
    new = step.n_front * Decimal("0.1") + (step.n_after - step.n_front) * Decimal("2.5")
    later = 11 * step.n_after * Decimal("0.1")

    assert step.saved == (12 * step.n_before * Decimal("0.1") - asking - new - later) * per
    assert step.switch_cost == (asking + new - step.n_before * Decimal("0.1")) * per


def test_a_price_that_jumps_with_the_length_makes_a_summary_pay_early() -> None:
    """Haiku 5.5 costs five times as much for a prompt above 100,000 tokens."""
    rule = CompactionRule(trigger_tokens=90_000, limit_tokens=150_000)
    context = make_conversation(104)
    saved = []
    for n_tokens in (97_000, 104_000):
        step = next_step(context, Usage(input_tokens=n_tokens), rule, HAIKU, turns_left=6)
        assert isinstance(step, Summarise)
        assert step.saved is not None
        saved.append(step.saved)
    assert saved[1] > 3 * saved[0] > 0


def test_an_image_counts_as_one_and_not_by_its_bytes() -> None:
    """Else one picture of a megabyte would look like 350,000 tokens, and text like none."""
    picture = UserMessage.of(Image.of_bytes(b"p" * 1_000_000, "image/png"), "What is it?")
    context = make_conversation(3).append(picture)
    step = next_step(context, Usage(input_tokens=13_000, output_tokens=10), RULE, SONNET)

    assert isinstance(step, Keep)
    assert "13010 tokens are below" in step.reason
    seen = context.append(AssistantMessage((Text("A cat."),)))
    for index in range(14):
        seen = with_turn(seen, f"c{index}", "x" * 4_000)
    step = summarise(seen)
    assert step.n_before < 40_000
    assert step.keep_turns == 2


def test_without_a_known_price_it_decides_by_usual_ratios_and_claims_no_money() -> None:
    step = next_step(make_conversation(29), None, RULE, UNKNOWN, turns_left=20)

    assert isinstance(step, Summarise)
    assert step.saved is None


def test_between_a_call_and_its_result_nothing_is_rewritten() -> None:
    call = AssistantMessage((ToolCall(id="o", name="read", arguments="{}"),))
    opened = make_conversation(40).append(call)

    assert isinstance(next_step(opened, None, RULE, SONNET), Keep)
    with pytest.raises(ContextError, match="no result yet"):
        compacted(opened, SUMMARY, 1)
    with pytest.raises(ContextError, match="no result yet"):
        summary_request_context(opened)


def test_an_empty_summary_is_refused_and_the_context_stays() -> None:
    with pytest.raises(ContextError, match="the summary is empty"):
        compacted(make_conversation(3), " \n", 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target_ratio": Decimal(1)}, "each turn would rewrite"),
        ({"summary_tokens": 90_000}, "between 0 and the target of 40000"),
        ({"limit_tokens": 5}, "at least trigger_tokens"),
        ({"keep_turns": -1}, "keep_turns must be at least 0"),
        ({"turns_left": 0}, "turns_left must be at least 1"),
        ({"instruction": " "}, "instruction is empty"),
    ],
)
def test_rules_that_cannot_work_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        CompactionRule(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("trigger", [500, 6_000, 100_000, 200_000])
def test_a_trigger_alone_is_a_rule(trigger: int) -> None:
    """200,000 was refused because of the default of `limit_tokens`; of 6,000 2,000 were kept for
    the summary, so nothing was ever done."""
    rule = CompactionRule(trigger_tokens=trigger)

    assert rule.limit == trigger * 8 // 5
    assert 0 < rule.summary <= min(2_000, trigger // 20)
    assert replace(rule, trigger_tokens=2 * trigger).limit == trigger * 16 // 5
    assert CompactionRule().limit == 160_000
    assert CompactionRule().summary == 2_000


def test_with_limit_and_trigger_equal_it_is_done_whatever_it_costs() -> None:
    context = make_conversation(20, 4_000)
    forced = CompactionRule(trigger_tokens=15_000, limit_tokens=15_000)
    step = next_step(context, None, forced, SONNET, turns_left=1)

    assert isinstance(step, Summarise)
    assert step.saved is not None
    assert step.saved < 0


@pytest.mark.parametrize("window", [2_048, 32_768, 200_000, 1_000_000])
def test_a_rule_for_a_window_leaves_room_for_the_answer_and_a_gap(window: int) -> None:
    rule = CompactionRule.for_window(window)

    assert rule.trigger_tokens < rule.limit < window
    assert 3 * rule.summary <= rule.target_tokens < rule.trigger_tokens - rule.summary
    with pytest.raises(ValueError):
        CompactionRule.for_window(2)


def test_clearing_tool_results_by_the_provider_is_chosen_where_it_costs_less() -> None:
    """Two huge results at the very end: little is written again, and no summary is paid."""
    context = make_conversation(3, 4_000)
    for index in range(2):
        context = with_turn(context, f"big{index}", "b" * 40_000)
    context = with_turn(context, "small", "s")
    own = summarise(context, turns_left=6)
    edits = context_edits(Provider.ANTHROPIC)

    chosen = better_than(own, edits, SONNET, turns_left=6, trigger_tokens=20_000, keep_tool_uses=1)
    assert chosen is not None
    assert chosen.edit.name == "clear_tool_uses_20250919"
    assert chosen.clear_at_least is not None
    assert 0 < chosen.clear_at_least < own.n_before
    assert better_than(own, (), SONNET, turns_left=6, trigger_tokens=20_000) is None
    # Where the results must stay, or too little would go, it is no choice.
    excluded = better_than(
        own, edits, SONNET, turns_left=6, trigger_tokens=20_000, exclude_tools=["read"]
    )
    assert excluded is None
    assert better_than(own, edits, SONNET, turns_left=6, trigger_tokens=1_000) is None
    assert context_edits(Provider.DEEPSEEK) == ()


def test_what_is_cleared_at_least_pays_for_the_tail_that_is_written_again() -> None:
    context = with_turn(make_conversation(2, 30_000), "s", "s" * 8_000)
    own = summarise(context, turns_left=10)
    chosen = better_than(
        own,
        context_edits(Provider.ANTHROPIC),
        SONNET,
        turns_left=10,
        trigger_tokens=20_000,
        keep_tool_uses=1,
    )
    assert chosen is not None
    least = chosen.clear_at_least
    assert least is not None
    assert 10 * SONNET.request(read=least) >= SONNET.request(written=2_000 - 500) * Decimal("0.9")


MESSAGES = st.lists(st.sampled_from(["user", "turn", "answer"]), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(MESSAGES, st.integers(0, 5))
def test_any_history_compacts_to_one_that_a_model_accepts(kinds: list[str], keep: int) -> None:
    context = Context(SystemText(SystemPart.RULES, "Be honest."))
    for index, kind in enumerate(kinds):
        if kind == "turn":
            context = with_turn(context, f"c{index}", "r")
        elif kind == "user":
            context = context.append(UserMessage.of(f"u{index}"))
        else:
            context = context.append(AssistantMessage((Thinking("t"), Text(f"a{index}"))))
    epoch = compacted(context, SUMMARY, keep, keeps_thinking=True)

    assert epoch.front == context.front
    kept = epoch.messages[1:]
    assert kept == context.messages[len(context.messages) - len(kept) :]
    assert sum(isinstance(each, AssistantMessage) for each in kept) <= keep
    assert Context.load(epoch.dump()) == epoch


def test_a_newer_front_is_taken_where_the_deltas_are_longer_than_it() -> None:
    context = make_conversation(20, 4_000)
    newer = Context(SystemText(SystemPart.RULES, "Be honest, always. " * 20))
    short = next_step(context.append(delta("b")), None, RULE, SONNET, front=newer)
    long = next_step(context.append(delta("b" * 40_000)), None, RULE, SONNET, front=newer)

    assert isinstance(short, Summarise)
    assert isinstance(long, Summarise)
    assert short.front is None
    assert long.front is newer
    assert long.n_front == 0  # nothing of it is surely in the cache
    assert long.n_after < short.n_before
    epoch = long.after(SUMMARY)
    assert epoch.front == newer
    assert "bbbb" not in str(epoch.messages)
    carrying = next_step(context.append(delta("b" * 40_000)), None, RULE, SONNET)
    assert isinstance(carrying, Summarise)
    assert carrying.n_after > RULE.target_tokens > long.n_after
