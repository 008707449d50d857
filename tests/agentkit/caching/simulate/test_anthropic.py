"""The simulated Claude cache against the documented vectors (documentation of 2026-08-21)."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal as D
from typing import Any

import pytest

from agentkit.caching.policy import (
    AnthropicPolicy,
    AnthropicRefresh,
    BlockKind,
    LookbackUnit,
    Platform,
    Speed,
    Switches,
    Terms,
    ThinkingTier,
    Ttl,
    anthropic_policy,
)
from agentkit.caching.simulate import (
    Block,
    CacheRequest,
    Identity,
    InFlight,
    ManualClock,
    Mark,
    Message,
    MissReason,
    RefusalReason,
    Refused,
    Role,
    Served,
    SimulatedAnthropic,
    Tenant,
)
from agentkit.errors import UnknownModel

SONNET = Identity(model="claude-sonnet-5-5")
FIVE, HOUR = Mark(Ttl.FIVE_MINUTES), Mark(Ttl.ONE_HOUR)


def block(
    name: str,
    n: int = 1000,
    mark: Mark | None = None,
    kind: BlockKind = BlockKind.TEXT,
    **more: Any,
) -> Block:
    return Block(kind=kind, digest=name.encode(), n_tokens=n, mark=mark, **more)


def tool(name: str, n: int = 1000, mark: Mark | None = None) -> Block:
    return block(name, n, mark, BlockKind.TOOL)


def user(*blocks: Block) -> Message:
    return Message(Role.USER, blocks)


def said(*blocks: Block) -> Message:
    return Message(Role.ASSISTANT, blocks)


def ask(*messages: Message, **more: Any) -> CacheRequest:
    return CacheRequest(**({"identity": SONNET, "messages": messages} | more))


def row(n_blocks: int, *marks: int, **more: Any) -> CacheRequest:
    """A request of equal blocks, numbered from 1, with 5m marks on some."""
    blocks = [block(f"b{i}", mark=FIVE if i in marks else None) for i in range(1, n_blocks + 1)]
    return ask(user(*blocks), **more)


def serve(cache: SimulatedAnthropic, request: CacheRequest, **more: Any) -> Served:
    served = cache.request(request, **more)
    assert isinstance(served, Served), served
    return served


def begin(cache: SimulatedAnthropic, request: CacheRequest) -> InFlight:
    flight = cache.begin(request)
    assert isinstance(flight, InFlight), flight
    return flight


def refusal(cache: SimulatedAnthropic, request: CacheRequest) -> RefusalReason:
    refused = cache.request(request)
    assert isinstance(refused, Refused), refused
    return refused.reason


@pytest.mark.parametrize(
    ("written", "marked", "read"),
    [(10, 15, 10), (15, 35, 0), (15, 34, 15)],
)
def test_a_mark_finds_what_was_written_up_to_19_positions_before(
    clock: ManualClock, written: int, marked: int, read: int
) -> None:
    cache = SimulatedAnthropic(clock=clock)
    serve(cache, row(written, written))
    assert serve(cache, row(marked, marked)).read == read * 1000


def test_what_lies_out_of_the_lookback_is_named_as_such(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    serve(cache, row(15, 15))
    miss = serve(cache, row(35, 35)).miss
    assert miss is not None
    assert (miss.reason, miss.lost_tokens) == (MissReason.OUT_OF_REACH, 15_000)


def test_an_earlier_mark_opens_a_fresh_window(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    serve(cache, row(15, 15))
    assert serve(cache, row(50, 34, 50)).read == 15_000


def test_nothing_is_stored_between_marks(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    serve(cache, row(10, 5, 10))
    served = serve(cache, row(8, 8))
    assert (served.read, served.write_by_ttl) == (5000, {Ttl.FIVE_MINUTES: 3000})


def test_a_mark_that_is_gone_is_no_change_of_content(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    serve(cache, row(10, 5))
    assert serve(cache, row(10, 10)).read == 5000


def _wide(n_calls: int) -> CacheRequest:
    calls = [block(f"c{i}", 10, kind=BlockKind.TOOL_USE) for i in range(n_calls)]
    results = [block(f"r{i}", 10, kind=BlockKind.TOOL_RESULT) for i in range(n_calls - 1)]
    last = block(f"r{n_calls - 1}", 10, FIVE, BlockKind.TOOL_RESULT)
    return ask(user(block("question")), said(*calls), user(*results, last))


@pytest.mark.parametrize(
    ("unit", "read"), [(LookbackUnit.COLLAPSED_RUNS, 1000), (LookbackUnit.BLOCKS, 0)]
)
def test_runs_of_tool_blocks_are_one_position_unless_blocks_are_counted(
    clock: ManualClock, unit: LookbackUnit, read: int
) -> None:
    cache = SimulatedAnthropic(clock=clock, switches=Switches(anthropic_lookback=unit))
    serve(cache, ask(user(block("question", mark=FIVE))))
    assert serve(cache, _wide(15)).read == read


def test_fifteen_calls_read_back_over_a_lookback_of_blocks_with_a_mark_between(
    clock: ManualClock,
) -> None:
    cache = SimulatedAnthropic(
        clock=clock, switches=Switches(anthropic_lookback=LookbackUnit.BLOCKS)
    )
    serve(cache, ask(user(block("question", mark=FIVE))))
    question, calls, results = _wide(15).messages
    marked = replace(calls, blocks=(*calls.blocks[:-1], replace(calls.blocks[-1], mark=FIVE)))
    assert serve(cache, ask(question, marked, results)).read == 1000


@pytest.mark.parametrize(
    ("model", "minimum"), [("claude-opus-5", 512), ("claude-sonnet-4-6", 1024)]
)
def test_a_prefix_below_the_minimum_is_silently_not_cached(
    clock: ManualClock, model: str, minimum: int
) -> None:
    cache = SimulatedAnthropic(clock=clock)
    short = ask(user(block("s", minimum - 1, FIVE)), identity=Identity(model=model))
    for _ in range(2):
        served = serve(cache, short)
        assert (served.read, served.write_by_ttl, served.uncached) == (0, {}, minimum - 1)
        assert served.miss_reason is MissReason.TOO_SHORT
    long = ask(user(block("l", minimum, FIVE)), identity=Identity(model=model))
    assert serve(cache, long).write_by_ttl == {Ttl.FIVE_MINUTES: minimum}
    assert serve(cache, long).read == minimum


def test_the_minimum_counts_the_whole_prefix_and_not_the_block(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    request = ask(user(block("small", 100, FIVE)), system=(block("big", 500),))
    assert serve(cache, request).write_by_ttl == {Ttl.FIVE_MINUTES: 600}


def test_a_model_with_an_unknown_minimum_is_an_error_and_no_guess(clock: ManualClock) -> None:
    with pytest.raises(UnknownModel, match="'claude-nobody-9'"):
        SimulatedAnthropic(clock=clock).request(ask(identity=Identity(model="claude-nobody-9")))


def test_an_entry_lives_from_the_start_of_the_request_that_wrote_it(clock: ManualClock) -> None:
    """A four-minute answer leaves one minute."""
    cache = SimulatedAnthropic(clock=clock)
    flight = begin(cache, row(2, 2))
    flight.response_began()
    clock.advance(240)
    flight.end()
    clock.advance(59)
    assert begin(cache, row(2, 2)).served.read == 2000
    clock.advance(299)
    assert begin(cache, row(2, 2)).served.read == 2000
    clock.advance(301)
    late = begin(cache, row(2, 2)).served
    assert (late.read, late.miss_reason) == (0, MissReason.EXPIRED)


def test_an_hour_costs_double_and_lasts_an_hour(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    request = ask(user(block("a", mark=HOUR)))
    cost = serve(cache, request).cost
    assert cost is not None
    assert cost.total == D("0.004")
    clock.advance(3599)
    assert serve(cache, request).read == 1000


@pytest.mark.parametrize(
    ("refresh", "short_read"),
    [
        (AnthropicRefresh.HIT_AND_MARKED, 1000),
        (AnthropicRefresh.HIT_ONLY, 0),
        (AnthropicRefresh.ALL_SHORTER, 1000),
    ],
)
def test_whether_a_long_hit_keeps_a_short_marked_entry_alive_is_a_switch(
    clock: ManualClock, refresh: AnthropicRefresh, short_read: int
) -> None:
    cache = SimulatedAnthropic(clock=clock, switches=Switches(anthropic_refresh=refresh))
    for _ in range(2):
        serve(cache, row(3, 1, 3))
        clock.advance(200)
    assert serve(cache, row(1, 1)).read == short_read


def test_an_unmarked_shorter_entry_is_kept_alive_only_by_the_widest_rule(
    clock: ManualClock,
) -> None:
    found = []
    for refresh in (AnthropicRefresh.HIT_AND_MARKED, AnthropicRefresh.ALL_SHORTER):
        cache = SimulatedAnthropic(clock=clock, switches=Switches(anthropic_refresh=refresh))
        serve(cache, row(3, 1, 3))
        clock.advance(200)
        serve(cache, row(3, 3))
        clock.advance(200)
        found.append(serve(cache, row(1, 1)).read)
    assert found == [0, 1000]


@pytest.mark.parametrize(
    ("warm", "expected"),
    [
        ((), (0, 1000, 4000, 500)),
        ((1000,), (1000, 0, 4000, 500)),
        ((1000, 4000), (4000, 0, 1000, 500)),
    ],
)
def test_mixed_lifetimes_are_billed_by_the_documented_formula(
    clock: ManualClock, warm: tuple[int, ...], expected: tuple[int, int, int, int]
) -> None:
    """Marks (1000, 1h) and (5000, 5m): cold, with a hit at 1000, and with a hit at 4000."""
    cache = SimulatedAnthropic(clock=clock)

    def prompt(marks: dict[int, Mark], n_blocks: int) -> CacheRequest:
        ends = (1000, 4000, 5000, 5500)
        sizes = (1000, 3000, 1000, 500)
        blocks = [
            block(f"{end}", size, marks.get(end)) for end, size in zip(ends, sizes, strict=True)
        ]
        return ask(user(*blocks[:n_blocks]))

    for end in warm:
        mark = HOUR if end == 1000 else FIVE
        serve(cache, prompt({end: mark}, {1000: 1, 4000: 2}[end]))
    served = serve(cache, prompt({1000: HOUR, 5000: FIVE}, 4))
    writes = served.write_by_ttl
    assert (
        served.read,
        writes.get(Ttl.ONE_HOUR, 0),
        writes.get(Ttl.FIVE_MINUTES, 0),
        served.uncached,
    ) == expected


def test_a_five_minute_mark_before_an_hour_is_refused(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    wrong = ask(user(block("a", mark=FIVE), block("b", mark=HOUR)))
    assert refusal(cache, wrong) is RefusalReason.TTL_ORDER
    right = ask(user(block("a", mark=HOUR), block("b", mark=FIVE)))
    assert serve(cache, right).split.written == 2000


def test_five_marks_are_refused_also_when_the_fifth_is_automatic(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    assert refusal(cache, row(9, 1, 2, 3, 4, 5)) is RefusalReason.TOO_MANY_MARKS
    four = row(9, 1, 2, 3, 4)
    assert serve(cache, four).uncached == 5000
    assert refusal(cache, replace(four, automatic=Mark())) is RefusalReason.TOO_MANY_MARKS


def test_a_refused_request_writes_nothing(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    cache.request(row(9, 1, 2, 3, 4, 5))
    assert serve(cache, row(9, 4)).read == 0


@pytest.mark.parametrize(
    "bad",
    [
        block("t", kind=BlockKind.THINKING, mark=FIVE),
        block("t", kind=BlockKind.REDACTED_THINKING, mark=FIVE),
        block("t", kind=BlockKind.CLEARED_SYSTEM, mark=FIVE),
        block("t", 0, mark=FIVE),
    ],
)
def test_marks_on_what_cannot_carry_one_are_refused(clock: ManualClock, bad: Block) -> None:
    assert refusal(SimulatedAnthropic(clock=clock), ask(said(bad))) is RefusalReason.UNMARKABLE


def test_a_deferred_tool_stays_out_of_the_prefix_and_carries_no_mark(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    deferred = block("d", 700, kind=BlockKind.DEFERRED_TOOL)
    with_it = ask(tools=(tool("t", mark=FIVE), deferred))
    assert serve(cache, with_it).split.total == 1000
    assert serve(cache, ask(tools=(tool("t", mark=FIVE),))).read == 1000
    marked = ask(tools=(replace(deferred, mark=FIVE),))
    assert refusal(cache, marked) is RefusalReason.UNMARKABLE


def test_a_lifetime_of_another_provider_is_refused(clock: ManualClock) -> None:
    request = ask(user(block("a", mark=Mark(Ttl.TWELVE_HOURS))))
    assert refusal(SimulatedAnthropic(clock=clock), request) is RefusalReason.UNKNOWN_TTL


def test_the_automatic_mark_goes_to_the_last_block(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    assert serve(cache, row(3, automatic=Mark())).write_by_ttl == {Ttl.FIVE_MINUTES: 3000}
    assert serve(cache, row(4, automatic=Mark())).read == 3000


def test_the_automatic_mark_on_a_block_with_the_same_mark_is_nothing(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    assert serve(cache, row(9, 1, 2, 3, 9, automatic=Mark())).split.written == 9000
    other = row(9, 9, automatic=HOUR)
    assert refusal(cache, other) is RefusalReason.AUTOMATIC_CONFLICT


def test_the_automatic_mark_walks_back_over_blocks_that_cannot_carry_it(
    clock: ManualClock,
) -> None:
    cache = SimulatedAnthropic(clock=clock)
    thinking = said(block("t", 200, kind=BlockKind.THINKING))
    served = serve(cache, ask(user(block("q")), thinking, automatic=Mark()))
    assert (served.split.written, served.uncached) == (1000, 200)
    alone = serve(cache, ask(said(block("t2", 900, kind=BlockKind.THINKING)), automatic=Mark()))
    assert (alone.split.written, alone.uncached) == (0, 900)


def test_legacy_bedrock_refuses_the_automatic_mark(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock, platform=Platform.BEDROCK_LEGACY)
    request = row(9, automatic=Mark(), identity=Identity(model="claude-opus-4-6"))
    assert refusal(cache, request) is RefusalReason.AUTOMATIC_UNAVAILABLE


def test_automatic_marks_behind_per_request_text_write_each_time_and_read_nothing(
    clock: ManualClock,
) -> None:
    cache = SimulatedAnthropic(clock=clock)
    for index in range(3):
        request = ask(user(block("rules", 5000), block(f"now {index}", 50)), automatic=Mark())
        served = serve(cache, request)
        assert (served.read, served.split.written) == (0, 5050)


def test_server_tool_results_are_marked_for_five_minutes_when_anything_is(
    clock: ManualClock,
) -> None:
    found = block("hits", 3000, kind=BlockKind.SERVER_TOOL_RESULT)
    cache = SimulatedAnthropic(clock=clock)
    unmarked = serve(cache, ask(user(block("q")), said(found)))
    assert (unmarked.write_by_ttl, unmarked.miss_reason) == ({}, MissReason.NO_MARKS)
    marked = serve(cache, ask(user(block("q", mark=HOUR)), said(found)))
    assert marked.write_by_ttl == {Ttl.ONE_HOUR: 1000, Ttl.FIVE_MINUTES: 3000}


def test_marks_of_one_group_act_as_one_and_count_each(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    batch = [block(f"a{i}", mark=FIVE, group="batch") for i in range(3)]
    serve(cache, ask(user(*batch)))
    assert serve(cache, ask(user(batch[0]))).read == 0
    more = (block("x", mark=FIVE), block("y", mark=FIVE))
    assert refusal(cache, ask(user(*batch, *more))) is RefusalReason.TOO_MANY_MARKS


def test_a_group_is_one_position(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    serve(cache, ask(user(block("first", mark=FIVE))))
    batch = [block(f"a{i}", 10, group="batch") for i in range(25)]
    ungrouped = [replace(step, group=None) for step in batch]
    assert serve(cache, ask(user(block("first"), *ungrouped, block("x", mark=FIVE)))).read == 0
    assert serve(cache, ask(user(block("first"), *batch, block("y", mark=FIVE)))).read == 1000


def test_neighbouring_groups_keep_their_own_marks(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    one, two = block("a", mark=FIVE, group="one"), block("b", mark=FIVE, group="two")
    serve(cache, ask(user(one, two)))
    assert serve(cache, ask(user(one))).read == 1000


def test_rules_can_be_given_instead_of_looked_up(clock: ManualClock) -> None:
    """For models and days that the tables do not know."""

    def policy_of(model: str, on: date) -> AnthropicPolicy:
        known = anthropic_policy("claude-opus-5", on)
        return replace(known, model=model, longer_ttl_first=False, mark_budget=1)

    cache = SimulatedAnthropic(clock=clock, policy_of=policy_of)
    nobody = Identity(model="claude-nobody-9")
    assert serve(cache, row(2, 2, identity=nobody)).split.written == 2000
    assert refusal(cache, row(2, 1, 2, identity=nobody)) is RefusalReason.TOO_MANY_MARKS


def test_an_empty_request_is_served_and_its_output_forgotten(clock: ManualClock) -> None:
    served = serve(SimulatedAnthropic(clock=clock), ask(), output=[block("a")])
    assert served.split.total == 0


FRONT = {"tools": (tool("t", mark=FIVE),), "system": (block("s", mark=FIVE),)}


def _tiered(**changes: Any) -> CacheRequest:
    """1000 tokens of tools, of system and of messages, each with a mark."""
    terms = changes.pop("terms", Terms())
    messages = changes.pop("messages", (user(block("m", mark=FIVE)),))
    identity = replace(SONNET, **{"model": "claude-opus-5"} | changes)
    return CacheRequest(identity=identity, messages=messages, terms=terms, **FRONT)


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        ({}, 3000),
        ({"model": "claude-opus-4-8"}, 0),
        ({"web_tools": True}, 1000),
        ({"citations": True}, 1000),
        ({"terms": Terms(speed=Speed.FAST)}, 1000),
        ({"tool_choice": "any"}, 2000),
        ({"parallel_tools": False}, 2000),
        ({"output_format": "schema"}, 2000),
        ({"betas": frozenset({"new"})}, 2000),
        ({"context_management": "clear"}, 2000),
        ({"effort": "high"}, 3000),
        ({"effort": "medium"}, 0),
        ({"thinking": "adaptive"}, 0),
        ({"verbosity": "low"}, 3000),
    ],
)
def test_a_change_loses_its_tier_and_those_behind(
    clock: ManualClock, changes: dict[str, Any], read: int
) -> None:
    cache = SimulatedAnthropic(clock=clock)
    serve(cache, _tiered())
    served = serve(cache, _tiered(**changes))
    assert served.read == read
    assert (served.miss_reason is MissReason.SETTING_CHANGED) == (read < 3000)


def test_the_changed_setting_is_named(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    serve(cache, _tiered())
    miss = serve(cache, _tiered(tool_choice="any")).miss
    assert miss is not None
    assert "tool_choice" in miss.detail
    assert miss.lost_tokens == 1000


def test_an_image_anywhere_loses_the_messages_tier(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    text = user(block("m", mark=FIVE))
    image = user(block("i", 300, kind=BlockKind.IMAGE))
    serve(cache, _tiered(messages=(text,)))
    assert serve(cache, _tiered(messages=(text, image))).read == 2000


def test_the_old_text_lets_tools_and_system_survive_a_thinking_change(clock: ManualClock) -> None:
    switches = Switches(anthropic_thinking=ThinkingTier.MESSAGES)
    cache = SimulatedAnthropic(clock=clock, switches=switches)
    serve(cache, _tiered())
    assert serve(cache, _tiered(thinking="adaptive")).read == 2000


def test_an_effort_change_turns_a_read_into_a_write_of_the_same_size(clock: ManualClock) -> None:
    """The documentation's example: high to medium, 3546 tokens."""
    cache = SimulatedAnthropic(clock=clock)
    prompt = (user(block("p", 3546, FIVE)),)
    opus = Identity(model="claude-opus-5", effort="high")
    serve(cache, ask(*prompt, identity=opus))
    assert serve(cache, ask(*prompt, identity=opus)).read == 3546
    changed = serve(cache, ask(*prompt, identity=replace(opus, effort="medium")))
    assert (changed.read, changed.split.written) == (0, 3546)


@pytest.mark.parametrize(
    ("tools", "system", "read"),
    [(("t2",), ("s",), 0), (("t", "t2"), ("s",), 1000), (("t",), ("s2",), 1000)],
)
def test_edited_tools_and_system_lose_everything_from_the_edit(
    clock: ManualClock, tools: tuple[str, ...], system: tuple[str, ...], read: int
) -> None:
    cache = SimulatedAnthropic(clock=clock)
    serve(cache, _tiered())
    request = replace(
        _tiered(),
        tools=tuple(tool(name, mark=FIVE) for name in tools),
        system=tuple(block(name, mark=FIVE) for name in system),
    )
    assert serve(cache, request).read == read


@pytest.mark.parametrize(("model", "total"), [("claude-haiku-4-5", 9000), ("claude-opus-5", 9700)])
def test_old_models_strip_thinking_before_the_last_user_turn(
    clock: ManualClock, model: str, total: int
) -> None:
    cache = SimulatedAnthropic(clock=clock)
    identity = Identity(model=model)
    thought = said(block("think", 700, kind=BlockKind.THINKING), block("a", 3000))
    first = ask(user(block("q", 5000)), thought, automatic=Mark(), identity=identity)
    assert serve(cache, first).split.total == 8700
    follow_up = user(block("next", 1000))
    second = serve(cache, replace(first, messages=(*first.messages, follow_up), automatic=Mark()))
    assert second.split.total == total
    assert second.read == (0 if total == 9000 else 8700)


def test_tool_results_are_no_user_turn_that_strips_thinking(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    thought = said(
        block("think", 700, kind=BlockKind.THINKING), block("c", 100, kind=BlockKind.TOOL_USE)
    )
    result = user(block("r", 100, kind=BlockKind.TOOL_RESULT))
    request = ask(
        user(block("q", 5000)), thought, result, identity=Identity(model="claude-haiku-4-5")
    )
    assert serve(cache, request).split.total == 5900


def test_thinking_behind_another_prefix_than_its_own_is_refused_on_the_newest_models(
    clock: ManualClock,
) -> None:
    cache = SimulatedAnthropic(clock=clock)
    thought = block("think", 700, kind=BlockKind.THINKING)
    first = ask(user(block("q")))
    serve(cache, first, output=[thought, block("a")])
    replayed = (said(thought, block("a")), user(block("next")))
    assert serve(cache, ask(user(block("q")), *replayed)).split.total == 3700
    assert refusal(cache, ask(user(block("edited")), *replayed)) is RefusalReason.THINKING_BOUND
    old = Identity(model="claude-opus-5")
    assert serve(cache, ask(user(block("edited")), *replayed, identity=old)).split.total == 3700


def test_system_messages_in_mid_conversation_need_a_model_that_takes_them(
    clock: ManualClock,
) -> None:
    cache = SimulatedAnthropic(clock=clock)
    messages = (user(block("q")), Message(Role.DEVELOPER, (block("new rule"),)))
    assert serve(cache, ask(*messages)).split.total == 2000
    refused = ask(*messages, identity=Identity(model="claude-sonnet-5"))
    assert refusal(cache, refused) is RefusalReason.SYSTEM_MESSAGE


def test_parallel_cold_requests_all_pay_the_write(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    first, second = begin(cache, row(2, 2)), begin(cache, row(2, 2))
    assert second.served.split.written == 2000
    assert second.served.miss_reason is MissReason.NOT_YET_READABLE
    first.response_began()
    assert begin(cache, row(2, 2)).served.read == 2000
    second.end()


def test_a_request_that_fails_before_its_response_writes_nothing(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    begin(cache, row(2, 2)).abort()
    miss = begin(cache, row(2, 2)).served.miss_reason
    assert miss is MissReason.NEVER_WRITTEN


def test_a_request_that_fails_in_its_response_has_written(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    flight = begin(cache, row(2, 2))
    flight.response_began()
    flight.abort()
    assert begin(cache, row(2, 2)).served.read == 2000


def test_a_request_that_is_over_stays_over(clock: ManualClock) -> None:
    flight = begin(SimulatedAnthropic(clock=clock), row(2, 2))
    flight.end()
    for again in (flight.end, flight.response_began, flight.abort):
        with pytest.raises(ValueError, match="is over"):
            again()


def test_a_prewarm_writes_at_its_end_and_answers_nothing(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    flight = begin(cache, row(2, 2, prewarm=True))
    flight.response_began()
    assert begin(cache, row(2, 2)).served.read == 0
    served = flight.end(output_tokens=5)
    assert (served.output_tokens, served.split.written) == (0, 2000)
    assert begin(cache, row(2, 2)).served.read == 2000


@pytest.mark.parametrize(
    "conflict",
    [
        {"stream": True},
        {"identity": replace(SONNET, thinking="enabled:2048")},
        {"identity": replace(SONNET, output_format="schema")},
        {"identity": replace(SONNET, tool_choice="any")},
        {"terms": Terms(batch=True)},
    ],
)
def test_a_prewarm_with_what_it_excludes_is_refused(
    clock: ManualClock, conflict: dict[str, Any]
) -> None:
    request = row(2, 2, prewarm=True, **conflict)
    assert refusal(SimulatedAnthropic(clock=clock), request) is RefusalReason.PREWARM_CONFLICT


@pytest.mark.parametrize(("platform", "read"), [(Platform.DIRECT, 0), (Platform.BEDROCK, 2000)])
def test_workspaces_share_only_on_the_clouds(
    clock: ManualClock, platform: Platform, read: int
) -> None:
    cache = SimulatedAnthropic(clock=clock, platform=platform)
    serve(cache, row(2, 2, tenant=Tenant(workspace="one")))
    assert serve(cache, row(2, 2, tenant=Tenant(workspace="two"))).read == read
    assert serve(cache, row(2, 2, tenant=Tenant(organization="other"))).read == 0


def _fan_out(clock: ManualClock, *, marked: bool, warm_first: bool) -> D:
    cache = SimulatedAnthropic(clock=clock)
    request = ask(user(block("shared", 40_000, FIVE if marked else None)))
    flights = []
    for index in range(8):
        flights.append(begin(cache, request))
        if warm_first and index == 0:
            flights[0].response_began()
    costs = [flight.end().cost for flight in flights]
    return sum((cost.total for cost in costs if cost is not None), D(0))


def test_a_fan_out_of_eight_agents_costs_what_its_order_makes_it_cost(clock: ManualClock) -> None:
    """8 agents with 40,000 shared tokens on Sonnet 5.5."""
    assert _fan_out(clock, marked=True, warm_first=False) == D("0.80")
    assert _fan_out(clock, marked=False, warm_first=False) == D("0.64")
    assert _fan_out(clock, marked=True, warm_first=True) == D("0.128")


def test_usage_comes_in_the_fields_of_the_messages_api(clock: ManualClock) -> None:
    cache = SimulatedAnthropic(clock=clock)
    serve(cache, ask(user(block("a", mark=HOUR))))
    request = ask(user(block("a", mark=HOUR), block("b", 2000, FIVE), block("c", 30)))
    served = serve(cache, request, output_tokens=7)
    assert served.usage_json == {
        "input_tokens": 30,
        "cache_creation_input_tokens": 2000,
        "cache_read_input_tokens": 1000,
        "cache_creation": {"ephemeral_5m_input_tokens": 2000, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 7,
        "service_tier": "standard",
        "speed": "standard",
        "inference_geo": None,
    }
    assert served.cost is not None
    # 1000 * 0.10 + 2000 * 2.50 + 30 * 2 + 7 * 10, in millionths
    assert served.cost.total == D("0.00523")


def test_a_model_without_a_price_is_served_at_an_unknown_cost(clock: ManualClock) -> None:
    request = row(3, 3, identity=Identity(model="claude-opus-4-1"))
    assert serve(SimulatedAnthropic(clock=clock), request).cost is None


def test_prices_follow_the_clock(clock: ManualClock) -> None:
    def read_cost(day: date) -> D:
        late = ManualClock(clock().replace(month=day.month, day=day.day))
        cache = SimulatedAnthropic(clock=late)
        serve(cache, row(1, 1))
        cost = serve(cache, row(1, 1)).cost
        assert cost is not None
        return cost.total

    assert read_cost(date(2026, 10, 6)) == D("0.0002")
    assert read_cost(date(2026, 10, 7)) == D("0.0001")
