"""Calls of a served agent that wait for a person: who is asked, and who is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult

from agentkit import Agent, Approve, MemoryJournal
from agentkit.serving import serve_mcp
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from tests.agentkit.clerks import Log

Connect = Callable[..., Client]
PAY = Call("pay", {"to": "Ada", "eur": 5})


def clerk(log: Log, *script: Any, **more: Any) -> Agent[Any, Any]:
    model = ScriptedModel(list(script))
    return Agent(model=model, name="clerk", instructions="You pay.", tools=log.tools, **more)


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


class Person:
    """Fills forms."""

    def __init__(self, action: str = "accept", **content: Any) -> None:
        self.asked: list[str] = []
        self._said = {"action": action, "content": content or None}

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        return ElicitResult.model_validate(self._said)


async def test_the_clients_user_is_asked_and_the_call_runs_when_they_agree(
    client: Connect,
) -> None:
    log, person = Log(), Person(decision="approve")
    agent = clerk(log, PAY, "Paid.")
    async with client(agent, elicitation_callback=person) as one:
        result = await one.call_tool("ask_clerk", {"prompt": "Pay Ada."})
    assert text_of(result) == "Paid."
    assert log.done == ["pay Ada 5"]
    assert person.asked == ['clerk wants to call pay with {"to": "Ada", "eur": 5}']
    assert isinstance(agent.model, ScriptedModel)
    assert_prefix_stable(agent.model.calls)


@pytest.mark.parametrize(
    "person",
    [
        Person(decision="deny", reason="too much"),
        Person(action="decline"),
        Person(action="cancel"),
        Person(decision="maybe"),
        Person(),
    ],
    ids=["deny", "decline", "cancel", "nonsense", "empty"],
)
async def test_whatever_is_no_clear_yes_is_a_no(client: Connect, person: Person) -> None:
    log = Log()
    agent = clerk(log, PAY, "I may not.")
    async with client(agent, elicitation_callback=person) as one:
        result = await one.call_tool("ask_clerk", {"prompt": "Pay Ada."})
    assert text_of(result) == "I may not."
    assert log.done == []


async def test_each_of_several_calls_is_asked_for(client: Connect) -> None:
    log, person = Log(), Person(decision="approve")
    agent = clerk(log, [PAY, Call("refund", {"eur": 200})], Call("refund", {"eur": 300}), "Done.")
    async with client(agent, elicitation_callback=person) as one:
        result = await one.call_tool("ask_clerk", {"prompt": "Go.", "session": "s"})
    assert text_of(result) == "Done."
    assert sorted(log.done) == ["pay Ada 5", "refund 200", "refund 300"]
    assert len(person.asked) == 3


async def test_without_anybody_to_ask_a_call_is_declined_and_the_run_goes_on(
    client: Connect,
) -> None:
    log = Log()
    agent = clerk(log, PAY, "Nobody agreed.")
    async with client(agent) as one:
        result = await one.call_tool("ask_clerk", {"prompt": "Pay Ada."})
    assert text_of(result) == "Nobody agreed."
    assert log.done == []


async def test_with_the_second_tool_the_run_waits_and_is_decided_by_it(client: Connect) -> None:
    log = Log()
    agent = clerk(log, PAY, "Paid.")
    async with client(agent, serve={"decide_tool": True}) as one:
        names = [each.name for each in (await one.list_tools()).tools]
        assert names == ["ask_clerk", "ask_clerk_decide"]
        waiting = await one.call_tool("ask_clerk", {"prompt": "Pay Ada.", "session": "s"})
        assert waiting.is_error
        run = (waiting.meta or {})["agentkit/run"]["run_id"]
        assert f"The run {run} waits for approval" in text_of(waiting)
        assert log.done == []
        done = await one.call_tool("ask_clerk_decide", {"run": run, "decision": "approve"})
        assert text_of(done) == "Paid."
        assert log.done == ["pay Ada 5"]
        again = await one.call_tool("ask_clerk_decide", {"run": run, "decision": "approve"})
        assert again.is_error
        assert "No run" in text_of(again)
    assert log.done == ["pay Ada 5"]


async def test_two_decisions_at_once_run_the_call_once(client: Connect) -> None:
    log = Log()
    async with client(clerk(log, PAY, "Paid."), serve={"decide_tool": True}) as one:
        waiting = await one.call_tool("ask_clerk", {"prompt": "Pay Ada."})
        run = (waiting.meta or {})["agentkit/run"]["run_id"]
        decide = {"run": run, "decision": "approve"}
        results = await asyncio.gather(
            *(one.call_tool("ask_clerk_decide", decide) for _ in range(5))
        )
    assert sorted(each.is_error for each in results) == [False, True, True, True, True]
    assert log.done == ["pay Ada 5"]


async def test_a_decision_for_a_call_that_does_not_wait_says_so_and_the_run_waits_on(
    client: Connect,
) -> None:
    log = Log()
    async with client(clerk(log, PAY, "Paid."), serve={"decide_tool": True}) as one:
        waiting = await one.call_tool("ask_clerk", {"prompt": "Pay Ada."})
        run = (waiting.meta or {})["agentkit/run"]["run_id"]
        wrong = await one.call_tool(
            "ask_clerk_decide", {"run": run, "decision": "approve", "call": "nothing"}
        )
        assert wrong.is_error
        done = await one.call_tool("ask_clerk_decide", {"run": run, "decision": "deny"})
    assert text_of(done) == "Paid."
    assert log.done == []


async def test_a_new_prompt_in_a_session_gives_up_the_run_that_waited_there(
    client: Connect,
) -> None:
    log = Log()
    agent = clerk(log, PAY, "Something else.")
    async with client(agent, serve={"decide_tool": True}) as one:
        waiting = await one.call_tool("ask_clerk", {"prompt": "Pay Ada.", "session": "s"})
        run = (waiting.meta or {})["agentkit/run"]["run_id"]
        other = await one.call_tool("ask_clerk", {"prompt": "Never mind.", "session": "s"})
        assert text_of(other) == "Something else."
        late = await one.call_tool("ask_clerk_decide", {"run": run, "decision": "approve"})
        assert late.is_error
    assert log.done == []
    assert isinstance(agent.model, ScriptedModel)
    assert_prefix_stable(agent.model.calls)


async def test_with_a_journal_the_run_waits_for_whoever_runs_the_server(client: Connect) -> None:
    log, journal = Log(), MemoryJournal()
    agent = clerk(log, PAY, "Paid.", journal=journal)
    async with client(agent) as one:
        waiting = await one.call_tool("ask_clerk", {"prompt": "Pay Ada.", "session": "s"})
        assert waiting.is_error
        assert "agentkit resume" in text_of(waiting)
        run = (waiting.meta or {})["agentkit/run"]["run_id"]
        busy = await one.call_tool("ask_clerk", {"prompt": "And?", "session": "s"})
        assert busy.is_error
        assert run in text_of(busy)
    result = await agent.resume(run, await _yes(journal, run))
    assert result.output == "Paid."


async def _yes(journal: MemoryJournal, run: str) -> dict[str, Approve]:
    from agentkit import PausedRun

    paused = PausedRun(runs=await journal.load(run))
    return {each.id: Approve() for each in paused.pending}


async def test_a_run_is_decided_after_the_server_was_started_anew() -> None:
    log, journal = Log(), MemoryJournal()
    before, after = clerk(log, PAY, journal=journal), clerk(log, "Paid.", journal=journal)
    async with Client(serve_mcp(before, decide_tool=True), read_timeout_seconds=30) as one:
        waiting = await one.call_tool("ask_clerk", {"prompt": "Pay Ada."})
        run = (waiting.meta or {})["agentkit/run"]["run_id"]
    async with Client(serve_mcp(after, decide_tool=True), read_timeout_seconds=30) as one:
        done = await one.call_tool("ask_clerk_decide", {"run": run, "decision": "approve"})
    assert text_of(done) == "Paid."
    assert log.done == ["pay Ada 5"]


async def test_what_a_client_sends_back_counts_once_and_for_its_own_call() -> None:
    """The state of the modern protocol comes from the client, who might make it up."""
    from mcp import MCPError
    from mcp_types import InputRequiredResult

    log = Log()
    server = serve_mcp(clerk(log, PAY, "Paid."))
    person = Person(decision="approve")
    async with Client(server, elicitation_callback=person, read_timeout_seconds=30) as one:
        asked = {"prompt": "Pay Ada."}
        first = await one.session.call_tool("ask_clerk", asked, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)
        yes = {
            key: ElicitResult(action="accept", content={"decision": "approve"})
            for key in first.input_requests or {}
        }
        for state, arguments in (("made up", asked), (first.request_state, {"prompt": "Other."})):
            with pytest.raises(MCPError, match="requestState"):
                await one.session.call_tool(
                    "ask_clerk",
                    arguments,
                    input_responses=yes,
                    request_state=state,
                    allow_input_required=True,
                )
        assert log.done == []
        results = [
            await one.session.call_tool(
                "ask_clerk",
                asked,
                input_responses=yes,
                request_state=first.request_state,
                allow_input_required=True,
            )
            for _ in range(2)
        ]
    assert [getattr(each, "is_error", None) for each in results] == [False, True]
    assert log.done == ["pay Ada 5"]
