"""A conversation as it was at any turn, and other ways on from there."""

from __future__ import annotations

import pytest

from agentkit import Agent
from agentkit.journal import JournalError
from agentkit.store import SqlJournal, open_journal
from agentkit.testing import Call, ScriptedModel


def note(text: str) -> str:
    """Note something."""
    return f"Noted: {text} " + "." * 3_000


def _agent(journal: SqlJournal, *answers: object) -> Agent:
    script = [*([Call("note", {"text": str(i)})] for i in range(4)), "Done.", *answers]
    return Agent(
        name="clerk",
        instructions="You take notes.",
        tools=[note],
        model=ScriptedModel(script),  # type: ignore[arg-type]
        journal=journal,
        max_result_chars=500,
    )


async def test_the_conversation_of_each_turn_is_what_the_model_was_asked(
    journal: SqlJournal,
) -> None:
    agent = _agent(journal)
    result = await agent.run("Begin.", run_id="r")
    model = agent.model
    assert isinstance(model, ScriptedModel)
    for turn, call in enumerate(model.calls):
        assert await journal.context_at("r", turn) == call.request.context
    assert await journal.context_at("r") == result.context


async def test_a_run_may_go_another_way_from_any_turn(journal: SqlJournal) -> None:
    agent = _agent(journal, "Another way.")
    result = await agent.run("Begin.", run_id="r")
    then = await journal.context_at("r", 2)
    other = await agent.run("Do something else.", context=then)
    assert other.output == "Another way."
    assert other.context.starts_with(then)
    assert not other.context.starts_with(result.context)
    (run,) = await journal.load("r")
    assert run.context == result.context


async def test_a_fork_knows_in_another_process_what_the_conversation_does_not_say(
    url: str,
) -> None:
    with open_journal(url) as journal:
        agent = _agent(journal)
        await agent.run("Begin.", run_id="r")
        (run,) = await journal.load("r")
    with open_journal(url) as journal:
        later = _agent(journal)
        context = await journal.fork(later, "r", 2)
        memory = later.memory_of(context)
        assert memory is not None
        assert len(memory.kept) == 2 < len(run.memory.kept)
        assert memory.length == run.requests[1].usage
        assert await journal.fork(later, "r") == run.context
        assert later.memory_of(run.context) == run.memory


@pytest.mark.parametrize(
    ("run_id", "turn", "message"),
    [
        ("nobody", 0, "there is no run 'nobody'"),
        ("r", 5, "run 'r' has no turn 5: it has 0 to 4"),
        ("r", -1, "run 'r' has no turn -1: it has 0 to 4"),
    ],
)
async def test_turns_that_never_were_are_refused(
    journal: SqlJournal, run_id: str, turn: int, message: str
) -> None:
    agent = _agent(journal)
    await agent.run("Begin.", run_id="r")
    with pytest.raises(JournalError, match=message):
        await journal.context_at(run_id, turn)
