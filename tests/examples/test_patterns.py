"""Pipeline, debate and router: what they promise, and what they share in the cache."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentkit import ModelError, ModelRequest
from agentkit.team import Ok
from agentkit.testing import ScriptedModel, assert_prefix_stable
from examples.offline import said_to
from examples.patterns import debate as debate_example
from examples.patterns import pipeline, router
from examples.patterns.debate import Side, debate
from examples.patterns.pipeline import Editor, article
from examples.patterns.router import Router, answer


async def test_a_pipeline_joins_what_was_written_and_names_what_was_not() -> None:
    def script(request: ModelRequest) -> str:
        task = said_to(request)
        if request.agent == "outliner":
            return json.dumps(["Keel", "Mast", "Sail"])
        if task == "Mast":
            raise ModelError("no wood")
        return f"On the {task}." if request.agent == "writer" else f"[{task}]"

    model = ScriptedModel(script)
    text = await article(Editor(model=model), "Boats")

    assert text == "[On the Keel.\n\n(Mast)\n\nOn the Sail.]"
    assert_prefix_stable(model.calls)
    fronts = {call.request.context.segments[0].digest for call in model.calls}
    assert len(fronts) == 1


async def test_both_sides_keep_their_conversation_and_the_judge_reads_all_of_it() -> None:
    def script(request: ModelRequest) -> str:
        if request.agent == "judge":
            assert said_to(request).count("pro:") == 2
            return json.dumps({"winner": "contra", "why": "It answered."})
        n = len(request.context.messages)
        return f"argument {n}, against {said_to(request)[-12:]!r}"

    model = ScriptedModel(script)
    verdict, said = await debate(Side(model=model), "Boats are better than trains.")

    assert verdict.winner == "contra"
    assert [text.split(":")[0] for text in said] == ["pro", "contra"] * 2
    sides = model.calls_of("side")
    assert sides[2].request.context.starts_with(sides[0].request.context)
    assert sides[3].request.context.starts_with(sides[1].request.context)


async def test_a_router_asks_once_and_the_chosen_agent_answers() -> None:
    def script(request: ModelRequest) -> str:
        if request.agent == "router":
            return json.dumps({"to": "technician" if "leaks" in said_to(request) else "billing"})
        return f"{request.agent} answers"

    model = ScriptedModel(script)
    outcomes = [await answer(Router(model=model), text) for text in ("It leaks.", "How much?")]

    assert [each.output for each in outcomes if isinstance(each, Ok)] == [
        "technician answers",
        "billing answers",
    ]
    asked = [call.request.context for call in model.calls]
    assert {context.common_length(asked[0]) for context in asked[1:]} == {2, len(asked[0].front)}


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (router, "My machine leaks. - This is technician. We call you back today."),
        (pipeline, "The keel holds it together."),
        (debate_example, "contra has won: Only one side has answered the other."),
    ],
)
def test_each_is_a_program_that_runs_offline_and_prints_what_it_does(
    capsys: pytest.CaptureFixture[str], pattern: Any, says: str
) -> None:
    pattern.main([])
    assert says in capsys.readouterr().out.splitlines()
