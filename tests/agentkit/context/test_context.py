"""The context is append-only, ordered by stability, and always one that a model accepts."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from agentkit.blocks import AssistantMessage, Text, ToolCall, ToolMessage, ToolResult, UserMessage
from agentkit.context import Context, Document, Segment, SystemPart, SystemText, Tier, ToolList
from agentkit.context.segment import Content
from agentkit.errors import ContextError, ContextFrozen

RULES = SystemText(SystemPart.RULES, "Be honest.")
TOOLS = ToolList(b'[{"description":"","name":"f","parameters":{}}]')
ROLE = SystemText(SystemPart.ROLE, "You read files.")
EXAMPLES = SystemText(SystemPart.EXAMPLES, "Q: 1? A: 1.")
A, B = Document(uri="a", text="first"), Document(uri="b", text="second")
HELLO = UserMessage.of("hello")
CALL = ToolCall(id="c1", name="f", arguments="{}")
CALLING = AssistantMessage((Text("hm"), CALL))
RESULT = ToolMessage((ToolResult(call_id="c1", name="f", content="1"),))
ALL = (RULES, TOOLS, ROLE, EXAMPLES, A, B, HELLO, CALLING, RESULT)


def test_appending_leaves_the_original_and_extends_its_bytes() -> None:
    context = Context(RULES, ROLE)
    longer = context.append(HELLO)

    assert len(context) == 2
    assert len(longer) == 3
    assert longer.dump().startswith(context.dump())
    assert longer.chain[:2] == context.chain
    assert longer.starts_with(context)
    assert not context.starts_with(longer)


def test_a_fork_shares_its_segments_without_a_copy() -> None:
    context = Context(*ALL)
    fork = context.fork()

    assert fork == context
    assert all(mine is theirs for mine, theirs in zip(fork, context, strict=True))
    assert fork.append(HELLO).segments[0] is context.segments[0]
    assert len(context) == len(ALL)


def test_two_branches_part_where_their_chains_part() -> None:
    stem = Context(RULES, ROLE, HELLO)
    first = stem.append(AssistantMessage((Text("a"),)), HELLO)
    second = stem.append(AssistantMessage((Text("b"),)))

    assert first.common_length(second) == second.common_length(first) == 3
    assert first.common_length(stem) == 3
    assert Context().common_length(stem) == 0
    assert Context(ROLE).common_length(Context(RULES)) == 0


MUTATIONS: list[Callable[[Context], object]] = [
    lambda context: context.insert(0, HELLO),  # type: ignore[attr-defined]
    lambda context: context.pop(),  # type: ignore[attr-defined]
    lambda context: context.remove(HELLO),  # type: ignore[attr-defined]
    lambda context: context.clear(),  # type: ignore[attr-defined]
    lambda context: context.truncate(3),  # type: ignore[attr-defined]
    lambda context: context.__setitem__(0, HELLO),
    lambda context: context.__delitem__(0),
    lambda context: setattr(context, "volatile", "x"),
    lambda context: setattr(context, "_head", None),
    lambda context: delattr(context, "_head"),
]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_every_attempt_to_change_it_is_refused_with_a_way_out(
    mutate: Callable[[Context], object],
) -> None:
    context = Context(*ALL)
    before = context.dump()

    with pytest.raises(ContextFrozen, match=r"never changes.*Append a message.*with_volatile"):
        mutate(context)
    assert context.dump() == before


def test_an_unknown_attribute_is_a_plain_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = Context().colour  # type: ignore[attr-defined]
    assert not hasattr(Context(), "insert")


@pytest.mark.parametrize(
    ("held", "late"),
    [
        ((ROLE,), RULES),
        ((ROLE,), TOOLS),
        ((A,), ROLE),
        ((HELLO,), A),
        ((HELLO,), TOOLS),
        ((RULES,), RULES),
        ((TOOLS,), TOOLS),
        ((B,), A),
        ((A,), A),
    ],
)
def test_what_belongs_further_in_front_comes_too_late(
    held: tuple[Content, ...], late: Content
) -> None:
    with pytest.raises(ContextFrozen):
        Context(*held, late)


def test_the_front_is_everything_before_the_history() -> None:
    context = Context(*ALL)

    assert context.front == Context(*ALL[:6])
    assert Context(HELLO).front == Context()
    assert context.messages == (HELLO, CALLING, RESULT)


@pytest.mark.parametrize(
    "contents",
    [
        (HELLO, RESULT),
        (RESULT,),
        (CALLING, HELLO),
        (CALLING, AssistantMessage(())),
        (CALLING, ToolMessage(())),
        (CALLING, ToolMessage((ToolResult(call_id="other", name="f", content=""),))),
        (CALLING, ToolMessage((*RESULT.results, *RESULT.results))),
        (CALLING, RESULT, RESULT),
        (AssistantMessage((CALL, CALL)),),
    ],
)
def test_calls_and_results_must_match(contents: tuple[Content, ...]) -> None:
    """A provider rejects a call without its result, and the agent would be stuck for ever."""
    with pytest.raises(ContextError):
        Context(*contents)


def test_open_calls_are_those_of_the_last_turn() -> None:
    assert Context(HELLO, CALLING).open_calls == (CALL,)
    assert Context(HELLO, CALLING, RESULT).open_calls == ()


def test_volatile_text_is_no_part_of_chain_bytes_or_segments() -> None:
    context = Context(*ALL)
    now = context.with_volatile("it is 12:00")

    assert now.volatile == "it is 12:00"
    assert now.digest == context.digest
    assert now.dump() == context.dump()
    assert now.append(HELLO).volatile is None
    assert now.fork().volatile is None
    assert now.with_volatile(None) == context
    assert now != context


def test_a_dump_loads_to_the_same_chain() -> None:
    context = Context(*ALL)
    loaded = Context.load(context.dump())

    assert loaded.chain == context.chain
    assert [segment.content for segment in loaded] == list(ALL)


@pytest.mark.parametrize(
    "data",
    [
        Context(*ALL).dump()[:-1],
        Context(*ALL).dump().replace(b'"part":"role"', b'"part": "role"'),
        b'{"tier":"nowhere"}\n',
        b"nothing\n",
        Context(HELLO).dump() + Context(RULES).dump(),
    ],
)
def test_a_changed_dump_is_refused(data: bytes) -> None:
    with pytest.raises(ContextError):
        Context.load(data)


def test_copies_and_pickles_are_equal() -> None:
    context = Context(*ALL).with_volatile("now")

    assert copy.copy(context) is context
    assert copy.deepcopy(context) is context
    assert pickle.loads(pickle.dumps(context)) == context
    assert hash(pickle.loads(pickle.dumps(context))) == hash(context)


def test_the_tool_segment_carries_the_toolsets_bytes_untouched() -> None:
    segment = Segment(TOOLS)

    assert segment.tier is Tier.TOOLS
    assert TOOLS.data in segment.data


def test_digests_are_pinned() -> None:
    """The digest names stored contexts, so it may not change from one release to the next."""
    assert Context(RULES, HELLO).digest == (
        "sha256:10f9bca3d34bcb07d95af0dc34016909d6419da0777d80e6cd88269ae9d338a0"
    )


def test_a_very_long_history_neither_recurses_nor_slows_down() -> None:
    context = Context(RULES)
    for _ in range(5_000):
        context = context.append(HELLO)

    assert len(context.messages) == 5_000
    assert context.starts_with(Context(RULES))
    del context


def test_surrogates_in_system_text_and_documents_are_refused() -> None:
    for content in (
        SystemText(SystemPart.ROLE, "\ud800"),
        Document(uri="a", text="\ud800"),
        Document(uri="\ud800", text=""),
    ):
        with pytest.raises(ContextError, match="surrogate"):
            Context(content)
