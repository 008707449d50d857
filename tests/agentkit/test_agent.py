"""What a user writes: subclass and instance form, tools, deps, outputs, and clear mistakes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pytest
from pydantic import BaseModel

from agentkit import (
    Agent,
    AgentkitError,
    ConfigurationError,
    Context,
    ContextMismatch,
    Document,
    OutputError,
    Settings,
    Tool,
    ToolContext,
    UnknownModel,
    UserMessage,
    VolatileTextWarning,
    tool,
)
from agentkit.blocks import ToolMessage
from agentkit.context import SystemPart, SystemText
from agentkit.testing import Call, Say, ScriptedModel, assert_prefix_stable


@dataclass
class Rates:
    euro: float


class Desk(Agent[Rates]):
    """You answer currency questions.

    Use the tools; never guess a rate.
    """

    rules = "Be honest."

    @tool
    def convert(self, usd: float) -> float:
        """Convert dollars to euro."""
        return usd * self.deps.euro

    @tool
    async def name_of(self, code: Literal["EUR", "GBP"]) -> str:
        """Name a currency."""
        return {"EUR": "euro", "GBP": "pound"}[code]


class Finding(BaseModel):
    line: int
    quote: str


def system(model: ScriptedModel, part: SystemPart) -> str:
    contents = [segment.content for segment in model.calls[0].request.context]
    return "".join(
        content.text
        for content in contents
        if isinstance(content, SystemText) and content.part is part
    )


def test_a_subclass_runs_its_tools_and_answers() -> None:
    model = ScriptedModel([[Say("let me see"), Call("convert", {"usd": 5})], "4.5 euro"])

    result = Desk(model=model, deps=Rates(0.9)).run_sync("5 dollars in euro?")

    assert result.output == "4.5 euro"
    assert [message.kind for message in result.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert isinstance(result.messages[2], ToolMessage)
    assert result.messages[2].results[0].content == "4.5"
    assert result.cache.total.requests == 2
    assert result.usage == result.cache.total.usage
    assert "desk" in str(result.cache)
    model.assert_consumed()
    assert_prefix_stable(model.calls)


def test_docstring_rules_and_tools_are_what_the_model_sees_and_deps_are_not() -> None:
    model = ScriptedModel(["ok"])
    Desk(model=model, deps=Rates(0.123456)).run_sync("hi")

    assert system(model, SystemPart.ROLE) == (
        "You answer currency questions.\n\nUse the tools; never guess a rate."
    )
    assert system(model, SystemPart.RULES) == "Be honest."
    assert model.calls[0].request.toolset.names == ("convert", "name_of")
    assert b"0.123456" not in model.calls[0].wire
    assert b"deps" not in model.calls[0].wire


def test_an_instance_needs_no_subclass() -> None:
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    model = ScriptedModel([Call("shout", {"text": "hey"}), "HEY"])
    clerk = Agent(model=model, instructions="You are loud.", tools=[shout], name="clerk")

    assert clerk.run_sync("hey").output == "HEY"
    assert model.calls[0].request.agent == "clerk"
    assert system(model, SystemPart.ROLE) == "You are loud."


def test_keywords_override_the_class_and_are_seen_by_the_model() -> None:
    model = ScriptedModel(["ok"])
    documents = [Document(uri="b", text="2"), Document(uri="a", text="1")]
    desk = Desk(
        model=model,
        deps=Rates(1),
        instructions="Other.",
        examples="Q A",
        knowledge=documents,
        settings=Settings(max_tokens=5),
    )
    desk.run_sync("hi")

    front = model.calls[0].request.context.front
    assert [segment.part or segment.tier for segment in front] == [
        "rules",
        "tools",
        "role",
        "examples",
        "knowledge",
        "knowledge",
    ]
    assert system(model, SystemPart.ROLE) == "Other."
    assert [d.content.uri for d in front.segments[-2:] if isinstance(d.content, Document)] == [
        "a",
        "b",
    ]
    assert model.calls[0].request.settings.max_tokens == 5


def test_the_docstring_of_the_nearest_class_is_the_role() -> None:
    class Silent(Desk):
        pass

    class Loud(Desk):
        """You shout."""

    assert Silent().role == Desk().role
    assert Loud().role == "You shout."
    assert Agent(model="local:x").role == ""


def test_the_signature_that_a_dataclass_writes_as_its_docstring_is_no_role() -> None:
    @dataclass
    class Bare(Desk):
        codes: frozenset[str] = frozenset({"EUR", "GBP"})

        def __post_init__(self) -> None:
            super().__init__()

    @dataclass
    class Documented(Desk):
        """You shout."""

        codes: frozenset[str] = frozenset({"EUR", "GBP"})

        def __post_init__(self) -> None:
            super().__init__()

    assert str(Bare.__doc__).startswith("Bare(codes")
    assert Bare().role == Desk().role
    assert Documented().role == "You shout."


def test_overridden_methods_replace_tools_and_an_override_without_tool_removes_one() -> None:
    class Other(Desk):
        @tool
        def convert(self, usd: float, fee: float) -> float:  # type: ignore[override]
            """Convert with a fee."""
            return usd * self.deps.euro - fee

        def name_of(self, code: str) -> str:  # type: ignore[override]
            return code

    model = ScriptedModel([Call("convert", {"usd": 5, "fee": 1}), "ok"])
    result = Other(model=model, deps=Rates(2)).run_sync("hi")

    assert model.calls[0].request.toolset.names == ("convert",)
    assert isinstance(result.messages[2], ToolMessage)
    assert result.messages[2].results[0].content in ("9", "9.0")


@pytest.mark.parametrize(
    ("cls", "name"), [("FxDesk", "fx_desk"), ("HTTPReader", "http_reader"), ("A", "a")]
)
def test_names_come_from_the_class(cls: str, name: str) -> None:
    assert type(cls, (Agent,), {})().name == name


def test_the_deps_of_the_class_count_where_none_are_given() -> None:
    class London(Desk):
        deps = Rates(2)

    lead = Agent(name="lead", model=ScriptedModel(["ok"]), subagents=[London])
    assert London().deps == Rates(2)
    assert London(deps=Rates(3)).deps == Rates(3)
    assert lead.subagent_instances[0].deps == Rates(2)
    assert Desk().deps is None
    assert London.deps == Rates(2)


def test_tools_know_the_run_by_their_context() -> None:
    seen: list[ToolContext[object]] = []

    def look(context: ToolContext[object]) -> str:
        """Look."""
        seen.append(context)
        return "seen"

    model = ScriptedModel([Call("look"), "ok"])
    deps = Rates(1)
    result = Agent(model=model, deps=deps, tools=[look], name="eye").run_sync("hi")

    assert seen[0].deps is deps
    assert (seen[0].agent, seen[0].run_id) == ("eye", result.run_id)
    assert seen[0].call_id == "call_1"


def test_a_conversation_goes_on_from_its_context() -> None:
    model = ScriptedModel(["one", "two"])
    agent = Agent(model=model)
    first = agent.run_sync("1?")
    second = agent.run_sync("2?", context=first.context)
    branch = Agent(model=ScriptedModel(["three"])).run_sync("3?", context=first.context)

    assert model.calls[1].wire.startswith(model.calls[0].wire)
    assert len(second.messages) == 2
    assert len(second.context.messages) == 4
    assert branch.context.common_length(second.context) == 2
    assert len(first.context.messages) == 2


def test_a_dumped_conversation_goes_on_in_a_new_process_with_the_same_bytes() -> None:
    """C56: a resumed agent re-rendered its history and missed everything."""
    program = """
import sys
from agentkit import Agent, Context
from agentkit.testing import ScriptedModel
context = Context.load(sys.stdin.buffer.read()) if sys.argv[1] == "go on" else None
model = ScriptedModel(["answer é"])
result = Agent(model=model, rules="R", instructions="I").run_sync(sys.argv[1], context=context)
sys.stdout.buffer.write(result.context.dump())
"""
    data = b""
    for prompt in ("begin", "go on"):
        done = subprocess.run(
            [sys.executable, "-c", program, prompt],
            input=data,
            capture_output=True,
            check=True,
            env={"PYTHONPATH": ":".join(sys.path)},
            timeout=60,
        )
        assert done.stdout.startswith(data)
        assert len(done.stdout) > len(data)
        data = done.stdout


def test_a_context_of_another_agent_is_refused_and_the_difference_named() -> None:
    model = ScriptedModel(lambda _: "ok")
    context = Agent(model=model, rules="R", instructions="A").run_sync("x").context

    with pytest.raises(ContextMismatch, match="its role differs from"):
        Agent(model=model, rules="R", instructions="B").run_sync("y", context=context)
    with pytest.raises(ContextMismatch, match="its rules differ from"):
        Agent(model=model, rules="S", instructions="A").run_sync("y", context=context)
    with pytest.raises(ContextMismatch, match=r"its role and tools differ"):
        Agent(model=model, rules="R", tools=[_f], instructions="A").run_sync("y", context=context)


def _f(x: int) -> int:
    """F."""
    return x


def _g(x: int) -> int:
    """G."""
    return x


def test_a_changed_toolset_is_refused_with_the_names() -> None:
    model = ScriptedModel(lambda _: "ok")
    context = Agent(model=model, tools=[_f]).run_sync("x").context

    with pytest.raises(ContextMismatch, match=r"tools have changed \(-_f, \+_g\)"):
        Agent(model=model, tools=[_g]).run_sync("y", context=context)


def test_the_configuration_is_fixed_after_the_first_use() -> None:
    agent = Agent(model=ScriptedModel(["ok"]), instructions="A")
    agent.instructions = "B"
    agent.run_sync("x")

    with pytest.raises(ConfigurationError, match=r"cannot set 'instructions'.*make a new agent"):
        agent.instructions = "C"


def test_the_configuration_of_all_subagents_is_fixed_with_that_of_the_root() -> None:
    grandchild = Agent(instructions="A", name="grandchild")
    child = Agent(instructions="A", name="child", subagents=[grandchild])
    root = Agent(model=ScriptedModel(["ok"]), subagents=[child])
    child.instructions = "B"
    root.run_sync("x")

    for agent in (child, grandchild):
        with pytest.raises(ConfigurationError, match=r"cannot set 'instructions'.*was used"):
            agent.instructions = "C"


@pytest.mark.parametrize(
    ("output_type", "answer", "output"),
    [
        (Finding, '{"line": 3, "quote": "é"}', Finding(line=3, quote="é")),
        (Rates, '{"euro": 0.5}', Rates(0.5)),
        (list[Finding], '[{"line": 1, "quote": ""}]', [Finding(line=1, quote="")]),
        (int, " 42\n", 42),
        (Finding, '```json\n{"line": 3, "quote": "x"}\n```', Finding(line=3, quote="x")),
        (str, "plain {text", "plain {text"),
    ],
)
def test_answers_become_values_of_the_output_type(
    output_type: type[object], answer: str, output: object
) -> None:
    model = ScriptedModel([answer])

    result = Agent(model=model, output_type=output_type).run_sync("x")

    assert result.output == output
    assert result.text == answer
    schema = model.calls[0].request.output_schema
    assert (schema is None) == (output_type is str)


def test_the_schemas_properties_keep_their_order_of_definition() -> None:
    """Models write properties in the schema's order, and reasons must come before verdicts."""

    class Verdict(BaseModel):
        reasons: str
        answer: bool
        confidence: float

    model = ScriptedModel(['{"reasons": "", "answer": true, "confidence": 1}'])
    Agent(model=model, output_type=Verdict).run_sync("x")

    schema = model.calls[0].request.output_schema
    assert schema is not None
    assert list(schema["properties"]) == ["reasons", "answer", "confidence"]  # type: ignore[call-overload]


def test_the_output_type_may_be_a_type_argument() -> None:
    class Reader(Agent[None, Finding]):
        """You read."""

    class Careful(Reader):
        """You read twice."""

    assert Careful().output_type is Finding
    assert Agent().output_type is str


def test_an_answer_that_does_not_fit_is_corrected_by_appending() -> None:
    model = ScriptedModel(["no json", '{"line": "x", "quote": 1}', '{"line": 1, "quote": "q"}'])

    result = Agent(model=model, output_type=Finding).run_sync("x")

    assert result.output == Finding(line=1, quote="q")
    corrections = [m.text for m in result.messages if isinstance(m, UserMessage)][1:]
    assert "Invalid JSON" in corrections[0]
    assert "line: " in corrections[1]
    assert "quote: " in corrections[1]
    assert_prefix_stable(model.calls)
    model.assert_consumed()


def test_corrections_end_with_an_error_that_has_the_last_answer_and_the_context() -> None:
    model = ScriptedModel(["a", "b", "last"])

    with pytest.raises(OutputError, match="after 2 corrections") as caught:
        Agent(model=model, output_type=Finding).run_sync("x")

    assert caught.value.text == "last"
    assert caught.value.partial is not None
    assert len(caught.value.partial.messages) == 6
    assert caught.value.partial.usage.input_tokens
    model.assert_consumed()


async def test_run_sync_inside_an_event_loop_says_what_to_do() -> None:
    with pytest.raises(AgentkitError, match=r"use: await agent.run"):
        Agent(model=ScriptedModel([])).run_sync("x")


async def test_one_agent_serves_many_runs_at_once() -> None:
    model = ScriptedModel(lambda asked: f"{asked.run_id}")
    agent = Agent(model=model)

    results = await asyncio.gather(*(agent.run(f"{i}") for i in range(20)))

    assert [result.output for result in results] == [result.run_id for result in results]
    assert_prefix_stable(model.calls)


def test_volatile_text_in_the_role_warns_once_at_first_use() -> None:
    agent = Agent(model=ScriptedModel(lambda _: "ok"), instructions="It is 2026-11-29T10:00:00Z.")

    with pytest.warns(VolatileTextWarning, match=r"system/role"):
        agent.run_sync("x")
    agent.run_sync("y")  # a second warning would be an error here


def test_volatile_text_of_the_hook_is_in_the_request_and_never_in_the_history() -> None:
    """Regression elsewhere (C13, C14, C23): a clock in front or in the history moves the prefix."""

    class Clocked(Agent):
        """You know the time."""

        def volatile(self, turn: int) -> str | None:
            return f"It is 10:00:0{turn}."

        @tool
        def wait(self) -> str:
            """Wait."""
            return "waited"

    model = ScriptedModel([Call("wait"), Call("wait"), "done"])
    result = Clocked(model=model).run_sync("x")

    assert [call.request.context.volatile for call in model.calls] == [
        "It is 10:00:00.",
        "It is 10:00:01.",
        "It is 10:00:02.",
    ]
    assert b"10:00" not in result.context.dump()
    assert_prefix_stable(model.calls)


class Unbound(Agent):
    """x"""

    @tool
    def method(self) -> str:
        """M."""
        return ""


MISTAKES: list[tuple[Callable[[], Agent], type[Exception], str]] = [
    (lambda: Agent(), ConfigurationError, "has no model"),
    (lambda: Agent(model="lokal:x"), UnknownModel, "unknown provider 'lokal'"),
    (lambda: Agent(model="local:x", name="a b"), ConfigurationError, "'a b' is not usable"),
    (lambda: Agent(model="local:x", name="x" * 53), ConfigurationError, "is not usable"),
    (
        lambda: Agent(model="local:x", tools=["files"]),  # type: ignore[list-item]
        ConfigurationError,
        "'files' is no tool",
    ),
    (
        lambda: Agent(model="local:x", tools=[Unbound.method]),
        ConfigurationError,
        "taken from its class",
    ),
    (lambda: Agent(model="local:x", output_type=object()), ConfigurationError, "no JSON schema"),  # type: ignore[arg-type]
    (
        lambda: Agent(model="local:x", knowledge=[Document(uri="a", text="")] * 2),
        ConfigurationError,
        "two documents with the URI 'a'",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), MISTAKES)
def test_mistakes_are_found_at_the_first_use(
    make: Callable[[], Agent], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make().run_sync("x")


def test_limits_below_one_and_empty_prompts_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_turns must be an int of at least 1, got 0"):
        Agent(model="local:x", max_turns=0)
    with pytest.raises(
        ConfigurationError, match="max_retries must be an int of at least 0, got -1"
    ):
        Agent(model="local:x", max_retries=-1)
    with pytest.raises(ConfigurationError, match="prompt is empty"):
        Agent(model="local:x").run_sync(" \n")
    with pytest.raises(ConfigurationError, match="nothing to go on with"):
        Agent(model="local:x").run_sync(None)
    with pytest.raises(ConfigurationError, match="temperature"):
        Settings(temperature=-1)
    with pytest.raises(ConfigurationError, match="tuple of strings"):
        Settings(stop="x")  # type: ignore[arg-type]


def test_an_unresolved_output_argument_is_refused() -> None:
    from typing import TypeVar

    T = TypeVar("T")

    class Middle(Agent[None, T]):
        """x"""

    class Leaf(Middle[Finding]):
        """y"""

    with pytest.raises(ConfigurationError, match="set output_type"):
        Leaf()


def test_the_context_type_is_public_and_empty_by_default() -> None:
    assert len(Context()) == 0
    assert isinstance(Desk.convert, Tool)


def test_without_docstrings_a_subclass_must_say_its_instructions() -> None:
    """python -OO removes docstrings; an agent that silently loses its role would be worse."""
    program = """
from agentkit import Agent, ConfigurationError
from agentkit.testing import ScriptedModel
class Desk(Agent):
    "You are a desk."
try:
    Desk(model=ScriptedModel(["x"])).run_sync("y")
except ConfigurationError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-OO", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        timeout=60,
    )
    assert "set `instructions`" in done.stdout
