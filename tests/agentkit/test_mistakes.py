"""Mistakes of beginners: each gets an error of ours that names the value and the fix."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agentkit import Agent, ConfigurationError, Document, Settings, Task, UnknownModel, fan_out
from agentkit.blocks import ToolCall
from agentkit.testing import ScriptedModel


def good(x: int) -> int:
    """Be good."""
    return x


class Helper(Agent):
    """You help."""


class Deaf(Agent):
    """You do not know the turn."""

    def tool_choice(self) -> str:  # type: ignore[override]
        return "auto"


class Hasty(Agent):
    """You do not look at the context."""

    async def approve(self, call: ToolCall) -> None:  # type: ignore[override]
        return None


class Late(Agent):
    """You come later."""

    async def volatile(self, turn: int) -> str:  # type: ignore[override]
        return "later"


class Plain(Agent):
    """You have a value where a method belongs."""

    allowed_tools = frozenset(("x",))  # type: ignore[assignment]


class OneTool(Agent):
    """You have a function in the place of a list."""

    tools = good  # type: ignore[assignment]


def model() -> ScriptedModel:
    return ScriptedModel(lambda _: "ok")


AT_CONSTRUCTION: list[tuple[Callable[[], object], str]] = [
    (lambda: Agent(tools=good), "tools must be a list: tools=[good]; got <function good"),  # type: ignore[arg-type]
    (lambda: OneTool(), "tools must be a list: tools=[good]"),
    (lambda: Agent(tools="files"), "tools must be a list: tools=[...]; got 'files'"),
    (lambda: Agent(subagents=Helper), "subagents must be a list: subagents=[Helper]"),  # type: ignore[arg-type]
    (lambda: Agent(subagents=["Helper"]), "'Helper' is no subagent; give an Agent class"),  # type: ignore[list-item]
    (lambda: Agent(subagents=[good]), "is no subagent"),  # type: ignore[list-item]
    (lambda: Agent(knowledge=Document(uri="a", text="b")), "knowledge must be a list"),  # type: ignore[arg-type]
    (lambda: Agent(knowledge=["text"]), "'text' is no document; knowledge holds Document("),  # type: ignore[list-item]
    (lambda: Agent(instructions=["Be brief."]), "instructions must be a str; got ['Be brief.']"),  # type: ignore[arg-type]
    (lambda: Agent(settings={"temperature": 0}), "settings must be Settings(...)"),  # type: ignore[arg-type]
    (lambda: Agent(max_turns="3"), "max_turns must be an int of at least 1, got '3'"),  # type: ignore[arg-type]
    (lambda: Agent(max_turns=1.5), "max_turns must be an int of at least 1, got 1.5"),  # type: ignore[arg-type]
    (lambda: Agent(max_retries=True), "max_retries must be an int of at least 0, got True"),
    (lambda: Settings(temperature=math.nan), "temperature must be a finite number of at least 0"),
    (lambda: Settings(temperature=math.inf), "temperature must be a finite number of at least 0"),
    (lambda: Settings(temperature="0"), "of at least 0, got '0'"),  # type: ignore[arg-type]
    (lambda: Settings(top_p=math.nan), "top_p must be in (0, 1], got nan"),
    (lambda: Settings(top_p=0), "top_p must be in (0, 1], got 0"),
    (lambda: Settings(top_k=0), "top_k must be an int of at least 1, got 0"),
    (lambda: Settings(max_tokens=-5), "max_tokens must be an int of at least 1, got -5"),
    (lambda: Settings(max_tokens=1.5), "max_tokens must be an int of at least 1, got 1.5"),  # type: ignore[arg-type]
    (lambda: Settings(seed=0.5), "seed must be an int, got 0.5"),  # type: ignore[arg-type]
    (lambda: Settings(stop=("",)), "stop must be a tuple of strings that are not empty"),
    (lambda: Settings(stop=(5,)), "stop must be a tuple of strings that are not empty"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "message"), AT_CONSTRUCTION)
def test_wrong_values_are_found_when_the_agent_is_made(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        make()


def test_a_wrong_value_set_later_is_found_at_the_first_use() -> None:
    agent = Agent(model=model())
    agent.tools = good  # type: ignore[assignment]

    with pytest.raises(ConfigurationError, match=re.escape("tools=[good]")):
        agent.run_sync("x")


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Deaf, "Deaf.tool_choice() -> 'str' cannot take the number of the turn; "),
        (Deaf, "write: def tool_choice(self, turn: int)"),
        (Hasty, "cannot take what it is given; write: async def approve(self, call, context)"),
        (Late, "Late.volatile is asynchronous, but is called without await; write: def volatile("),
        (Plain, "Plain.allowed_tools must be a method, got frozenset({'x'})"),
    ],
)
def test_hooks_that_cannot_be_called_are_found_before_the_model_is_asked(
    cls: type[Agent], message: str
) -> None:
    asked = model()

    with pytest.raises(ConfigurationError, match=re.escape(message)):
        cls(model=asked).run_sync("x")
    assert not asked.calls


def test_hooks_of_a_subagent_are_checked_with_its_team() -> None:
    with pytest.raises(ConfigurationError, match=r"Deaf.tool_choice"):
        Agent(model=model(), subagents=[Deaf]).run_sync("x")


def test_a_hook_may_take_the_turn_in_any_way() -> None:
    class Any_(Agent):
        """You take everything."""

        def volatile(self, *args: object, **more: object) -> str | None:
            return None

    assert Any_(model=model()).run_sync("x").output == "ok"


def test_a_result_in_the_place_of_its_context_is_named() -> None:
    agent = Agent(model=model())
    result = agent.run_sync("x")

    with pytest.raises(ConfigurationError, match=r"got the RunResult .*context=result\.context"):
        agent.run_sync("y", context=result)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="must be a Context, got the list"):
        agent.run_sync("y", context=[])  # type: ignore[arg-type]


@pytest.mark.parametrize("prompt", [["hi"], 3, {"role": "user"}])
def test_a_prompt_that_is_no_text_is_refused(prompt: object) -> None:
    with pytest.raises(ConfigurationError, match="prompt must be a str or a UserMessage, got"):
        Agent(model=model()).run_sync(prompt)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (["Say hello"], "'Say hello' is no task; a task is Task(agent=..., prompt=...) or a pair"),
        ("Say hello", "tasks must be a list, got 'Say hello'"),
        (Task(agent="helper", prompt="x"), "tasks must be a list, got Task("),
        ([("helper", "x", "y")], "is no task"),
        ([("helper", 3)], "the prompt of the task for 'helper' must be a str, got 3"),
    ],
)
async def test_a_text_is_no_task(tasks: list[Task], message: str) -> None:
    boss = Agent(model=model(), subagents=[Helper])

    with pytest.raises(ConfigurationError, match=re.escape(message)):
        await fan_out(boss, tasks)


async def test_a_class_cannot_fan_out() -> None:
    with pytest.raises(ConfigurationError, match=r"is a class: give an agent, Helper\(\.\.\.\)"):
        await fan_out(Helper, [])  # type: ignore[arg-type]


def test_a_model_string_must_name_a_model() -> None:
    with pytest.raises(UnknownModel, match="no model named in model string 'local:'"):
        Agent(model="local:").run_sync("x")


def test_a_plain_agent_refuses_attributes_that_agents_do_not_have() -> None:
    agent = Agent(model=model())

    with pytest.raises(ConfigurationError, match=r"cannot set 'tols'.*did you mean 'tools'"):
        agent.tols = [good]  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match=r"cannot set 'database'.*deps"):
        agent.database = 1  # type: ignore[attr-defined]
    agent.tools = [good]
    agent.deps = None


def test_a_subclass_keeps_attributes_of_its_own() -> None:
    class Clerk(Agent):
        """You write."""

        def __init__(self) -> None:
            self.early = 1
            super().__init__(model=model())
            self.late = 2

    clerk = Clerk()
    clerk.later = 3  # type: ignore[attr-defined]

    assert (clerk.early, clerk.late, clerk.run_sync("x").output) == (1, 2, "ok")


def test_type_arguments_may_be_given_where_the_agent_is_made() -> None:
    assert Agent[None, str](model=model()).run_sync("x").output == "ok"


def test_an_interrupted_run_shows_no_error_of_our_own_before_it() -> None:
    """Regression: Ctrl-C printed a traceback that began with `no running event loop`."""

    def interrupt(_: object) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        Agent(model=ScriptedModel(interrupt)).run_sync("x")

    error: BaseException | None = caught.value
    while error is not None:
        assert "no running event loop" not in str(error)
        error = error.__context__


class Forgetful(Agent):
    """You forget."""

    def __init__(self) -> None:
        self.model = model()


class Heir(Forgetful):
    """You forget as well."""


@dataclass
class Record(Agent):
    """You keep a record."""

    size: int = 3


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (Forgetful(), "call super().__init__() in the __init__ of 'Forgetful'"),
        (Heir(), "class 'Heir' was not set up: call super().__init__() in the __init__ of 'Forg"),
        (Record(), "call super().__init__() in the __post_init__ of the dataclass 'Record'"),
        (Agent(model=model(), subagents=[Forgetful()]), "in the __init__ of 'Forgetful'"),
        (Agent(model=model(), subagents=[Record]), "subagent 'Record' of 'agent' cannot be made"),
    ],
)
def test_a_subclass_that_does_not_call_the_init_of_agents_is_told_so(
    agent: Agent, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        agent.run_sync("x")


def test_a_list_of_tools_cannot_grow_once_the_agent_was_used() -> None:
    agent = Agent(model=ScriptedModel(["ok"]), name="a", tools=[])
    agent.run_sync("Hello")

    with pytest.raises(AttributeError):
        agent.tools.append(print)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"system_prompt": "You."}, "no 'system_prompt'; did you mean instructions=...?"),
        ({"result_type": int}, "did you mean output_type=...?"),
        ({"temperature": 0}, r"write settings=Settings\(temperature=...\)"),
        ({"max_turn": 3}, "did you mean max_turns=...?"),
        ({"zzz": 3}, "no 'zzz'; keep what is yours in deps"),
    ],
)
def test_a_keyword_that_an_agent_does_not_have_is_told_by_its_name_here(
    given: Any, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Agent(name="a", **given)


def test_an_agent_is_made_by_keywords_or_as_its_class_says() -> None:
    class Own(Agent):
        """You have a keyword of your own."""

        def __init__(self, colour: str, **more: Any) -> None:
            super().__init__(**more)
            self.colour = colour

    make: Any = Agent
    with pytest.raises(ConfigurationError, match="takes keywords only"):
        make("local:smollm2")
    assert copy.copy(Own("red", name="own")).colour == "red"
