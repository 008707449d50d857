"""`fan_out` as part of a run: limits, people's answers, crashes; and forks of a conversation."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from agentkit import (
    Agent,
    ApprovalRequired,
    Approve,
    ConfigurationError,
    ContextMismatch,
    Deny,
    LimitReached,
    Limits,
    ModelError,
    PausedRun,
    Task,
    ToolContext,
    fan_out,
    subagent,
    tool,
)
from agentkit.blocks import ToolMessage, UserMessage
from agentkit.events import ModelEvent
from agentkit.models import ModelRequest
from agentkit.team import Failed, Ok
from agentkit.testing import Call, ScriptedModel, Step, assert_extends, assert_prefix_stable
from tests.agentkit.team.diary import Diary


class Clerk(Agent):
    """You send letters."""

    @tool(requires_approval=lambda arguments, _: arguments["to"] == "the king", idempotent=True)
    def send(self, to: str) -> str:
        """Send a letter."""
        return f"sent to {to}"


class Office(Agent):
    """You have letters sent."""

    subagents = (Clerk,)

    @tool(idempotent=True)  # after a crash it may be run again: what is done below is not
    async def send_all(self, people: list[str], context: ToolContext[None]) -> list[str]:
        """Send letters."""
        done = await fan_out(self, [(Clerk, f"Write to {who}") for who in people], within=context)
        return [f"{each.task}: {each.kind}" for each in done.outcomes]


PEOPLE = ["Ann", "the king", "the devil", "Bob"]
ENDS = '["Write to Ann: ok","Write to the king: ok","Write to the devil: failed",'
ENDS += '"Write to Bob: ok"]'


def by_task(request: ModelRequest) -> Step:
    messages = request.context.messages
    if request.agent == "office":
        return "Done." if len(messages) > 2 else Call("send_all", {"people": [*PEOPLE]})
    first = messages[0]
    assert isinstance(first, UserMessage)
    who = first.text.removeprefix("Write to ")
    if who == "the devil":
        raise ModelError("no such address")
    return "It is sent." if len(messages) > 2 else Call("send", {"to": who})


def asked(model: ScriptedModel) -> Counter[str]:
    """How often each clerk's model was asked, by task."""
    firsts = (call.request.context.messages[0] for call in model.calls_of("clerk"))
    return Counter(first.text for first in firsts if isinstance(first, UserMessage))


async def paused(**given: Any) -> tuple[PausedRun, ScriptedModel]:
    model = ScriptedModel(by_task)
    with pytest.raises(ApprovalRequired) as caught:
        await Office(model=model, **given).run("Write to all", run_id="r")
    return caught.value.paused, model


async def test_one_who_waits_for_a_person_lets_the_others_finish_and_is_resumed_alone() -> None:
    waiting, before = await paused()
    (call,) = waiting.pending
    assert (call.path, call.call.arguments) == (("office", "clerk[1]"), '{"to": "the king"}')
    assert asked(before)["Write to Bob"] == 2

    model = ScriptedModel(by_task)
    result = await Office(model=model).resume(
        PausedRun.from_json(waiting.to_json()), {call.id: Approve()}
    )
    assert result.output == "Done."
    told = result.messages[2]
    assert isinstance(told, ToolMessage)
    assert told.results[0].content == ENDS
    assert asked(model) == {"Write to the king": 1}
    assert [child.kind for child in result.children].count("ok") == 3
    assert len(result.requests) == 1 + 2 + 2 + 1 + 2 + 1


async def test_a_person_who_says_no_is_told_to_the_one_who_asked() -> None:
    waiting, _ = await paused()
    model = ScriptedModel(by_task)
    result = await Office(model=model).resume(waiting, {waiting.pending[0].id: Deny("Not him.")})

    (king,) = [child for child in result.children if isinstance(child, Ok) and "king" in child.task]
    answers = [message for message in king.result.messages if isinstance(message, ToolMessage)]
    assert "did not agree" in answers[0].results[0].content


class Once(Office):
    """You have letters sent, and say nothing of doing it twice."""

    name = "office"

    @tool
    async def send_all(self, people: list[str], context: ToolContext[None]) -> list[str]:
        """Send letters."""
        done = await fan_out(self, [(Clerk, f"Write to {who}") for who in people], within=context)
        return [f"{each.task}: {each.kind}" for each in done.outcomes]


async def test_a_tool_that_has_waited_is_called_again_and_one_that_was_cut_off_is_not() -> None:
    diary = Diary()
    with pytest.raises(ApprovalRequired) as caught:
        await Once(model=ScriptedModel(by_task), journal=diary).run("Write", run_id="r")
    waiting = caught.value.paused
    told = []
    cut_off = next(runs for runs in diary.states if len(runs) > 3)
    for runs, answers in ((waiting.runs, {waiting.pending[0].id: Approve()}), (cut_off, {})):
        agent = Once(model=ScriptedModel(by_task))
        result = await agent.resume(PausedRun(runs=runs), answers)
        message = result.messages[2]
        assert isinstance(message, ToolMessage)
        told.append(message.results[0].content)
    assert told[0] == ENDS
    assert "the process that ran it ended" in told[1]


async def test_after_a_crash_at_any_step_finished_tasks_are_not_run_again() -> None:
    diary = Diary()
    await paused(journal=diary)
    assert len(diary.states) > 10
    for runs in diary.states:
        ended = [run.prompt for run in runs if run.parent and run.status in ("done", "failed")]
        model = ScriptedModel(by_task)
        state = PausedRun(runs=runs)
        try:
            await Office(model=model).resume(state)
        except ApprovalRequired as waits:
            state = waits.paused
        assert not set(ended) & set(asked(model))
        result = await Office(model=model).resume(state, {state.pending[0].id: Approve()})
        told = result.messages[2]
        assert isinstance(told, ToolMessage)
        assert told.results[0].content == ENDS


class Cold(ScriptedModel):
    """A model whose answers begin late; knows how many requests were under way before that."""

    def __init__(self) -> None:
        super().__init__(by_task, siblings_start_together=False)
        self.most_cold = self._n_cold = 0
        self._is_warm = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if request.agent == "clerk" and not self._is_warm:
            self._n_cold += 1
            self.most_cold = max(self.most_cold, self._n_cold)
            for _ in range(20):
                await asyncio.sleep(0)
            self._is_warm = True
        async for event in super().stream(request):
            yield event


async def test_after_a_crash_one_of_those_that_are_left_goes_ahead_of_the_others() -> None:
    office, ann, *_ = (await paused())[0].runs
    assert ann.status == "done"
    model = Cold()
    with pytest.raises(ApprovalRequired):
        await Office(model=model).resume(PausedRun(runs=(office, ann)))
    assert model.most_cold == 1
    assert len(asked(model)) == 3


async def test_outside_a_run_nobody_can_wait_for_a_person() -> None:
    done = await fan_out(Office(model=ScriptedModel(by_task)), [(Clerk, f"Write to {PEOPLE[1]}")])

    (failed,) = done.outcomes
    assert isinstance(failed, Failed)
    assert "the calls ['send'] wait for a person" in str(failed.error)
    assert failed.record.context.open_calls == ()


async def test_all_tasks_together_keep_to_the_limits() -> None:
    tasks = [(Clerk, f"Write to {number}") for number in range(10)]
    model = ScriptedModel(by_task)
    done = await fan_out(Office(model=model), tasks, limits=Limits(turns=7), max_parallel=2)

    assert len(model.calls) == 7
    assert 0 < len(done.ok) < 10
    assert {type(failed.error) for failed in done.failed} == {LimitReached}
    done = await fan_out(Office(model=model, limits=Limits(turns=3)), tasks)
    assert len(done.requests) == 3


class Critic(Agent):
    """You find what is wrong."""


class Author(Agent):
    """You write."""

    rules = "Be brief."
    subagents = (subagent(Critic, context="fork"), Clerk)

    @tool
    async def ask_critics(self, context: ToolContext[None]) -> str:
        """Ask."""
        tasks = [
            Task(agent=Critic, prompt="Is it true?"),
            Task(agent=Critic, prompt="Is it new?", context="fresh"),
            Task(agent=Clerk, prompt="Who knows it?", context="fork"),
        ]
        done = await fan_out(self, tasks, within=context)
        return " ".join(str(outcome.output) for outcome in done.ok)


def critics(request: ModelRequest) -> Step:
    if request.agent != "author":
        return "Yes."
    return "Done." if len(request.context.messages) > 2 else Call("ask_critics")


async def test_a_task_may_say_itself_whether_it_begins_from_the_conversation() -> None:
    model = ScriptedModel(critics)
    result = await Author(model=model).run("My text: brass is an alloy.")

    parent, *children = [call.request for call in model.calls[:4]]
    by_prompt = {child.context.messages[-1]: child for child in children}
    prompts = ("Is it true?", "Is it new?", "Who knows it?")
    true, new, who = (by_prompt[UserMessage.of(prompt)] for prompt in prompts)
    for forked, role in ((true, "You find what is wrong."), (who, "You send letters.")):
        assert_extends(parent.wire, forked.wire)
        question, told, _ = forked.context.messages
        assert isinstance(told, UserMessage)
        assert role in told.text
        assert question == parent.context.messages[0]
    assert not new.context.starts_with(parent.context)
    assert who.allowed_tools == {"send"}
    assert_prefix_stable(model.calls)
    by_path = {record.path[-1]: record.usage for record in result.requests if len(record.path) > 1}
    fork, fresh = by_path["critic[0]"], by_path["critic[1]"]
    assert (fork.cache_read_tokens or 0) > (fresh.cache_read_tokens or 0)
    said = [len(child.result.messages) for child in result.children if isinstance(child, Ok)]
    assert sorted(said) == [2, 3, 3]  # what the parent said is not theirs


async def test_a_fork_that_was_begun_is_gone_on_with_elsewhere() -> None:
    def script(request: ModelRequest) -> Step:
        if request.agent == "author":
            last = request.context.messages[-1]
            return Call("delegate_to_clerk", {"task": "Go"}) if last.kind == "user" else "Done."
        return (
            "It is sent."
            if request.context.messages[-1].kind == "tool"
            else Call("send", {"to": "the king"})
        )

    forking = [subagent(Clerk, context="fork")]
    first = ScriptedModel(script)
    with pytest.raises(ApprovalRequired) as caught:
        await Author(model=first, subagents=forking).run("Text")
    waiting = PausedRun.from_json(caught.value.paused.to_json())
    model = ScriptedModel(script)
    result = await Author(model=model, subagents=forking).resume(
        waiting, {waiting.pending[0].id: Approve()}
    )

    assert result.output == "Done."
    assert_extends(first.calls_of("clerk")[-1].wire, model.calls_of("clerk")[0].wire)
    (child,) = result.children
    assert child.kind == "ok"


async def test_outside_a_run_tasks_fork_a_given_conversation() -> None:
    model = ScriptedModel(lambda _: "Yes.")
    author = Author(model=model)
    context = (await author.run("Brass is an alloy.")).context
    await fan_out(author, [(Critic, "True?"), (Clerk, "Whose?")], context=context)

    assert model.calls[1].request.context.starts_with(context)
    assert not model.calls[2].request.context.starts_with(context)
    with pytest.raises(ConfigurationError, match="begins from a conversation of its parent"):
        await fan_out(author, [(Critic, "True?")])
    with pytest.raises(ContextMismatch):
        await fan_out(Author(model=model, rules="Other."), [(Critic, "x")], context=context)


async def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigurationError, match='context must be "fresh" or "fork", got 3'):
        subagent(Critic, context=3)  # type: ignore[arg-type]
    author = Author(model=ScriptedModel([]))
    wrong = Task(agent=Clerk, prompt="x", context="half")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="got 'half'"):
        await fan_out(author, [wrong])
    within: Any = ToolContext(deps=None, agent="author", run_id="r", call_id="c")
    with pytest.raises(ConfigurationError, match="leave them out"):
        await fan_out(author, [], within=within, limits=Limits(turns=1))
