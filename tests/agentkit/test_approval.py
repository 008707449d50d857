"""Calls that wait for a person: what pauses, what goes on, and what is never done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentkit import (
    Agent,
    Answered,
    ApprovalRequired,
    Approve,
    ConfigurationError,
    Deny,
    JournalError,
    MemoryJournal,
    PausedRun,
    ToolContext,
    fan_out,
    tool,
)
from agentkit.blocks import ToolCall, ToolMessage
from agentkit.events import RunPaused, SubagentEvent, ToolResultEvent
from agentkit.result import Ok
from agentkit.testing import Call, ScriptedModel, Step, assert_prefix_stable
from tests.agentkit.clerks import Log, SameIds, results_of


def clerk(log: Log, *script: Step, **more: Any) -> Agent[Any, Any]:
    return Agent(model=ScriptedModel(list(script)), name="clerk", tools=log.tools, **more)


async def paused_by(agent: Agent[Any, Any], prompt: str = "Go.") -> PausedRun:
    with pytest.raises(ApprovalRequired) as caught:
        await agent.run(prompt)
    return caught.value.paused


async def test_a_call_that_needs_approval_pauses_the_run_and_runs_when_it_is_approved() -> None:
    log = Log()
    agent = clerk(log, Call("pay", {"to": "Ada", "eur": 5}), "Paid.")
    paused = await paused_by(agent)
    assert log.done == []
    (pending,) = paused.pending
    assert (pending.call.name, pending.call.arguments) == ("pay", '{"to": "Ada", "eur": 5}')
    assert pending.path == ("clerk",)
    assert pending.run_id == paused.run_id

    result = await agent.resume(paused, {pending.id: Approve()})
    assert result.output == "Paid."
    assert result.run_id == paused.run_id
    assert log.done == ["pay Ada 5"]
    assert results_of(result) == [["paid 5 to Ada"]]
    assert isinstance(agent.model, ScriptedModel)
    assert_prefix_stable(agent.model.calls)


async def test_the_pause_goes_to_another_process_as_json() -> None:
    log, model = Log(), ScriptedModel([Call("pay", {"to": "Ada", "eur": 5}), "Paid."])
    text = (await paused_by(Agent(model=model, name="clerk", tools=log.tools))).to_json()

    paused = PausedRun.from_json(text)
    there = Agent(model=model, name="clerk", tools=log.tools)
    result = await there.resume(paused, {paused.pending[0].call.id: Approve()})
    assert result.output == "Paid."
    assert log.done == ["pay Ada 5"]
    assert_prefix_stable(model.calls)


@pytest.mark.parametrize(
    ("answer", "told", "is_error"),
    [
        (Deny("Too much."), "A person did not agree to this call. Too much.", True),
        (Deny(), "A person did not agree to this call.", True),
        (Answered("done by hand"), "done by hand", False),
        (Answered("no such account", is_error=True), "no such account", True),
    ],
)
async def test_a_call_that_is_not_run_has_the_persons_words_as_its_result(
    answer: Deny | Answered, told: str, is_error: bool
) -> None:
    log = Log()
    agent = clerk(log, Call("pay", {"to": "Ada", "eur": 5}), "Well.")
    paused = await paused_by(agent)
    result = await agent.resume(paused, {paused.pending[0].id: answer})
    assert log.done == []
    message = result.messages[2]
    assert isinstance(message, ToolMessage)
    assert [(each.content, each.is_error) for each in message.results] == [(told, is_error)]


async def test_arguments_that_a_person_has_changed_are_run_and_the_model_is_told() -> None:
    log = Log()
    agent = clerk(log, Call("pay", {"to": "Ada", "eur": 5}), "Paid.")
    paused = await paused_by(agent)
    answer = Approve(arguments='{"to": "Ada", "eur": 4}')
    result = await agent.resume(paused, {paused.pending[0].id: answer})
    assert log.done == ["pay Ada 4"]
    (content,) = results_of(result)[0]
    assert content.startswith('(A person has changed the arguments to {"to": "Ada", "eur": 4})')
    assert "paid 4 to Ada" in content
    # What the model wrote stands as it wrote it.
    assert result.messages[1].calls[0].arguments == '{"to": "Ada", "eur": 5}'  # type: ignore[union-attr]


async def test_changed_arguments_that_do_not_fit_are_an_error_result_and_nothing_is_run() -> None:
    log = Log()
    agent = clerk(log, Call("pay", {"to": "Ada", "eur": 5}), "Well.")
    paused = await paused_by(agent)
    answer = Approve(arguments='{"to": "Ada", "eur": "many"}')
    result = await agent.resume(paused, {paused.pending[0].id: answer})
    assert log.done == []
    assert result.messages[2].results[0].is_error  # type: ignore[union-attr]


@pytest.mark.parametrize("arguments", ["", "{", "[1]", "null", 3])
def test_changed_arguments_are_the_text_of_a_json_object(arguments: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a dict or the JSON text of an object"):
        Approve(arguments=arguments)


@pytest.mark.parametrize("arguments", ["{", "[]", '{"to":'])
async def test_nobody_is_asked_about_a_call_that_cannot_run(arguments: str) -> None:
    log = Log()
    result = await clerk(log, Call("pay", arguments), "Well.").run("Go.")
    assert result.output == "Well."
    assert "not usable" in results_of(result)[0][0]


async def test_nobody_is_asked_about_a_call_that_is_not_allowed_now() -> None:
    log = Log()

    class Reader(Agent[None, str]):
        name = "clerk"

        def allowed_tools(self, turn: int) -> frozenset[str]:
            return frozenset({"look"})

    model = ScriptedModel([Call("pay", {"to": "Ada", "eur": 5}), "Well."])
    result = await Reader(model=model, tools=log.tools).run("Go.")
    assert "may not be called now" in results_of(result)[0][0]


async def test_a_predicate_decides_by_the_arguments() -> None:
    log = Log()
    agent = clerk(log, Call("refund", {"eur": 5}), Call("refund", {"eur": 500}), "Refunded.")
    paused = await paused_by(agent)
    assert log.done == ["refund 5"]
    assert [each.call.arguments for each in paused.pending] == ['{"eur": 500}']
    result = await agent.resume(paused, {paused.pending[0].id: Approve()})
    assert log.done == ["refund 5", "refund 500"]
    assert result.output == "Refunded."


async def test_a_predicate_that_fails_has_a_person_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Log()
    paused = await paused_by(clerk(log, Call("refund", {"eur": "x"}), "Never said."))
    assert len(paused.pending) == 1
    assert "requires_approval of 'refund' failed" in caplog.text


async def test_an_agent_may_answer_by_itself_without_a_pause() -> None:
    log = Log()

    class Trusting(Agent[None, str]):
        name = "clerk"

        async def approve(self, call: ToolCall, context: ToolContext[Any]) -> Any:
            return Approve() if '"eur": 5' in call.arguments else Deny("Too much.")

    model = ScriptedModel(
        [[Call("pay", {"to": "Ada", "eur": 5}), Call("pay", {"to": "Bob", "eur": 9})], "Done."]
    )
    result = await Trusting(model=model, tools=log.tools).run("Go.")
    assert log.done == ["pay Ada 5"]
    assert results_of(result)[0][1] == "A person did not agree to this call. Too much."


async def test_an_answer_of_an_agent_that_is_none_ends_the_run_with_a_clear_error() -> None:
    class Careless(Agent[None, str]):
        name = "clerk"

        async def approve(self, call: ToolCall, context: ToolContext[Any]) -> Any:
            return True

    model = ScriptedModel([Call("pay", {"to": "Ada", "eur": 5})])
    with pytest.raises(ConfigurationError, match=r"must be Approve\(\), Deny.*got True"):
        await Careless(model=model, tools=Log().tools).run("Go.")


async def test_of_several_calls_those_without_an_answer_wait_on_and_the_others_run_once() -> None:
    log = Log()
    turn = [
        Call("pay", {"to": "Ada", "eur": 1}),
        Call("look"),
        Call("pay", {"to": "Bob", "eur": 2}),
        Call("pay", {"to": "Eve", "eur": 3}),
    ]
    agent = clerk(log, turn, "All done.")
    first = await paused_by(agent)
    assert log.done == ["look"]
    ada, bob, eve = first.pending

    with pytest.raises(ApprovalRequired) as caught:
        await agent.resume(first, {bob.id: Approve()})
    second = caught.value.paused
    assert log.done == ["look", "pay Bob 2"]
    assert [each.id for each in second.pending] == [ada.id, eve.id]

    result = await agent.resume(second, {eve.id: Deny(), ada.id: Approve()})
    assert log.done == ["look", "pay Bob 2", "pay Ada 1"]
    assert results_of(result) == [
        ["paid 1 to Ada", "seen", "paid 2 to Bob", "A person did not agree to this call."]
    ]
    assert isinstance(agent.model, ScriptedModel)
    assert len(agent.model.calls) == 2


async def test_an_answer_is_for_one_call_and_not_for_later_ones_with_the_same_id() -> None:
    log = Log()

    def same_ids(request: Any) -> Step:
        return Call("pay", {"to": "Ada", "eur": len(request.context.messages)})

    model = SameIds([same_ids, same_ids, "Done."])
    agent: Agent[Any, Any] = Agent(model=model, name="clerk", tools=log.tools)
    first = await paused_by(agent)
    with pytest.raises(ApprovalRequired) as caught:
        await agent.resume(first, {first.pending[0].id: Approve()})
    second = caught.value.paused
    assert first.pending[0].call.id == second.pending[0].call.id
    assert log.done == ["pay Ada 1"]
    for key in (first.pending[0].id, "call_2"):
        with pytest.raises(ConfigurationError, match=r"no pending call|answered before"):
            await agent.resume(second, {key: Approve()})
    for key in ("call_0", f"{second.run_id}:call_0"):
        with pytest.raises(ConfigurationError, match=r"several calls|answered before"):
            await agent.resume(second, {key: Approve()})
    await agent.resume(second, {second.pending[0].id: Deny()})
    assert log.done == ["pay Ada 1"]


async def test_a_click_that_is_delivered_twice_does_not_approve_the_next_call() -> None:
    log, journal = Log(), MemoryJournal()
    model = SameIds(
        [Call("pay", {"to": "Ada", "eur": 20}), Call("pay", {"to": "Eve", "eur": 9999}), "Done."]
    )
    agent: Agent[Any, Any] = Agent(model=model, name="clerk", tools=log.tools, journal=journal)
    click = {(await paused_by(agent)).pending[0].id: Approve()}
    (run_id,) = {key.split(":")[0] for key in click}
    with pytest.raises(ApprovalRequired):
        await agent.resume(run_id, click)
    with pytest.raises(ConfigurationError, match=r"no pending call|answered before"):
        await agent.resume(run_id, click)
    assert log.done == ["pay Ada 20"]


@pytest.mark.parametrize("form", ["call_0", "{run_id}:call_0"])
async def test_a_short_form_of_an_answers_id_will_do_where_it_is_clear(form: str) -> None:
    log = Log()
    agent: Agent[Any, Any] = Agent(
        model=SameIds([Call("pay", {"to": "Ada", "eur": 1}), "Done."]),
        name="clerk",
        tools=log.tools,
    )
    paused = await paused_by(agent)
    await agent.resume(paused, {form.format(run_id=paused.run_id): Approve()})
    assert log.done == ["pay Ada 1"]


@pytest.mark.parametrize(
    "made",
    [
        lambda: Answered({"a": 1}),  # type: ignore[arg-type]
        lambda: Answered(b"x"),  # type: ignore[arg-type]
        lambda: Answered("x", is_error="no"),  # type: ignore[arg-type]
        lambda: Deny(None),  # type: ignore[arg-type]
        lambda: Approve('{"usd": "\ud800"}'),
    ],
)
def test_an_answer_that_could_not_be_kept_is_refused_where_it_is_made(
    made: Callable[[], object],
) -> None:
    with pytest.raises(ConfigurationError, match=r"Answered\(|Deny\(|Approve\("):
        made()


async def test_half_a_character_in_an_answer_does_not_keep_the_run_from_being_kept() -> None:
    for answer in (Deny("No\ud800"), Answered("Paid\ud800")):
        log = Log()
        agent: Agent[Any, Any] = Agent(
            model=SameIds([Call("pay", {"to": "Ada", "eur": 1}), "Done."]),
            name="clerk",
            tools=log.tools,
        )
        paused = await paused_by(agent)
        result = await agent.resume(paused, {paused.pending[0].id: answer})
        assert "\\ud800" in results_of(result)[0][0]
        result.to_json().encode()


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ({"nobody": Approve()}, "the answer for 'nobody' fits no pending call; those that wait"),
        ({"call": True}, r"must be Approve\(\), Deny"),
        ({"call": Approve}, r"must be Approve\(\), Deny"),
        ([Approve()], "answers must be a dict"),
    ],
)
async def test_answers_for_nothing_and_of_no_use_are_refused(answers: Any, problem: str) -> None:
    agent = clerk(Log(), Call("pay", {"to": "Ada", "eur": 5}))
    paused = await paused_by(agent)
    if "call" in answers:
        answers = {paused.pending[0].id: answers["call"]}
    with pytest.raises(ConfigurationError, match=problem):
        await agent.resume(paused, answers)


async def test_a_stream_ends_with_the_pause_and_tells_the_results_of_the_others() -> None:
    log = Log()
    agent = clerk(log, [Call("pay", {"to": "Ada", "eur": 5}), Call("look")], "Done.")
    async with agent.stream("Go.") as stream:
        events = [event async for event in stream]
    last = events[-1]
    assert isinstance(last, RunPaused)
    assert last.paused is stream.paused is not None
    assert [e.result.content for e in events if isinstance(e, ToolResultEvent)] == ["seen"]
    record = stream.record
    assert record is not None
    assert record.context.open_calls == ()
    assert results_of(record) == [["This call was not run: it waits for approval.", "seen"]]

    answers = {stream.paused.pending[0].id: Approve()}
    async with agent.resume_stream(stream.paused, answers) as more:
        events = [event async for event in more]
    results = [e.result.content for e in events if isinstance(e, ToolResultEvent)]
    assert results == ["paid 5 to Ada"]
    assert more.result.output == "Done."


def test_the_same_works_without_an_event_loop() -> None:
    log = Log()
    agent = clerk(log, Call("pay", {"to": "Ada", "eur": 5}), "Paid.")
    with pytest.raises(ApprovalRequired) as caught:
        agent.run_sync("Go.")
    paused = caught.value.paused
    result = agent.resume_sync(paused, {paused.pending[0].id: Approve()})
    assert result.output == "Paid."


# Runs below.


def team(log: Log) -> tuple[Agent[Any, Any], ScriptedModel]:
    """A lead, who delegates to a middle, who delegates to a clerk, who pays."""
    model = ScriptedModel(
        {
            "lead": [
                [Call("delegate_to_middle", {"task": "Pay Ada."}), Call("look")],
                "Lead is done.",
            ],
            "middle": [Call("delegate_to_clerk", {"task": "Pay her 5."}), "Middle is done."],
            "clerk": [Call("pay", {"to": "Ada", "eur": 5}), "Clerk is done."],
        }
    )
    payer: Agent[Any, Any] = Agent(name="clerk", instructions="You pay.", tools=log.tools)
    middle: Agent[Any, Any] = Agent(name="middle", instructions="You ask.", subagents=[payer])
    lead: Agent[Any, Any] = Agent(
        name="lead", model=model, instructions="You lead.", tools=log.tools, subagents=[middle]
    )
    return lead, model


async def test_a_call_two_agents_down_pauses_the_whole_run_and_goes_on_where_it_was() -> None:
    log = Log()
    lead, model = team(log)
    async with lead.stream("Pay.") as stream:
        events = [event async for event in stream]
    paused = stream.paused
    assert paused is not None
    below = [
        event.path
        for event in events
        if isinstance(event, SubagentEvent) and isinstance(event.event, RunPaused)
    ]
    assert below == [("lead", "middle", "clerk"), ("lead", "middle")]
    (pending,) = paused.pending
    assert pending.path == ("lead", "middle", "clerk")
    assert log.done == ["look"]
    assert len(model.calls) == 3

    other, _ = team(log)
    paused = PausedRun.from_json(paused.to_json())
    agent: Agent[Any, Any] = Agent(
        name="lead",
        model=model,
        instructions="You lead.",
        tools=log.tools,
        subagents=other.subagents,
    )
    result = await agent.resume(paused, {pending.id: Approve()})
    assert result.output == "Lead is done."
    assert log.done == ["look", "pay Ada 5"]
    assert len(model.calls) == 6
    assert_prefix_stable(model.calls)
    assert results_of(result) == [["Middle is done.", "seen"]]
    (child,) = result.children
    assert isinstance(child, Ok)
    assert [each.kind for each in child.result.children] == ["ok"]
    assert len(result.requests) == 6


async def test_a_tool_that_fans_out_is_run_again_and_its_finished_runs_are_not() -> None:
    log = Log()
    model = ScriptedModel(
        {
            "lead": [Call("pay_all"), "Lead is done."],
            "clerk": [
                Call("pay", {"to": "Ada", "eur": 1}),
                Call("refund", {"eur": 2}),
                Call("pay", {"to": "Eve", "eur": 3}),
                "One.",
                "Two.",
                "Three.",
            ],
        }
    )
    payer: Agent[Any, Any] = Agent(name="clerk", instructions="You pay.", tools=log.tools)

    class Lead(Agent[None, str]):
        """You lead."""

        name = "lead"

        @tool
        async def pay_all(self, context: ToolContext[None]) -> str:
            """Pay everybody."""
            log.done.append("pay_all")
            done = await fan_out(self, [(payer, f"Job {n}.") for n in range(3)], within=context)
            return " ".join(each.result.text for each in done.ok)

    agent = Lead(model=model, subagents=[payer])
    first = await paused_by(agent)
    assert [each.path for each in first.pending] == [("lead", "clerk[0]"), ("lead", "clerk[2]")]
    assert log.done == ["pay_all", "refund 2"]

    first = PausedRun.from_json(first.to_json())
    with pytest.raises(ApprovalRequired) as caught:
        await agent.resume(first, {first.pending[1].id: Approve()})
    second = caught.value.paused
    assert [each.path for each in second.pending] == [("lead", "clerk[0]")]
    assert log.done == ["pay_all", "refund 2", "pay_all", "pay Eve 3"]

    result = await agent.resume(second, {second.pending[0].id: Deny()})
    assert log.done[4:] == ["pay_all"]
    assert result.output == "Lead is done."
    assert [each.path[-1] for each in result.children] == ["clerk[0]", "clerk[1]", "clerk[2]"]
    model.assert_consumed()
    assert_prefix_stable(model.calls)


# With a journal.


async def test_by_its_id_a_run_goes_on_from_the_journal_and_answers_outlive_the_process() -> None:
    log, journal = Log(), MemoryJournal()
    turn = [Call("pay", {"to": "Ada", "eur": 1}), Call("pay", {"to": "Bob", "eur": 2})]
    model = ScriptedModel([turn, "Done."])

    def made() -> Agent[Any, Any]:
        return Agent(model=model, name="clerk", tools=log.tools, journal=journal)

    paused = await paused_by(made())
    ada, bob = paused.pending
    # One answer; the process is lost while it pays.
    log.hang = True
    going_on = asyncio.create_task(made().resume(paused.run_id, {ada.id: Approve()}))
    await log.hangs.wait()
    lost = (await journal.load(paused.run_id))[0]
    assert lost.open_turn is not None
    assert lost.open_turn.answers == {ada.call.id: Approve()}
    going_on.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going_on

    log.hang = False
    with pytest.raises(ApprovalRequired) as caught:
        await made().resume(paused.run_id)
    assert [each.id for each in caught.value.paused.pending] == [bob.id]
    result = await made().resume(paused.run_id, {bob.id: Approve()})
    assert log.done == ["pay Ada 1", "pay Bob 2"]  # Ada's was begun; whether it was done is unknown
    assert "Whether it had an effect is unknown" in results_of(result)[0][0]


async def test_a_pause_that_is_stale_is_not_gone_on_with() -> None:
    log, journal = Log(), MemoryJournal()
    agent = clerk(log, Call("pay", {"to": "Ada", "eur": 5}), "Paid.", journal=journal)
    paused = await paused_by(agent)
    answers = {paused.pending[0].id: Approve()}
    await agent.resume(paused, answers)
    with pytest.raises(JournalError, match="has gone on since it was paused here"):
        await agent.resume(paused, answers)
    assert log.done == ["pay Ada 5"]


async def test_two_who_approve_at_once_do_not_run_the_call_twice() -> None:
    log, journal = Log(), MemoryJournal()
    agent = clerk(log, Call("pay", {"to": "Ada", "eur": 5}), "Paid.", journal=journal)
    paused = await paused_by(agent)
    answers = {paused.pending[0].id: Approve()}
    both = [agent.resume(paused.run_id, answers), agent.resume(paused, answers)]
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert log.done == ["pay Ada 5"]
    assert sum(isinstance(each, JournalError) for each in outcomes) == 1


async def test_a_pause_without_a_journal_goes_on_under_one() -> None:
    log, journal = Log(), MemoryJournal()
    model = ScriptedModel([Call("pay", {"to": "Ada", "eur": 5}), "Paid."])
    paused = await paused_by(Agent(model=model, name="clerk", tools=log.tools))
    agent: Agent[Any, Any] = Agent(model=model, name="clerk", tools=log.tools, journal=journal)
    result = await agent.resume(paused, {paused.pending[0].id: Approve()})
    (saved,) = await journal.load(result.run_id)
    assert saved.status == "done"
