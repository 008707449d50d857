"""The simulated OpenAI caches, against the guide of 2026-09-20 and client 3.57.0."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal as D
from typing import Any

import pytest

from agentkit.caching.policy import (
    BlockKind,
    OpenAiKey,
    OpenAiLookup,
    Platform,
    Speed,
    Switches,
    Terms,
    Ttl,
    TwelveHours,
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
    OpenAiOptions,
    RefusalReason,
    Refused,
    Role,
    Served,
    SimulatedOpenAi,
    Tenant,
)

SOL = Identity(model="gpt-6-sol")
OLD = Identity(model="gpt-5.4")
MARK, TWELVE = Mark(), Mark(Ttl.TWELVE_HOURS)
EXPLICIT = OpenAiOptions(mode="explicit")


def block(
    name: str, n: int = 2000, mark: Mark | None = None, kind: BlockKind = BlockKind.TEXT
) -> Block:
    return Block(kind=kind, digest=name.encode(), n_tokens=n, mark=mark)


def user(*blocks: Block) -> Message:
    return Message(Role.USER, blocks)


def said(*blocks: Block) -> Message:
    return Message(Role.ASSISTANT, blocks)


def result(name: str) -> Message:
    return Message(Role.TOOL, (block(name, kind=BlockKind.TOOL_RESULT),))


def ask(*messages: Message, **more: Any) -> CacheRequest:
    return CacheRequest(**({"identity": SOL, "messages": messages} | more))


def serve(cache: SimulatedOpenAi, request: CacheRequest, **more: Any) -> Served:
    served = cache.request(request, **more)
    assert isinstance(served, Served), served
    return served


def begin(cache: SimulatedOpenAi, request: CacheRequest) -> InFlight:
    flight = cache.begin(request)
    assert isinstance(flight, InFlight), flight
    return flight


def refusal(cache: SimulatedOpenAi, request: CacheRequest) -> RefusalReason:
    refused = cache.request(request)
    assert isinstance(refused, Refused), refused
    return refused.reason


def test_implicit_mode_writes_the_latest_user_message_and_reads_it_next_turn(
    clock: ManualClock,
) -> None:
    cache = SimulatedOpenAi(clock=clock)
    first = ask(user(block("q1")))
    assert serve(cache, first).write_by_ttl == {Ttl.THIRTY_MINUTES: 2000}
    second = ask(user(block("q1")), said(block("a1")), user(block("q2")))
    served = serve(cache, second)
    assert (served.read, served.write_by_ttl) == (2000, {Ttl.THIRTY_MINUTES: 4000})


def test_without_earlier_endings_only_a_mark_brings_back_the_prefix(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock, switches=Switches(openai_reads_earlier_endings=False))
    serve(cache, ask(user(block("q1"))))
    second = ask(user(block("q1")), said(block("a1")), user(block("q2")))
    assert serve(cache, second).miss_reason is MissReason.OUT_OF_REACH
    marked = ask(user(block("q1", mark=MARK)), said(block("a1")), user(block("q3")))
    assert serve(cache, marked).read == 2000


def test_a_static_prefix_with_a_varying_message_end_is_never_read(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    for index in range(3):
        served = serve(cache, ask(user(block("rules", 9000), block(f"question {index}", 60))))
        assert (served.read, served.split.written) == (0, 9060)


def test_a_mark_on_the_static_part_makes_it_readable(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    reads = [
        serve(cache, ask(user(block("rules", 9000, MARK), block(f"question {i}", 60)))).read
        for i in range(3)
    ]
    assert reads == [0, 9000, 9000]


def test_a_longer_version_of_the_same_message_loses_its_old_end(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    serve(cache, ask(user(block("a"))))
    assert serve(cache, ask(user(block("a"), block("b")))).read == 0
    serve(cache, ask(user(block("c", mark=MARK))))
    assert serve(cache, ask(user(block("c", mark=MARK), block("d")))).read == 2000


@pytest.mark.parametrize("n_tokens", [1023, 1024])
def test_the_minimum_is_1024_tokens(clock: ManualClock, n_tokens: int) -> None:
    cache = SimulatedOpenAi(clock=clock)
    request = ask(user(block("q", n_tokens)))
    serve(cache, request)
    assert serve(cache, request).read == (n_tokens if n_tokens >= 1024 else 0)


def test_the_developer_block_is_looked_up_and_instructions_are_not(clock: ManualClock) -> None:
    for kind, read in ((BlockKind.TEXT, 2000), (BlockKind.INSTRUCTIONS, 0)):
        cache = SimulatedOpenAi(clock=clock)
        system = (block("rules", kind=kind),)
        serve(cache, ask(system=system))
        assert serve(cache, ask(user(block("q")), system=system)).read == read


def test_explicit_mode_without_breakpoints_turns_caching_off(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    request = ask(user(block("q")))
    serve(cache, request)
    served = serve(cache, replace(request, openai=EXPLICIT))
    assert (served.read, served.split.written) == (0, 0)
    assert served.miss_reason is MissReason.NO_MARKS


def test_explicit_mode_forgets_implicit_entries_unless_marked_at_the_same_place(
    clock: ManualClock,
) -> None:
    cache = SimulatedOpenAi(clock=clock)
    serve(cache, ask(user(block("q"))))
    elsewhere = ask(user(block("q")), user(block("r", mark=MARK)), openai=EXPLICIT)
    assert serve(cache, elsewhere).read == 0
    cache = SimulatedOpenAi(clock=clock)
    serve(cache, ask(user(block("q"))))
    same = ask(user(block("q", mark=MARK)), user(block("r")), openai=EXPLICIT)
    assert serve(cache, same).read == 2000


def _marked(n_blocks: int) -> tuple[Block, ...]:
    return tuple(block(f"b{i}", mark=MARK) for i in range(n_blocks))


@pytest.mark.parametrize(("mode", "kept"), [("explicit", 4), ("implicit", 3)])
def test_marks_above_the_cap_are_dropped_oldest_first_and_without_an_error(
    clock: ManualClock, mode: Any, kept: int
) -> None:
    cache = SimulatedOpenAi(clock=clock)
    blocks = _marked(6)
    last = said(block("a"))
    serve(cache, ask(user(*blocks, block("tail")), last, openai=OpenAiOptions(mode=mode)))
    reads = [
        serve(cache, ask(user(*blocks[: n + 1]), openai=EXPLICIT)).read // 2000
        for n in range(6 - kept)
    ]
    # Each of these probes writes its own end, and none of the first blocks was there before.
    assert reads == list(range(6 - kept))
    fresh = SimulatedOpenAi(clock=clock)
    serve(fresh, ask(user(*blocks, block("tail")), last, openai=OpenAiOptions(mode=mode)))
    oldest_kept = ask(user(*blocks[: 6 - kept + 1]), openai=EXPLICIT)
    assert serve(fresh, oldest_kept).read == (6 - kept + 1) * 2000


@pytest.mark.parametrize(
    ("lookup", "place", "read"),
    [
        (OpenAiLookup.GUIDE, 1, True),
        (OpenAiLookup.GUIDE, 5, False),
        (OpenAiLookup.GUIDE, 10, True),
        (OpenAiLookup.SDK, 5, True),
    ],
)
def test_the_lookup_window_is_the_first_2_and_latest_50_or_the_latest_80(
    clock: ManualClock, lookup: OpenAiLookup, place: int, read: bool
) -> None:
    """Of 60 breakpoints, only that at `place` (from 0) was written before."""
    cache = SimulatedOpenAi(clock=clock, switches=Switches(openai_lookup=lookup))
    blocks = _marked(60)
    unmarked = tuple(replace(b, mark=None) for b in blocks[:place])
    serve(cache, ask(user(*unmarked, blocks[place]), openai=EXPLICIT))
    served = serve(cache, ask(user(*blocks), openai=EXPLICIT))
    assert served.read == ((place + 1) * 2000 if read else 0)


@pytest.mark.parametrize(("n_turns", "found"), [(20, True), (21, False)])
def test_20_earlier_message_endings_are_looked_up(
    clock: ManualClock, n_turns: int, found: bool
) -> None:
    cache = SimulatedOpenAi(clock=clock)
    serve(cache, ask(user(block("first"))))
    turns = [user(block(f"t{i}")) for i in range(n_turns)]
    assert serve(cache, ask(user(block("first")), *turns)).read == (2000 if found else 0)


def test_consecutive_tool_results_end_once(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    serve(cache, ask(user(block("q")), result("r1")))
    both = ask(user(block("q")), result("r1"), result("r2"))
    served = serve(cache, both)
    assert served.read == 0
    assert serve(cache, replace(both, messages=(*both.messages, user(block("n"))))).read == 6000


def test_later_developer_messages_are_no_boundaries_unless_marked(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    rule = Message(Role.DEVELOPER, (block("rule"),))
    served = serve(cache, ask(user(block("q")), rule))
    assert (served.split.written, served.uncached) == (2000, 2000)
    marked = Message(Role.DEVELOPER, (block("rule", mark=MARK),))
    assert serve(cache, ask(user(block("q")), marked)).split.written == 2000


@pytest.mark.parametrize(
    "change",
    [
        {"model": "gpt-6-luna"},
        {"cache_key": "other"},
        {"service_tier": "flex"},
        {"parallel_tools": False},
        {"output_format": "schema"},
        {"effort": "low"},
        {"verbosity": "low"},
        {"context_management": "compact"},
    ],
)
def test_settings_that_are_rendered_ahead_lose_everything(
    clock: ManualClock, change: dict[str, Any]
) -> None:
    cache = SimulatedOpenAi(clock=clock)
    request = ask(user(block("q")))
    serve(cache, request)
    served = serve(cache, replace(request, identity=replace(SOL, **change)))
    assert (served.read, served.miss_reason) == (0, MissReason.SETTING_CHANGED)
    assert served.miss is not None
    assert next(iter(change)) in served.miss.detail


def test_the_fast_tier_shares_nothing_with_the_standard_one(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    request = ask(user(block("q")))
    serve(cache, request)
    assert serve(cache, replace(request, terms=Terms(speed=Speed.FAST))).read == 0


def test_a_tool_choice_is_free(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    request = ask(user(block("q")))
    serve(cache, request)
    assert serve(cache, replace(request, identity=replace(SOL, tool_choice="none"))).read == 2000


def test_a_key_may_be_required_by_a_switch(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock, switches=Switches(openai_key=OpenAiKey.REQUIRED))
    request = ask(user(block("q")))
    serve(cache, request)
    assert serve(cache, request).miss_reason is MissReason.NO_MARKS
    keyed = replace(request, identity=replace(SOL, cache_key="k"))
    serve(cache, keyed)
    assert serve(cache, keyed).read == 2000


@pytest.mark.parametrize(
    ("api", "twelve", "accepted"),
    [
        ("responses", TwelveHours.RESPONSES_ONLY, True),
        ("chat", TwelveHours.RESPONSES_ONLY, False),
        ("chat", TwelveHours.EVERYWHERE, True),
        ("responses", TwelveHours.NOWHERE, False),
    ],
)
def test_twelve_hours_are_accepted_where_the_switch_says(
    clock: ManualClock, api: Any, twelve: TwelveHours, accepted: bool
) -> None:
    cache = SimulatedOpenAi(clock=clock, switches=Switches(openai_twelve_hours=twelve))
    by_mark = ask(user(block("q", mark=TWELVE)), openai=OpenAiOptions(api=api))
    by_option = ask(user(block("q")), openai=OpenAiOptions(api=api, ttl=Ttl.TWELVE_HOURS))
    for request in (by_mark, by_option):
        answer = cache.request(request)
        assert isinstance(answer, Served if accepted else Refused)


def test_mixed_lifetimes_are_billed_as_spans(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    served = serve(cache, ask(user(block("a", mark=TWELVE)), user(block("b"))))
    assert served.write_by_ttl == {Ttl.TWELVE_HOURS: 2000, Ttl.THIRTY_MINUTES: 2000}
    assert served.cost is not None
    # 2000 * 5 + 2000 * 2.5, in millionths
    assert served.cost.total == D("0.015")


def test_an_entry_lives_half_an_hour_from_its_last_use(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    request = ask(user(block("q")))
    serve(cache, request)
    for _ in range(2):
        clock.advance(1799)
        assert serve(cache, request).read == 2000
    clock.advance(1800)
    assert serve(cache, request).miss_reason is MissReason.EXPIRED


@pytest.mark.parametrize(
    "request_",
    [
        ask(tools=(block("t", mark=MARK, kind=BlockKind.TOOL),)),
        ask(system=(block("i", mark=MARK, kind=BlockKind.INSTRUCTIONS),)),
        ask(Message(Role.DEVELOPER, (block("t", mark=MARK, kind=BlockKind.ADDITIONAL_TOOLS),))),
        ask(user(block("q")), said(block("a", mark=MARK))),
    ],
)
def test_marks_on_what_cannot_carry_one_are_refused(
    clock: ManualClock, request_: CacheRequest
) -> None:
    assert refusal(SimulatedOpenAi(clock=clock), request_) is RefusalReason.UNMARKABLE


def test_chat_ignores_marks_on_assistant_parts(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    chat = OpenAiOptions(api="chat", mode="explicit")
    request = ask(user(block("q")), said(block("a", mark=MARK)), openai=chat)
    assert serve(cache, request).split.written == 0


def test_a_prewarm_exists_on_responses_only(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    request = ask(user(block("q")), prewarm=True)
    chat = replace(request, openai=OpenAiOptions(api="chat"))
    assert refusal(cache, chat) is RefusalReason.UNSUPPORTED
    served = serve(cache, request, output_tokens=9)
    assert served.cost is not None
    assert (served.cost.total, served.output_tokens) == (D("0.005"), 0)
    assert serve(cache, replace(request, prewarm=False)).read == 2000


def test_a_cold_prefix_is_not_shared_before_a_response_begins(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    request = ask(user(block("q")))
    first = begin(cache, request)
    assert begin(cache, request).served.miss_reason is MissReason.NOT_YET_READABLE
    first.response_began()
    assert begin(cache, request).served.read == 2000


@pytest.mark.parametrize("tenant", [Tenant(organization="other"), Tenant(region="eu")])
@pytest.mark.parametrize("identity", [SOL, OLD])
def test_organisations_and_regions_never_share(
    clock: ManualClock, tenant: Tenant, identity: Identity
) -> None:
    cache = SimulatedOpenAi(clock=clock)
    request = ask(user(block("q")), identity=identity)
    serve(cache, request)
    assert serve(cache, replace(request, tenant=tenant)).read == 0


def test_usage_comes_in_the_fields_of_each_api(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    serve(cache, ask(user(block("q"))))
    request = ask(user(block("q")), user(block("r")), said(block("a", 30)))
    responses = serve(cache, request, output_tokens=7)
    assert responses.usage_json == {
        "input_tokens": 4030,
        "input_tokens_details": {
            "cached_tokens": 2000,
            "cache_write_tokens": 2000,
            "cache_write_tokens_details": {"ttl_30m_tokens": 2000, "ttl_12h_tokens": 0},
        },
        "output_tokens": 7,
        "total_tokens": 4037,
    }
    chat = serve(cache, replace(request, openai=OpenAiOptions(api="chat")), output_tokens=7)
    assert chat.usage_json == {
        "prompt_tokens": 4030,
        "prompt_tokens_details": {"cached_tokens": 4000, "cache_write_tokens": 0},
        "completion_tokens": 7,
        "total_tokens": 4037,
    }
    old = serve(cache, replace(request, identity=OLD, openai=OpenAiOptions(api="chat")))
    assert old.usage_json["prompt_tokens_details"] == {"cached_tokens": 0}


def test_earlier_models_report_the_common_prefix_in_multiples_of_128(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    serve(cache, ask(user(block("rules", 3000), block("q1", 500)), identity=OLD))
    served = serve(cache, ask(user(block("rules", 3000), block("q2", 500)), identity=OLD))
    assert (served.read, served.split.written, served.uncached) == (2944, 0, 556)


def test_gpt_5_5_counts_intervals_of_2048_from_its_hidden_message(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock, hidden_tokens=100)
    request = ask(user(block("q", 5000)), identity=Identity(model="gpt-5.5"))
    serve(cache, request)
    # (5000 + 100) down to 4096, less 100 hidden, down to a multiple of 128
    assert serve(cache, request).read == 3968


def test_earlier_models_read_nothing_below_the_minimum(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    for n_tokens, read in ((1023, 0), (1100, 1024)):
        request = ask(user(block(f"q{n_tokens}", n_tokens)), identity=OLD)
        assert serve(cache, request).miss_reason is not None
        served = serve(cache, request)
        assert served.read == read
        assert (served.miss_reason is MissReason.TOO_SHORT) == (read == 0)


def test_a_common_prefix_that_is_cut_below_the_minimum_is_too_short(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    serve(cache, ask(user(block("a", 1000), block("b")), identity=OLD))
    served = serve(cache, ask(user(block("a", 1000), block("c")), identity=OLD))
    assert (served.read, served.miss_reason) == (0, MissReason.TOO_SHORT)


@pytest.mark.parametrize(
    ("retention", "idle_s", "max_s"), [("in_memory", 300, 3_600), ("24h", 1_800, 86_400)]
)
def test_retention_is_idle_time_with_a_maximum(
    clock: ManualClock, retention: Any, idle_s: int, max_s: int
) -> None:
    cache = SimulatedOpenAi(clock=clock)
    request = ask(user(block("q", 2048)), identity=OLD, openai=OpenAiOptions(retention=retention))
    serve(cache, request)
    lived_s = 0
    while lived_s + idle_s - 1 < max_s:
        clock.advance(idle_s - 1)
        lived_s += idle_s - 1
        assert serve(cache, request).read == 2048
    clock.advance(idle_s - 1)
    assert serve(cache, request).miss_reason is MissReason.EXPIRED


@pytest.mark.parametrize(
    "options",
    [
        {"openai": OpenAiOptions(retention="in_memory"), "identity": Identity(model="gpt-5.5")},
        {"openai": EXPLICIT},
        {"openai": OpenAiOptions(ttl=Ttl.THIRTY_MINUTES)},
        {"messages": (user(block("q", mark=MARK)),)},
        {"prewarm": True},
    ],
)
def test_earlier_models_refuse_what_they_do_not_have(
    clock: ManualClock, options: dict[str, Any]
) -> None:
    request = replace(ask(user(block("q")), identity=OLD), **options)
    assert refusal(SimulatedOpenAi(clock=clock), request) is RefusalReason.UNSUPPORTED


def test_more_than_15_requests_a_minute_spill_to_a_cold_machine(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    request = ask(user(block("q", 2048)), identity=OLD)
    reads = [serve(cache, request).read for _ in range(17)]
    assert reads == [0] + [2048] * 14 + [0, 2048]
    clock.advance(60)
    assert serve(cache, request).read == 2048


def test_keys_and_prefixes_have_rates_of_their_own(clock: ManualClock) -> None:
    cache = SimulatedOpenAi(clock=clock)
    for key in ("a", "b"):
        identity = replace(OLD, cache_key=key)
        requests = [ask(user(block("q", 2048)), identity=identity)] * 15
        assert [serve(cache, request).read for request in requests] == [0] + [2048] * 14


def test_spilling_can_be_left_out_and_newer_models_spill_on_azure_only(
    clock: ManualClock,
) -> None:
    def reads(cache: SimulatedOpenAi, identity: Identity) -> int:
        request = ask(user(block("q", 2048)), identity=identity)
        return sum(serve(cache, request).read > 0 for _ in range(17))

    assert reads(SimulatedOpenAi(clock=clock, spills=False), OLD) == 16
    assert reads(SimulatedOpenAi(clock=clock), SOL) == 16
    assert reads(SimulatedOpenAi(clock=clock, platform=Platform.AZURE), SOL) == 15


def test_hidden_tokens_are_not_negative(clock: ManualClock) -> None:
    with pytest.raises(ValueError, match="-1"):
        SimulatedOpenAi(clock=clock, hidden_tokens=-1)
