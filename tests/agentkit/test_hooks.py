"""Hooks and guards: where they are called, what they may add, and what they cannot touch."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import pytest

from agentkit import (
    Agent,
    ApprovalRequired,
    Approve,
    Blocked,
    ConfigurationError,
    Deny,
    HookContext,
    Hooks,
    Limits,
    MemoryJournal,
    ModelError,
    OutputError,
    Retry,
    ToolOutput,
    UserMessage,
    tool,
)
from agentkit.blocks import ToolCall, ToolMessage
from agentkit.events import TextDelta, Turn
from agentkit.models.base import ModelRequest
from agentkit.testing import Call, ScriptedModel


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("broken")


class Log(Hooks):
    """Writes down what is called."""

    def __init__(self, name: str = "", log: list[str] | None = None) -> None:
        self.name = name
        self.log = [] if log is None else log

    def note(self, at: HookContext[Any], what: str) -> None:
        self.log.append(f"{self.name}{at.agent} {at.turn} {what}")

    async def guard_input(self, at: HookContext[Any], prompt: UserMessage) -> None:
        self.note(at, f"guard_input {prompt.text}")

    async def before_turn(self, at: HookContext[Any]) -> str | None:
        self.note(at, "before_turn")
        return None

    async def before_model(self, at: HookContext[Any], request: ModelRequest) -> None:
        self.note(at, f"before_model {request.request_id[-1]}")

    async def after_model(self, at: HookContext[Any], turn: Turn) -> None:
        self.note(at, f"after_model {turn.message.text or turn.message.calls[0].name}")

    async def before_tool(self, at: HookContext[Any], call: ToolCall) -> ToolOutput | None:
        self.note(at, f"before_tool {call.name}")
        return None

    async def after_tool(self, at: Any, call: ToolCall, output: ToolOutput) -> ToolOutput:
        self.note(at, f"after_tool {call.name} {output.is_error}")
        return output

    async def guard_output(self, at: HookContext[Any], output: Any) -> None:
        self.note(at, f"guard_output {output}")

    async def after_turn(self, at: HookContext[Any]) -> None:
        self.note(at, f"after_turn {len(at.context.messages)}")


def results(messages: Any) -> list[tuple[str, bool]]:
    return [
        (result.content, result.is_error)
        for message in messages
        if isinstance(message, ToolMessage)
        for result in message.results
    ]


def assert_prefix_stable(model: ScriptedModel) -> None:
    wires = [call.wire for call in model.calls]
    assert all(later.startswith(sooner) for sooner, later in itertools.pairwise(wires))


async def test_each_hook_is_called_at_its_place() -> None:
    log = Log()
    busy = ModelError("busy", retryable=True, retry_after_s=0.0)
    model = ScriptedModel([Call("add", {"a": 1, "b": 2}), busy, "3"])
    await Agent(model=model, name="a", instructions="x", tools=[add], hooks=[log]).run("Sum?")
    assert log.log == [
        "a 0 guard_input Sum?",
        "a 0 before_turn",
        "a 0 before_model 0",
        "a 0 after_model add",
        "a 0 before_tool add",
        "a 0 after_tool add False",
        "a 1 after_turn 3",
        "a 1 before_turn",
        "a 1 before_model 0",
        "a 1 before_model 1",
        "a 1 after_model 3",
        "a 1 guard_output 3",
        "a 1 after_turn 4",
    ]


async def test_several_hooks_are_asked_in_their_order_and_each_has_the_last_ones_output() -> None:
    class Tags(Hooks):
        def __init__(self, tag: str) -> None:
            self.tag = tag

        async def before_turn(self, at: HookContext[Any]) -> str | None:
            return f"{self.tag} after {len(at.context.messages)}"

        async def after_tool(self, at: Any, call: ToolCall, output: ToolOutput) -> ToolOutput:
            return replace(output, content=output.content + self.tag)

    model = ScriptedModel([Call("add", {"a": 1, "b": 2}), "3"])
    agent = Agent(model=model, instructions="x", tools=[add], hooks=[Tags("one"), Tags("two")])
    result = await agent.run("Sum?")
    said = [message.text for message in result.messages if isinstance(message, UserMessage)]
    assert said == ["Sum?", "one after 1", "two after 2", "one after 5", "two after 6"]
    assert results(result.messages) == [("3onetwo", False)]
    assert_prefix_stable(model)


async def test_what_hooks_add_lies_at_the_tail_and_stays() -> None:
    class Clock(Hooks):
        async def before_turn(self, at: HookContext[Any]) -> str | None:
            return f"It is turn {at.turn}." if at.turn % 2 else None

    model = ScriptedModel([Call("add", {"a": n, "b": 2}) for n in range(5)] + ["end"])
    agent = Agent(model=model, instructions="x", tools=[add], hooks=[Clock()])
    first = await agent.run("Sum?")
    model_again = ScriptedModel(["more"])
    assert_prefix_stable(model)
    later = await Agent(model=model_again, instructions="x", tools=[add], name=agent.name).run(
        "And?", context=first.context
    )
    assert model_again.calls[0].wire.startswith(model.calls[-1].wire)
    said = [message.text for message in later.context.messages if isinstance(message, UserMessage)]
    assert said == ["Sum?", "It is turn 1.", "It is turn 3.", "It is turn 5.", "And?"]


async def test_an_output_before_the_tool_answers_in_its_place_and_is_seen_by_after_tool() -> None:
    ran: list[int] = []

    @tool
    def count() -> int:
        """Count."""
        ran.append(1)
        return len(ran)

    class Cached(Log):
        async def before_tool(self, at: HookContext[Any], call: ToolCall) -> ToolOutput | None:
            return ToolOutput(content="cached")

    log, last = Cached(), Log("2 ")
    agent = Agent(
        model=ScriptedModel([Call("count"), "end"]),
        name="a",
        instructions="x",
        tools=[count],
        hooks=[log, last],
    )
    result = await agent.run("Go.")
    assert ran == []
    assert results(result.messages) == [("cached", False)]
    assert "2 a 0 after_tool count False" in last.log
    assert not any("before_tool" in line for line in last.log)


async def test_after_tool_hears_of_errors_and_of_declined_calls_too() -> None:
    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    class Softens(Log):
        async def after_tool(self, at: Any, call: ToolCall, output: ToolOutput) -> ToolOutput:
            await super().after_tool(at, call, output)
            return ToolOutput(content=f"{call.name} did not work") if output.is_error else output

    log = Softens()
    model = ScriptedModel([[Call("fail"), Call("nothing"), Call("pay")], "end"])
    agent = Agent(model=model, name="a", instructions="x", tools=[fail, pay], hooks=[log])
    with pytest.raises(ApprovalRequired) as caught:
        await agent.run("Go.")
    paused = caught.value.paused
    assert sorted(line for line in log.log if "_tool" in line) == [
        "a 0 after_tool fail True",
        "a 0 after_tool nothing True",
        "a 0 before_tool fail",
        "a 0 before_tool nothing",
    ]
    log.log.clear()
    result = await agent.resume(paused, {paused.pending[0].id: Deny("no")})
    assert [line for line in log.log if "_tool" in line] == ["a 0 after_tool pay True"]
    assert results(result.messages) == [
        ("fail did not work", False),
        ("nothing did not work", False),
        ("pay did not work", False),
    ]


async def test_before_tool_sees_the_arguments_that_run_after_a_person_has_changed_them() -> None:
    @tool(requires_approval=True)
    def pay(usd: int) -> str:
        """Pay."""
        return f"paid {usd}"

    seen: list[str] = []

    class Sees(Hooks):
        async def before_tool(self, at: HookContext[Any], call: ToolCall) -> ToolOutput | None:
            seen.append(call.arguments)
            return None

    model = ScriptedModel([Call("pay", {"usd": 9}), "end"])
    agent = Agent(model=model, instructions="x", tools=[pay], hooks=[Sees()])
    with pytest.raises(ApprovalRequired) as caught:
        await agent.run("Go.")
    paused = caught.value.paused
    await agent.resume(paused, {paused.pending[0].id: Approve('{"usd":1}')})
    assert seen == ['{"usd":1}']


async def test_input_that_is_blocked_is_neither_sent_nor_kept() -> None:
    class Guard(Hooks):
        async def guard_input(self, at: HookContext[Any], prompt: UserMessage) -> None:
            assert not at.context.messages
            raise Blocked("no secrets here")

    model, journal = ScriptedModel([]), MemoryJournal()
    agent = Agent(model=model, instructions="x", hooks=[Guard()], journal=journal)
    with pytest.raises(Blocked, match="no secrets") as caught:
        await agent.run("secret", run_id="r")
    assert model.calls == ()
    assert await journal.load("r") == ()
    assert caught.value.partial is not None
    assert not caught.value.partial.messages


async def test_an_answer_that_a_guard_wants_otherwise_is_asked_for_again() -> None:
    class Guard(Hooks):
        async def guard_output(self, at: HookContext[Any], output: str) -> None:
            if "!" in output:
                raise Retry("do not shout")

    model = ScriptedModel(["Hi!", "Hi."])
    result = await Agent(model=model, instructions="x", hooks=[Guard()]).run("Greet.")
    assert result.output == "Hi."
    asked = result.messages[-2]
    assert isinstance(asked, UserMessage)
    assert asked.text == "Your answer is not accepted: do not shout\nAnswer again."
    assert_prefix_stable(model)

    loud = Agent(model=ScriptedModel(["A!", "B!", "C!"]), instructions="x", hooks=[Guard()])
    with pytest.raises(OutputError, match="after 2 corrections: do not shout"):
        await loud.run("Greet.")


async def test_an_answer_that_is_blocked_ends_the_run_and_is_no_part_of_its_context() -> None:
    class Guard(Hooks):
        async def guard_output(self, at: HookContext[Any], output: str) -> None:
            raise Blocked(f"not {output!r}")

    agent = Agent(model=ScriptedModel(["the key is 1"]), instructions="x", hooks=[Guard()])
    with pytest.raises(Blocked) as caught:
        await agent.run("Key?")
    assert caught.value.partial is not None
    assert [message.kind for message in caught.value.partial.context.messages] == ["user"]
    assert len(caught.value.partial.requests) == 1


class Watch(Hooks):
    """Decides when it is told to."""

    def __init__(self, *, blocks: bool) -> None:
        self.blocks = blocks
        self.go = asyncio.Event()
        self.seen: list[str] = []
        self.was_cancelled = False

    async def watch_input(self, at: HookContext[Any], prompt: UserMessage) -> None:
        self.seen.append(prompt.text)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if self.blocks:
            raise Blocked("bad")


class BreaksOff(ScriptedModel):
    """Fails in the middle of an answer where its script has a failure."""

    async def stream(self, request: ModelRequest) -> Any:
        yield TextDelta("Well")
        await asyncio.sleep(0)
        async for event in super().stream(request):
            yield event


async def test_a_guard_beside_the_model_cuts_its_answer_off() -> None:
    guard = Watch(blocks=True)
    closed = asyncio.Event()

    class Endless(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            try:
                while True:
                    yield TextDelta("on and ")
                    await asyncio.sleep(0)
            finally:
                closed.set()

    stream = Agent(model=Endless([]), instructions="x", hooks=[guard]).stream("Talk.")
    n_deltas = 0

    async def read() -> None:
        nonlocal n_deltas
        async for _ in stream:
            n_deltas += 1
            if n_deltas == 5:
                guard.go.set()

    with pytest.raises(Blocked) as caught:
        await read()
    assert 5 <= n_deltas < 20
    assert closed.is_set()
    assert caught.value.partial is not None
    assert [message.kind for message in caught.value.partial.context.messages] == ["user"]


async def test_nothing_is_done_before_the_guard_beside_the_model_has_passed() -> None:
    guard, ran = Watch(blocks=False), asyncio.Event()

    @tool
    def act() -> str:
        """Act."""
        ran.set()
        return "acted"

    model = ScriptedModel([Call("act"), "end"])
    agent = Agent(model=model, instructions="x", tools=[act], hooks=[guard])
    task = asyncio.create_task(agent.run("Go."))
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(model.calls) == 1
    assert not ran.is_set()
    guard.go.set()
    assert (await task).output == "end"
    assert guard.seen == ["Go."]


async def test_a_guard_that_still_watches_ends_with_the_run() -> None:
    guard = Watch(blocks=True)
    agent = Agent(model=BreaksOff([ModelError("no")]), instructions="x", hooks=[guard])
    with pytest.raises(ModelError):
        await agent.run("Go.")
    assert guard.was_cancelled
    assert len(asyncio.all_tasks()) == 1


async def test_a_guard_that_watched_the_first_answer_is_not_asked_again_on_resume() -> None:
    guard = Watch(blocks=False)
    guard.go.set()
    script: list[Any] = [Call("add", {"a": 1, "b": 1}), ModelError("broken"), "2"]
    agent = Agent(
        model=ScriptedModel(script),
        instructions="x",
        tools=[add],
        hooks=[guard],
        journal=MemoryJournal(),
    )
    with pytest.raises(ModelError):
        await agent.run("Go.", run_id="r")
    assert (await agent.resume("r")).output == "2"
    assert guard.seen == ["Go."]


async def test_a_guard_beside_the_model_is_asked_again_if_its_run_broke_off_before_it_passed() -> (
    None
):
    guard = Watch(blocks=False)
    agent = Agent(
        model=BreaksOff([ModelError("broken"), "2"]),
        instructions="x",
        hooks=[guard],
        journal=MemoryJournal(),
    )
    with pytest.raises(ModelError):
        await agent.run("Go.", run_id="r")
    guard.go.set()
    assert (await agent.resume("r")).output == "Well2"
    assert guard.seen == ["Go.", "Go."]


async def test_what_hooks_said_before_a_request_is_kept_and_said_once_over_a_resume() -> None:
    """Another process must send the same bytes: the provider has them in its cache."""
    n_said = itertools.count(1)

    class Says(Hooks):
        async def before_turn(self, at: HookContext[Any]) -> str | None:
            return f"Said {next(n_said)} times."

    script: list[Any] = [
        Call("add", {"a": 1, "b": 1}),
        ModelError("broken"),
        Call("add", {"a": 2, "b": 1}),
    ]
    model = ScriptedModel([*script, "2"])
    journal = MemoryJournal()

    def agent() -> Agent[Any, Any]:
        return Agent(
            model=model, name="a", instructions="x", tools=[add], hooks=[Says()], journal=journal
        )

    with pytest.raises(ModelError):
        await agent().run("Go.", run_id="r")
    result = await agent().resume("r")
    assert model.calls[1].wire == model.calls[2].wire
    assert_prefix_stable(model)
    said = [message.text for message in result.messages if isinstance(message, UserMessage)]
    assert said == ["Go.", "Said 1 times.", "Said 2 times.", "Said 3 times."]


async def test_a_new_run_of_the_same_conversation_asks_its_hooks_anew() -> None:
    class Says(Hooks):
        async def before_turn(self, at: HookContext[Any]) -> str | None:
            return f"turn {at.turn}"

    agent = Agent(model=ScriptedModel(["a", "b"]), instructions="x", hooks=[Says()])
    first = await agent.run("One.")
    second = await agent.run("Two.", context=first.context)
    said = [message.text for message in second.context.messages if message.kind == "user"]
    assert said == ["One.", "turn 0", "Two.", "turn 0"]


async def test_where_one_hook_fails_nothing_of_the_others_is_appended() -> None:
    class Says(Hooks):
        async def before_turn(self, at: HookContext[Any]) -> str | None:
            return "hello"

    class Fails(Hooks):
        async def before_turn(self, at: HookContext[Any]) -> str | None:
            raise RuntimeError("mine")

    agent = Agent(model=ScriptedModel([]), instructions="x", hooks=[Says(), Fails()])
    stream = agent.stream("Go.")
    with pytest.raises(RuntimeError, match="mine"):
        async for _ in stream:
            pass
    assert stream.context is not None
    assert [message.kind for message in stream.context.messages] == ["user"]


@pytest.mark.parametrize("where", ["before_model", "after_model", "before_tool", "after_tool"])
async def test_whatever_fails_in_a_hook_the_context_can_be_continued(where: str) -> None:
    class Fails(Hooks):
        pass

    async def fails(*args: Any) -> Any:
        raise RuntimeError(where)

    setattr(Fails, where, fails)
    model = ScriptedModel([[Call("add", {"a": 1, "b": 2}), Call("add", {"a": 3, "b": 4})]] * 2)
    stream = Agent(
        model=model, name="a", instructions="x", tools=[add], hooks=[Fails()], limits=Limits(usd=9)
    ).stream("Go.")
    with pytest.raises(RuntimeError, match=where):
        async for _ in stream:
            pass
    assert stream.context is not None
    assert not stream.context.open_calls
    after = Agent(model=ScriptedModel(["fine"]), name="a", instructions="x", tools=[add])
    assert (await after.run("Again.", context=stream.context)).output == "fine"


async def test_hooks_of_a_subagent_are_its_own_and_those_of_the_whole_team_come_first() -> None:
    log: list[str] = []

    class Audit(Log):
        whole_team = True

    model = ScriptedModel(
        {"boss": [Call("delegate_to_helper", {"task": "Help."}), "End."], "helper": ["Helped."]}
    )
    helper = Agent(model=model, name="helper", instructions="x", hooks=[Log("own ", log)])
    boss = Agent(
        model=model,
        name="boss",
        instructions="x",
        subagents=[helper],
        hooks=[Log("boss ", log), Audit("audit ", log)],
    )
    await boss.run("Go.")
    below = [line for line in log if "helper 0 guard_input" in line]
    assert below == ["audit helper 0 guard_input Help.", "own helper 0 guard_input Help."]
    assert not any(line.startswith("boss helper") for line in log)


async def test_input_that_a_subagents_guard_blocks_is_a_result_for_the_run_above() -> None:
    class Guard(Hooks):
        async def guard_input(self, at: HookContext[Any], prompt: UserMessage) -> None:
            raise Blocked("not my job")

    model = ScriptedModel({"boss": [Call("delegate_to_helper", {"task": "Help."}), "End."]})
    helper = Agent(model=model, name="helper", instructions="x", hooks=[Guard()])
    boss = Agent(model=model, name="boss", instructions="x", subagents=[helper])
    result = await boss.run("Go.")
    assert results(result.messages) == [("The agent 'helper' failed: Blocked: not my job", True)]


@pytest.mark.parametrize(
    ("where", "answer", "message"),
    [
        ("before_turn", 7, "before_turn must return a text or None, got 7"),
        ("before_tool", "no", "before_tool must return a ToolOutput or None, got 'no'"),
        ("after_tool", None, "after_tool must return a ToolOutput, as a rule `output` itself"),
    ],
)
async def test_a_hook_that_returns_something_else_is_told_what_to_return(
    where: str, answer: Any, message: str
) -> None:
    class Wrong(Hooks):
        pass

    async def wrong(*args: Any) -> Any:
        return answer

    setattr(Wrong, where, wrong)
    model = ScriptedModel([Call("add", {"a": 1, "b": 2}), "3"])
    agent = Agent(model=model, instructions="x", tools=[add], hooks=[Wrong()])
    with pytest.raises(ConfigurationError, match=f"Wrong.{message}"):
        await agent.run("Go.")


async def test_hooks_see_what_is_left_of_the_limits() -> None:
    seen: list[Any] = []

    class Sees(Hooks):
        async def before_turn(self, at: HookContext[Any]) -> str | None:
            seen.append(at.limits[0].left)
            return None

    model = ScriptedModel([Call("add", {"a": 1, "b": 2}), "3"])
    agent = Agent(model=model, instructions="x", tools=[add], hooks=[Sees()])
    await agent.run("Go.", limits=Limits(turns=5))
    assert seen == [5, 4]


async def test_a_guard_that_watches_a_resumed_run_sees_the_prompt_and_not_what_hooks_said() -> None:
    watched: list[str] = []

    class House(Hooks):
        async def watch_input(self, at: HookContext[Any], prompt: UserMessage) -> None:
            watched.append(prompt.text)
            if "password" in prompt.text:
                raise Blocked("no")

        async def before_turn(self, at: HookContext[Any]) -> str:
            return "Be brief."

    journal = MemoryJournal()
    model = ScriptedModel([ModelError("overloaded"), *["It is 1234."] * 9])
    house = House()
    agent = Agent(name="a", instructions="i", model=model, hooks=[house], journal=journal)
    for prompt, problem in (("Hello?", ModelError), ("The password?", Blocked)):
        with pytest.raises(problem):
            await agent.run(prompt, run_id=prompt)
    with pytest.raises(Blocked):
        await agent.resume("The password?")
    result = await agent.resume("Hello?")
    assert result.output == "It is 1234."
    assert watched[-1] == "Hello?"  # the first time, the model may fail before the guard is asked
    assert set(watched) == {"Hello?", "The password?"}
