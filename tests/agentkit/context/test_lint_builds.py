"""Two builds of an agent are compared: what differs is named, with its line and the fix."""

from __future__ import annotations

import itertools
import re
import time
import uuid
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit import Agent, ConfigurationError, Document, tool
from agentkit.blocks import UserMessage
from agentkit.context import Context, SystemPart, SystemText, VolatileTextWarning
from agentkit.context.canonical import digest
from agentkit.context.lint_builds import compare_builds
from agentkit.testing import ScriptedModel, assert_stable_build

MODEL = ScriptedModel(["ok"])
LINES = Path(__file__).read_text().splitlines()
NUMBERS = itertools.count(1)
KINDS = {"euro", "dollar", "yen", "pound", "krone", "franc"}


def line(marker: str) -> str:
    """The number of the line that ends with a marker."""
    return str(next(n for n, text in enumerate(LINES, 1) if text.endswith(f"# line {marker}")))


class Stable(Agent):
    """You are stable."""

    model = MODEL
    rules = "Be honest."

    @tool
    def look(self, kinds: set[str]) -> str:
        """Look at kinds."""
        return ""


class Clock(Agent):
    """You have a clock."""

    model = MODEL

    def __init__(self) -> None:
        super().__init__(
            instructions=f"You are on time. It is {time.time_ns()}.",  # line clock
        )


class Unordered(Agent):
    """You know currencies."""

    model = MODEL
    examples = f"Currencies: {', '.join(KINDS)}."  # line examples


class Nested(Agent):
    """You lead."""

    model = MODEL
    subagents = (Unordered,)


class Stamped(Agent):
    """You keep the books.

    Booked at 2026-11-29T10:15:00Z.
    """  # the docstring's third line is the one

    model = MODEL


class Held(Agent):
    """You look."""

    model = MODEL

    @tool
    def look(self, where: str) -> str:  # line look
        """Look into /tmp/tmpx81/cache for it."""  # line description
        return ""


def test_a_stable_agent_passes_here_and_elsewhere() -> None:
    assert_stable_build(lambda: Stable())
    assert_stable_build(Stable, other_processes=1)


def test_building_twice_gives_an_equal_prefix_with_the_clock_in_the_tail() -> None:
    """C13: a microsecond clock in the cached system block wrote at every call and read never."""

    class Timed(Stable):
        def volatile(self, turn: int) -> str:
            return f"It is {time.time_ns()}."

    assert_stable_build(Timed)
    model = ScriptedModel(lambda request: "ok")
    contexts = [Timed(model=model).run_sync("hi").context for _ in range(2)]
    assert contexts[0].dump() == contexts[1].dump()
    first, second = (call.request.context.volatile for call in model.calls)
    assert first != second


def test_a_clock_in_the_instructions_is_found_with_its_place_and_fix() -> None:
    """C14: a full timestamp in the system template changed the prefix with each reply."""
    with pytest.raises(AssertionError) as caught:
        assert_stable_build(Clock)
    message = str(caught.value)

    where = rf"agent 'clock': system/role \(.*builds\.py:{line('clock')}, instructions=\.\.\.\)"
    assert re.match(where, message)
    assert re.search(r"first: +'You are on time\. It is \d+\.'", message)
    assert "return it from the agent's volatile()" in message


def test_the_order_of_a_set_is_found_in_another_process() -> None:
    """C10: a set's iteration order in the system prompt rewrote 22,000 tokens."""
    with pytest.raises(AssertionError) as caught:
        assert_stable_build(Unordered, other_processes=4)
    message = str(caught.value)

    assert f"test_lint_builds.py:{line('examples')}) differs from build to build (order)" in message
    assert "sorted(...)" in message
    assert "system/examples" in message


def test_subagents_are_built_and_compared_too() -> None:
    with pytest.raises(AssertionError, match="agent 'nested/unordered': system/examples"):
        assert_stable_build(Nested, other_processes=4)


def test_a_team_that_has_other_members_is_told() -> None:
    def build() -> Agent:
        return Agent(model=MODEL, name="lead", subagents=[Agent(name=f"a{next(NUMBERS)}")])

    with pytest.raises(AssertionError, match="the team differs from build to build"):
        assert_stable_build(build)


def test_a_tool_that_describes_itself_anew_is_named() -> None:
    def build() -> Agent:
        @tool(description=f"Posts to session {uuid.uuid4()}.")
        def post() -> str:  # line post
            return ""

        return Agent(model=MODEL, name="desk", tools=[post])

    with pytest.raises(AssertionError) as caught:
        assert_stable_build(build)
    assert re.search(
        r"tools: post \(.*test_lint_builds\.py:\d+\) differs .*\(UUID\)", str(caught.value)
    )


def test_what_another_process_cannot_find_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not a lambda"):
        assert_stable_build(lambda: Stable(), other_processes=1)


def test_warnings_name_the_line_of_a_docstring_and_of_a_tool() -> None:
    number = next(n for n, text in enumerate(LINES, 1) if text.strip().startswith("Booked at"))
    with pytest.warns(VolatileTextWarning, match=rf"system/role \(.*builds\.py:{number}\)"):
        Stamped().run_sync("hi")
    with pytest.warns(VolatileTextWarning, match=rf"tools \(.*builds\.py:{line('description')}\)"):
        Held(model=ScriptedModel(["ok"])).run_sync("hi")


def test_requests_know_the_lines_that_supplied_their_front() -> None:
    model = ScriptedModel(["ok"])
    knowledge = [Document(uri="a", text="1")]
    Unordered(model=model, knowledge=knowledge, tools=[Stable().look]).run_sync("hi")
    request = model.calls[0].request
    places = {
        segment.tier if segment.part is None else segment.part: request.sources[segment.digest]
        for segment in request.context.front
    }

    assert places["examples"].endswith(f"test_lint_builds.py:{line('examples')}")
    assert places["knowledge"].endswith("knowledge=..., 'a'")
    assert "test_lint_builds.py:" in places["knowledge"]
    assert "the 1 tools of the team" in places["tools"]
    assert "test_lint_builds.py:" in places["role"]
    (look,) = request.toolset.specs
    assert re.fullmatch(r".*test_lint_builds\.py:\d+", request.sources[digest(look.bytes)])
    assert len(dict(request.sources)) == len(request.context.front) + 1


RULES = SystemText(SystemPart.RULES, "Be honest. Order 17 is open. Kinds: a, b, c.")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Be honest. Order 18 is open. Kinds: a, b, c.", "number"),
        ("Be honest. Order 17 is open. Kinds: c, a, b.", "order"),
        ("Be honest. Order 17 is shut. Kinds: a, b, c.", "text"),
        ("Be honest. Order 17 is open. Kinds: a, b, c. Updated 3 min ago", "relative age"),
    ],
)
def test_the_kind_of_a_difference_is_guessed(text: str, kind: str) -> None:
    (found,) = compare_builds(Context(RULES), Context(SystemText(SystemPart.RULES, text)))

    assert found.kind == kind
    assert found.segment == "system/rules"


def test_what_is_in_one_build_only_is_missing_and_documents_are_named() -> None:
    first = Context(RULES, Document(uri="a", text="1"), Document(uri="b", text="2"))
    second = Context(RULES, Document(uri="b", text="2"), Document(uri="c", text="3"))
    gone, new = compare_builds(first, second)

    assert (gone.segment, gone.kind, gone.before, gone.after) == (
        "knowledge 'a'",
        "missing",
        "1",
        "",
    )
    assert (new.segment, new.before, new.after) == ("knowledge 'c'", "", "3")


def test_equal_builds_have_no_difference_and_the_first_difference_comes_first() -> None:
    context = Context(RULES, SystemText(SystemPart.ROLE, "x"), UserMessage.of("hi"))
    assert compare_builds(context, Context.load(context.dump())) == ()

    other = Context(SystemText(SystemPart.RULES, "y"), SystemText(SystemPart.ROLE, "z"))
    names = [found.segment for found in compare_builds(context, other)]
    assert names == ["system/rules", "system/role", "history"]


TEXT = st.text("ab \n1é", max_size=30)


@settings(max_examples=200, deadline=None)
@given(TEXT, TEXT)
def test_any_two_texts_are_compared_and_the_shown_parts_differ(first: str, second: str) -> None:
    one = Context(SystemText(SystemPart.ROLE, first))
    two = Context(SystemText(SystemPart.ROLE, second))
    found = compare_builds(one, two)

    assert bool(found) == (first != second)
    for difference in found:
        assert difference.before != difference.after
