"""A request as caches see it."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentkit.blocks import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    VendorItem,
)
from agentkit.caching.plan.draft import SharedBy
from agentkit.caching.policy import BlockKind, Provider, Speed
from agentkit.caching.request import Role
from agentkit.caching.simulate import ManualClock, Served, SimulatedOpenAi
from agentkit.context import Context, SystemPart, SystemText, ToolList
from agentkit.models.base import Reuse
from agentkit.toolset import Toolset, tool
from tests.agentkit.models.hosted.openai_responses.talk import (
    CALLS,
    HISTORY,
    LABEL,
    NO_PLAN,
    QUESTION,
    REASONING,
    adapter,
    body,
    plan,
    turns,
)
from tests.agentkit.models.hosted.weather import FRONT, RULES, TOOLSET, request, weather

END = b'],"model":"gpt-6-sol"'


def prompt(data: bytes) -> bytes:
    """The part of a body that is the prompt: it comes first."""
    return data[: data.index(END)]


def test_blocks_lie_in_the_cache_requests_order_and_sections() -> None:
    layout = adapter().layout(request(Context(*FRONT, *HISTORY).with_volatile("noon")))

    seen = layout.cache_request
    assert [wire.block for wire in layout.blocks] == list(seen.blocks)
    assert (len(seen.tools), len(seen.system)) == (2, 4)
    assert [message.role for message in seen.messages] == [
        *(Role.USER, Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.ASSISTANT, Role.USER, Role.USER)
    ]
    assert [block.kind for block in seen.messages[1].blocks] == [
        *(BlockKind.THINKING, BlockKind.TEXT, BlockKind.TOOL_USE, BlockKind.TOOL_USE)
    ]
    assert layout.n_volatile == 1
    assert adapter().provider is Provider.OPENAI


def test_every_block_knows_its_segment() -> None:
    context = Context(*FRONT, *HISTORY).with_volatile("noon")

    layout = adapter().layout(request(context))

    assert [wire.segment for wire in layout.blocks] == [
        *(1, 1, 0, 2, 3, 4),
        *(5, 5, 6, 6, 6, 6, 7, 7, 8, 9, 9, None),
    ]


def test_equal_bytes_have_equal_digests_and_others_have_others() -> None:
    first, again = adapter().layout(turns()[2]), adapter().layout(turns()[2])

    assert first.cache_request == again.cache_request
    digests = {wire.data: wire.block.digest for wire in first.blocks}
    assert len(set(digests.values())) == len(digests)


def test_the_same_answer_to_another_call_is_another_block() -> None:
    def result_of(call_id: str) -> bytes:
        called = AssistantMessage((ToolCall(id=call_id, name="weather", arguments="{}"),))
        result = ToolMessage((ToolResult(call_id=call_id, name="weather", content="7"),))
        made = request(Context(UserMessage.of("a"), called, result))
        return adapter().layout(made).blocks[-1].block.digest

    assert result_of("c1") != result_of("c2")


def test_ends_that_others_share_are_named_from_wide_to_narrow() -> None:
    layout = adapter().layout(request(Context(*FRONT, *HISTORY).with_volatile("noon")))

    assert [(prefix.end, prefix.by) for prefix in layout.shared] == [
        (3, SharedBy.ORGANIZATION),  # two tools and the rules
        (6, SharedBy.AGENT),  # role, examples, a document
        (8, SharedBy.RUN),  # where the first request ended
        (14, SharedBy.RUN),  # the second: before the answer
        (17, SharedBy.RUN),  # all but the volatile text
    ]


def test_without_rules_the_team_shares_its_tools() -> None:
    role = SystemText(SystemPart.ROLE, "x")

    layout = adapter().layout(request(Context(ToolList(TOOLSET.bytes), role, UserMessage.of("a"))))

    assert [(prefix.end, prefix.by) for prefix in layout.shared] == [
        (2, SharedBy.ORGANIZATION),
        (3, SharedBy.AGENT),
        (4, SharedBy.RUN),
    ]


def test_a_front_without_a_role_is_shared_by_the_whole_team() -> None:
    layout = adapter().layout(request(Context(RULES, UserMessage.of("a")), Toolset()))

    assert [(prefix.end, prefix.by) for prefix in layout.shared] == [
        (1, SharedBy.ORGANIZATION),
        (2, SharedBy.RUN),
    ]


def test_a_side_call_expects_no_reads() -> None:
    made = request(
        Context(*FRONT, QUESTION), reuse=Reuse(turns_left=0, again=False, front_again=False)
    )

    assert {prefix.reads for prefix in adapter().layout(made).shared} == {Decimal(0)}


def test_what_entries_are_keyed_by_is_in_the_identity() -> None:
    api = adapter(
        effort="high", verbosity="low", service_tier="priority", parallel_tool_calls=False
    )
    seen = api.layout(turns()[0]).cache_request

    identity = seen.identity
    assert (identity.model, identity.effort, identity.verbosity) == ("gpt-6-sol", "high", "low")
    assert (identity.service_tier, identity.parallel_tools) == ("fast", False)
    assert (seen.terms.speed, seen.terms.batch) == (Speed.FAST, False)
    assert adapter(service_tier="flex").layout(turns()[0]).cache_request.terms.batch
    assert adapter(service_tier="auto").layout(turns()[0]).cache_request.identity == (
        adapter().layout(turns()[0]).cache_request.identity
    )


def test_a_segment_is_encoded_once_for_all_requests_of_an_adapter() -> None:
    api = adapter()

    first = api.layout(turns()[1])
    second = api.layout(turns()[2])

    for before, after in zip(first.blocks, second.blocks, strict=False):
        assert before.data is after.data


def test_a_team_in_another_listing_order_has_the_same_tools() -> None:
    @tool
    def alpha(a: int) -> int:
        """A."""
        return a

    one, other = Toolset([weather, alpha]), Toolset([alpha, weather])
    context = Context(RULES, UserMessage.of("a"))

    assert body(request(context, one)).data == body(request(context, other)).data


def test_a_run_reads_all_that_it_wrote_in_a_simulated_cache() -> None:
    """The layout's boundaries are those that the cache writes and looks up."""
    filler = "All work and no play makes Jack a dull boy. " * 120
    front = (dataclasses.replace(RULES, text=filler), *FRONT[1:])
    cache = SimulatedOpenAi(clock=ManualClock())
    api, written = adapter(), 0
    for end in (1, 3, 5):
        layout = api.layout(request(Context(*front, *HISTORY[:end]).with_volatile(f"{end}")))
        ends = [prefix.end - 1 for prefix in layout.shared if prefix.by is SharedBy.RUN]
        marked = plan(*ends).applied(layout.cache_request)

        served = cache.request(marked)

        assert isinstance(served, Served)
        assert served.split.read == written
        volatile = layout.blocks[-1].block.n_tokens
        assert served.split.uncached == volatile
        written = served.split.total - volatile


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
PARTS = st.one_of(
    WORDS.map(Text),
    st.binary(min_size=1, max_size=9).map(lambda data: Image.of_bytes(data, "image/png")),
)
USERS = st.lists(PARTS, min_size=1, max_size=3).map(lambda parts: UserMessage(tuple(parts)))
SAID = st.one_of(
    WORDS.map(Text),
    WORDS.map(lambda text: Thinking(text, source=LABEL)),
    WORDS.map(lambda text: Thinking(text, "sig", "anthropic:x")),
    st.just(REASONING),
    st.just(VendorItem(source=LABEL, data='{"phase":"commentary"}')),
)


@st.composite
def exchanges(draw: st.DrawFn) -> list[Message]:
    """What one request of a run adds: a turn, and results or another question."""
    said = draw(st.lists(SAID, max_size=3))
    calls = [
        ToolCall(id=f"c{number}", name="weather", arguments=draw(WORDS))
        for number in range(draw(st.integers(0, 3)))
    ]
    turn = AssistantMessage((*said, *calls))
    if not calls:
        return [turn, draw(USERS)]
    results = (
        ToolResult(
            call_id=call.id, name=call.name, content=draw(WORDS), is_error=draw(st.booleans())
        )
        for call in calls
    )
    return [turn, ToolMessage(tuple(results))]


@given(st.lists(exchanges(), max_size=4), WORDS, st.data())
def test_the_next_request_begins_with_the_bytes_of_this_one(
    steps: list[list[Message]], volatile: str, data: st.DataObject
) -> None:
    api, context = adapter(), Context(*FRONT, QUESTION)
    stable: tuple[bytes, ...] = ()
    before = b""
    for step in [[], *steps]:
        context = context.append(*step)
        steering: dict[str, Any] = {
            "allowed_tools": data.draw(st.sampled_from([None, frozenset(["weather"])])),
            "tool_choice": data.draw(st.sampled_from(["auto", "none", "required"])),
        }
        plain = request(context, **steering)
        said = request(context.with_volatile(volatile), **steering)

        layout = api.layout(said)
        bare = prompt(api.body(api.layout(plain), NO_PLAN, plain).data)
        full = prompt(api.body(layout, NO_PLAN, said).data)

        assert layout.stable[: len(stable)] == stable
        assert bare.startswith(before)
        assert full.startswith(bare)
        assert b'"prompt_cache_breakpoint"' not in full
        stable, before = layout.stable, bare


def test_thinking_and_calls_without_text_are_a_turn_of_their_own() -> None:
    assert [item.block.kind for item in adapter().layout(request(Context(CALLS))).blocks[2:]] == [
        *(BlockKind.THINKING, BlockKind.TEXT, BlockKind.TOOL_USE, BlockKind.TOOL_USE)
    ]
