"""A request's pieces: their order, who shares them, and that they never change."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.blocks import (
    AssistantBlock,
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentkit.caching.plan.draft import SharedBy
from agentkit.caching.request import Mark, Role
from agentkit.caching.simulate import ManualClock, Served, SimulatedDeepSeek, SimulatedOpenAi
from agentkit.context import Context
from agentkit.context.segment import Content
from agentkit.models.base import Reuse
from agentkit.models.hosted.openai_chat import (
    ALIBABA,
    DEEPSEEK,
    MISTRAL,
    MOONSHOT,
    OPENAI,
    OPENROUTER,
    VLLM,
    Profile,
)
from agentkit.toolset import Toolset
from tests.agentkit.models.hosted.openai_chat.talk import (
    QUESTION,
    adapter,
    body,
    plan,
    prompt_bytes,
    turns,
    without_marks,
)
from tests.agentkit.models.hosted.weather import FRONT, ROLE, RULES, request

PROFILES = [OPENAI, DEEPSEEK, VLLM, OPENROUTER, MISTRAL, MOONSHOT, ALIBABA]


def names(profile: Profile) -> str:
    return profile.provider


def test_blocks_are_those_that_caches_see_in_the_same_order() -> None:
    layout = adapter().layout(turns()[2])

    assert tuple(wire.block for wire in layout.blocks) == tuple(layout.cache_request.blocks)
    assert len(layout.cache_request.tools) == 2
    assert len(layout.cache_request.system) == 4
    assert [message.role for message in layout.cache_request.messages] == [
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.TOOL,
        Role.ASSISTANT,
        Role.USER,
    ]


def test_pieces_know_their_segments() -> None:
    made = turns()[1]
    layout = adapter().layout(made)

    tiers = [
        None if wire.segment is None else made.context.segments[wire.segment].tier.value
        for wire in layout.blocks
    ]
    assert tiers == ["tools"] * 2 + ["system"] * 3 + ["knowledge"] + ["history"] * 6


def test_shared_prefixes_end_with_the_team_the_agent_and_each_request() -> None:
    reuse = Reuse(turns_left=5)
    layout = adapter().layout(request(turns()[2].context, reuse=reuse))

    found = [(prefix.end, prefix.by) for prefix in layout.shared]
    assert found == [
        (3, SharedBy.ORGANIZATION),  # two tools and the rules
        (6, SharedBy.AGENT),
        (7, SharedBy.RUN),  # the first question
        (12, SharedBy.RUN),  # text, two calls, two results
        (14, SharedBy.RUN),
    ]
    assert all(prefix.reads > 0 for prefix in layout.shared)


def test_a_side_call_expects_nothing_of_its_own_tail() -> None:
    reuse = Reuse(again=False)
    layout = adapter().layout(request(Context(*FRONT, QUESTION), reuse=reuse))

    by = {prefix.by: prefix.reads for prefix in layout.shared}
    assert by[SharedBy.RUN] == Decimal(0)
    assert by[SharedBy.ORGANIZATION] > 0


def test_equal_ends_belong_to_the_most_senders_and_empty_ones_to_nobody() -> None:
    only_rules = adapter().layout(request(Context(RULES, QUESTION), Toolset()))
    no_rules = adapter().layout(request(Context(ROLE, QUESTION), Toolset()))

    assert [(p.end, p.by) for p in only_rules.shared] == [
        (1, SharedBy.ORGANIZATION),
        (2, SharedBy.RUN),
    ]
    assert [(p.end, p.by) for p in no_rules.shared] == [(1, SharedBy.AGENT), (2, SharedBy.RUN)]


def test_volatile_text_is_last_and_outside_of_what_is_shared() -> None:
    context = Context(*FRONT, QUESTION)
    layout = adapter().layout(request(context.with_volatile("It is noon.")))

    assert layout.n_volatile == 1
    assert layout.blocks[-1].segment is None
    assert layout.shared[-1].end == len(layout.blocks) - 1
    assert layout.stable == adapter().layout(request(context)).stable


def test_a_schema_without_a_field_of_its_own_is_said_in_the_volatile_text() -> None:
    made = request(Context(QUESTION), output_schema={"type": "object"})

    at_deepseek = adapter(DEEPSEEK).layout(made)
    assert at_deepseek.n_volatile == 1
    assert b'{\\"type\\":\\"object\\"}' in at_deepseek.blocks[-1].data
    assert at_deepseek.cache_request.identity.output_format is None
    at_openai = adapter().layout(made)
    assert at_openai.n_volatile == 0
    assert at_openai.cache_request.identity.output_format is not None


def test_the_users_marks_take_the_next_longer_lifetime_where_there_are_marks() -> None:
    made = request(Context(UserMessage.of(Text("a", breakpoint="5m"), Text("b")), *()))

    def marks(profile: Profile, model: str | None = None) -> list[Mark | None]:
        return [wire.block.mark for wire in adapter(profile, model).layout(made).blocks[2:]]

    assert [mark and mark.ttl for mark in marks(OPENAI)] == ["30m", None]
    # This generation has no breakpoints: the plan leaves the mark out, and says so.
    assert marks(OPENAI, "gpt-5.4") == [Mark(), None]
    assert [mark and mark.ttl for mark in marks(OPENROUTER)] == ["5m", None]
    assert marks(ALIBABA) == [Mark(), None]
    assert marks(VLLM) == [Mark()]  # one string, and no place for a mark on the wire


def test_settings_that_entries_are_keyed_by_are_told_to_the_cache() -> None:
    api = adapter(
        reasoning_effort="low",
        verbosity="high",
        service_tier="flex",
        parallel_tool_calls=False,
    )
    seen = api.layout(request(Context(QUESTION), tool_choice="required")).cache_request

    assert seen.identity.effort == "low"
    assert seen.identity.verbosity == "high"
    assert seen.identity.service_tier == "flex"
    assert not seen.identity.parallel_tools
    assert seen.identity.tool_choice == "any"
    assert seen.terms.batch
    assert seen.openai.api == "chat"


def test_a_run_is_read_from_the_simulated_cache_of_openai() -> None:
    api = adapter()
    cache = SimulatedOpenAi(clock=ManualClock(datetime(2026, 11, 29, tzinfo=UTC)))
    long = UserMessage.of("x" * 8_000)
    said = (long, *turns()[2].context.messages[1:])
    reads = []
    for end in (1, 3, 5):
        layout = api.layout(request(Context(*FRONT, *said[:end])))
        last = len(layout.blocks) - 1
        seen = plan(last, mode="explicit", cache_key="k").applied(layout.cache_request)
        if end > 1:
            earlier = layout.shared[-2].end - 1
            seen = plan(earlier, last, mode="explicit", cache_key="k").applied(seen)
        served = cache.request(seen)
        assert isinstance(served, Served)
        reads.append((served.split.read, sum(b.n_tokens for b in seen.blocks)))

    assert reads[0][0] == 0
    assert reads[1][0] == reads[0][1]
    assert reads[2][0] == reads[1][1]


def test_a_run_is_read_from_the_simulated_cache_of_deepseek() -> None:
    clock = ManualClock(datetime(2026, 11, 29, tzinfo=UTC))
    api, cache = adapter(DEEPSEEK), SimulatedDeepSeek(clock=clock)
    first, second, _ = (api.layout(made).cache_request for made in turns("deepseek:x"))

    cache.request(plan().applied(first))
    clock.advance(10)
    served = cache.request(plan().applied(second))

    assert isinstance(served, Served)
    assert served.split.read == sum(block.n_tokens for block in first.blocks)


# --- whatever is said, nothing that was sent changes ---------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def histories(draw: st.DrawFn, label: str, *, images: bool) -> list[Content]:
    """Whole turns: questions, answers with thinking and calls, results, errors, silence."""
    said: list[Content] = []
    for _ in range(draw(st.integers(1, 5))):
        blocks: list[Text | Image] = [Text(text) for text in draw(st.lists(TEXT, max_size=3))]
        if images and draw(st.booleans()):
            blocks.append(Image.of_bytes(draw(st.binary(max_size=4)), "image/png"))
        said.append(UserMessage(tuple(blocks)))
        answer: list[AssistantBlock] = []
        if draw(st.booleans()):
            answer.append(Thinking(draw(TEXT), source=draw(st.sampled_from([label, "other:m"]))))
        answer += [Text(text) for text in draw(st.lists(TEXT, max_size=2))]
        # Ids that come again in each turn, that are too long, or made of other characters.
        stem = draw(st.sampled_from(["c", "functions.f:", "y" * 40]))
        calls = [
            ToolCall(id=f"{stem}{n}", name=draw(st.sampled_from(["f", "no such"])), arguments=text)
            for n, text in enumerate(draw(st.lists(TEXT, max_size=3)))
        ]
        said.append(AssistantMessage((*answer, *calls)))
        if calls:
            said.append(
                ToolMessage(
                    tuple(
                        ToolResult(
                            call_id=call.id,
                            name=call.name,
                            content=draw(TEXT),
                            is_error=draw(st.booleans()),
                        )
                        for call in calls
                    )
                )
            )
    return said


@pytest.mark.parametrize("profile", PROFILES, ids=names)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_longer_request_begins_with_the_bytes_of_a_shorter_one(
    profile: Profile, data: st.DataObject
) -> None:
    api = adapter(profile)
    said = data.draw(histories(api.label, images=profile.images))
    one_message = data.draw(st.booleans())
    other = adapter(profile, one_system_message=one_message)  # a new process, after a restart
    first = adapter(profile, one_system_message=one_message)
    cut = data.draw(st.integers(1, len(said)))
    while cut < len(said) and isinstance(said[cut], ToolMessage):
        cut += 1  # a turn is complete when it has its results
    volatile = data.draw(st.none() | TEXT)
    shorter = request(Context(*FRONT, *said[:cut]).with_volatile(volatile))
    longer = request(Context.load(Context(*FRONT, *said).dump()))

    early, late = first.layout(shorter), other.layout(longer)

    assert late.stable[: len(early.stable)] == early.stable
    marks = [i for i, b in enumerate(late.blocks) if b.mark_at is not None] if profile.mark else []
    chosen = data.draw(st.lists(st.sampled_from(marks), max_size=4, unique=True)) if marks else []
    sent_early = first.body(early, plan(), request(Context(*FRONT, *said[:cut]))).data
    sent_late = other.body(late, plan(*chosen), longer).data
    stable = prompt_bytes(sent_early)
    if early.n_volatile:
        stable = stable[: -len(early.blocks[-1].glue + early.blocks[-1].data)]
    assert prompt_bytes(without_marks(sent_late)).startswith(stable)


@pytest.mark.parametrize("profile", PROFILES, ids=names)
def test_the_pieces_are_the_body(profile: Profile) -> None:
    made = turns()[2]
    layout = adapter(profile).layout(made)
    data = body(made, profile=profile).data

    tools, messages = layout.blocks[:2], layout.blocks[2:]
    for pieces, name in ((tools, b'"tools":['), (messages, b'"messages":[')):
        inside = b"".join((b"" if n == 0 else p.glue) + p.data for n, p in enumerate(pieces))
        assert name + inside + b"]" in data
