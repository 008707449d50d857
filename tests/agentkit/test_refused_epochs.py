"""A model that refuses a conversation that was begun anew: nothing that was said since is lost."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit import (
    HookContext,
    Hooks,
    Journal,
    JournalError,
    MemoryJournal,
    ModelError,
    RequestRefused,
)
from agentkit.context.turns import is_summary
from agentkit.events import ContextCompacted
from agentkit.models import ModelRequest
from agentkit.saved import SavedRun
from agentkit.store import open_journal
from agentkit.testing import ScriptedModel, assert_prefix_stable
from tests.agentkit.digger import Digger, run_all
from tests.agentkit.test_knowledge_epochs import edit_two, library, reader


class Numbering(Hooks):
    async def before_turn(self, at: HookContext[Any]) -> str:
        return f"<turn {at.turn}>"


class Refusing(ScriptedModel):
    """Refuses a context with a summary. Its process is lost as it is asked that first, or it is
    overloaded once after that, if it is told so."""

    def __init__(
        self, digger: Digger, *, is_overloaded: bool = False, is_lost: bool = False
    ) -> None:
        self._digger = digger
        self._is_overloaded = is_overloaded
        self._is_lost = is_lost
        self.n_refused = 0
        super().__init__(self._step)

    def _step(self, request: ModelRequest) -> Any:
        if is_summary(request.context.messages[0]):
            if self._is_lost:
                self._is_lost = False
                return JournalError("the process is gone")  # and nothing more is kept
            self.n_refused += 1
            return RequestRefused("the last turn must start with a thinking block")
        if self.n_refused and self._is_overloaded:
            self._is_overloaded = False
            return ModelError("overloaded")
        return self._digger.step(request)


def test_what_hooks_said_in_a_refused_epoch_is_said_before_it_is_asked_again() -> None:
    digger = Digger(20)
    digger.model = Refusing(digger)
    result, _ = run_all(digger.agent(hooks=[Numbering()]))

    told = [m.text for m in result.context.messages if m.kind == "user"]
    assert told == ["Dig.", *(f"<turn {n}>" for n in range(20))]
    assert_prefix_stable(digger.model.calls)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_run_that_fails_behind_a_refused_epoch_goes_on_before_it(
    kind: str, tmp_path: Any
) -> None:
    journal: Journal = MemoryJournal() if kind == "memory" else open_journal(tmp_path / "runs.db")
    digger = Digger(20)
    digger.model = model = Refusing(digger, is_overloaded=True)
    with pytest.raises(ModelError, match="overloaded"):
        await digger.agent(journal=journal, hooks=[Numbering()]).run("Dig.", run_id="r")

    n_asked = len(model.calls)
    result = await digger.agent(journal=journal, hooks=[Numbering()]).resume("r")
    assert result.output == "Only sand."
    assert not is_summary(model.calls[n_asked].request.context.messages[0])
    told = [m.text for m in result.context.messages if m.kind == "user"]
    assert told == ["Dig.", *(f"<turn {n}>" for n in range(20))]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_run_that_lost_its_process_in_an_epoch_goes_on_before_it_where_that_is_refused(
    kind: str, tmp_path: Any
) -> None:
    journal: Journal = MemoryJournal() if kind == "memory" else open_journal(tmp_path / "runs.db")
    digger = Digger(20)
    digger.model = model = Refusing(digger, is_lost=True)
    with pytest.raises(JournalError, match="gone"):
        await digger.agent(journal=journal, hooks=[Numbering()]).run("Dig.", run_id="r")
    (lost,) = await journal.load("r")
    assert is_summary(lost.context.messages[0])
    assert lost.way_back is not None
    assert SavedRun.from_json(lost.to_json()) == lost

    n_asked = len(model.calls)
    result = await digger.agent(journal=journal, hooks=[Numbering()]).resume("r")
    assert result.output == "Only sand."
    assert model.n_refused == 1
    assert not is_summary(model.calls[n_asked + 1].request.context.messages[0])
    told = [m.text for m in result.messages if m.kind == "user"]
    assert told == ["Dig.", *(f"<turn {n}>" for n in range(20))]
    assert [m.text for m in result.context.messages if m.kind == "user"] == told
    (done,) = await journal.load("r")
    assert done.way_back is None


async def test_a_question_in_an_epoch_of_documents_is_asked_again_in_another_process(
    tmp_path: Any,
) -> None:
    knowledge, fronts = library(), list[str]()
    is_lost = False

    def step(request: ModelRequest) -> Any:
        nonlocal is_lost
        front = request.context.front.digest
        fronts.extend([front] * (not fronts))
        if front == fronts[0]:
            return "Read."
        if not is_lost:
            is_lost = True
            return JournalError("the process is gone")
        return RequestRefused("thinking must be replayed")

    with open_journal(tmp_path / "runs.db") as journal:
        for turn in range(12):
            if turn:
                edit_two(knowledge, turn)
            model = ScriptedModel(step)
            agent, run_id = reader(model, knowledge, journal=journal), f"r{turn}"
            try:
                await agent.run(f"Question {turn}?", run_id=run_id, session="s")
            except JournalError:
                await reader(model, knowledge, journal=journal).resume(run_id)
            answered = model.calls[-1].request.context.messages
            assert [m.text for m in answered if m.kind == "user" and m.text.endswith("?")] == [
                f"Question {n}?" for n in range(turn + 1)
            ]
    assert is_lost


async def test_a_question_behind_a_refused_epoch_of_documents_is_asked_again() -> None:
    knowledge, fronts = library(), list[str]()

    def step(request: ModelRequest) -> Any:
        front = request.context.front.digest
        fronts.extend([front] * (not fronts))
        if front != fronts[0]:
            return RequestRefused("thinking must be replayed")
        return "Read."

    model = ScriptedModel(step)
    agent = reader(model, knowledge)
    context, n_begun_anew = None, 0
    for turn in range(12):
        if turn:
            edit_two(knowledge, turn)
        async with agent.stream(f"Question {turn}?", context=context) as stream:
            async for event in stream:
                n_begun_anew += isinstance(event, ContextCompacted)
        context = stream.result.context
        answered = model.calls[-1].request.context.messages
        assert getattr(answered[-1], "text", "") == f"Question {turn}?"
        assert [m.text for m in answered if m.kind == "user" and m.text.endswith("?")] == [
            f"Question {n}?" for n in range(turn + 1)
        ]
    assert n_begun_anew
