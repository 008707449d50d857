"""Runs as JSON: what comes back is what was saved, to the last byte of every context."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from datetime import date
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    computed_field,
    field_serializer,
)
from pydantic import Json as PydanticJson

from agentkit import Agent, Context, RunRecord, RunResult, UserMessage, fan_out
from agentkit.cli.showing import result_json
from agentkit.errors import FormatError, RestoredFailure
from agentkit.result import Failed, Ok
from agentkit.saved import Memory, PausedRun, SavedEnd, SavedRun, SavedTurn
from agentkit.saved_json import part_from_json, part_to_json
from agentkit.team.delegate import answer_text
from agentkit.testing import ScriptedModel
from tests.agentkit import saved_runs as some
from tests.agentkit.store.made import begun


@settings(max_examples=60)
@given(some.paused_runs)
def test_a_paused_run_comes_back_equal_with_the_bytes_of_its_contexts(paused: PausedRun) -> None:
    text = paused.to_json()
    again = PausedRun.from_json(text)
    assert again == paused
    assert [run.context.dump() for run in again.runs] == [run.context.dump() for run in paused.runs]
    assert again.to_json() == text
    assert again.pending == paused.pending


def test_the_format_before_is_read() -> None:
    """It had none of the fields that have a default, and no run that was cancelled."""
    paused = PausedRun(runs=(begun("r", status="paused"),))
    old = json.loads(paused.to_json())
    assert old.pop("format") == 2
    for name in ("number", "taken_over_s"):
        old["paused_run"]["runs"][0].pop(name)
    assert PausedRun.from_json(json.dumps({"format": 1, **old})) == paused


@settings(max_examples=40)
@given(some.runs)
def test_a_saved_run_comes_back_equal(run: SavedRun) -> None:
    assert SavedRun.from_json(run.to_json().encode()) == run


@settings(max_examples=60)
@given(some.results())
def test_a_result_comes_back_equal_with_its_children(result: RunResult[Any]) -> None:
    text = result.to_json()
    again = RunResult.from_json(text)
    assert again.to_json() == text
    assert _without_errors(again) == _without_errors(result)
    assert again.context.dump() == result.context.dump()
    assert again.usage == result.usage


@settings(max_examples=40)
@given(some.records())
def test_a_record_comes_back_equal(record: RunRecord) -> None:
    again = RunRecord.from_json(record.to_json())
    assert type(again) is RunRecord
    assert _without_errors(again) == _without_errors(record)


@settings(max_examples=60)
@given(st.one_of(some.turns(), some.memories, some.ends, some.requests))
def test_a_part_comes_back_equal_by_way_of_json_text(part: Any) -> None:
    value = json.loads(json.dumps(part_to_json(part)))
    assert part_from_json(type(part), value) == part


@given(st.sampled_from([SavedRun, SavedTurn, SavedEnd, Memory]), st.data())
def test_every_field_is_in_the_json(kind: Any, data: st.DataObject) -> None:
    strategy: Any = {
        SavedRun: some.runs,
        SavedTurn: some.turns(),
        SavedEnd: some.ends,
        Memory: some.memories,
    }[kind]
    value = data.draw(strategy)
    body = json.loads(value.to_json())["run"] if kind is SavedRun else part_to_json(value)
    kept = {item.name for item in fields(kind) if item.compare}
    assert set(cast("dict[str, object]", body)) == kept


class Finding(BaseModel):
    title: str = Field(alias="Title")
    day: date
    price: Decimal


@dataclass(frozen=True)
class Both:
    first: Finding
    rest: list[int]


FINDING = Finding(Title="x", day=date(2026, 1, 2), price=Decimal("1.10"))


@pytest.mark.parametrize(
    ("output_type", "output"),
    [
        (str, "plain"),
        (Finding, FINDING),
        (list[Finding], [FINDING, FINDING]),
        (Both, Both(first=FINDING, rest=[1])),
        (dict[str, float], {"a": 0.1}),
    ],
)
async def test_an_output_is_made_again_by_its_own_type(output_type: Any, output: Any) -> None:
    said = (
        output
        if output_type is str
        else TypeAdapter(output_type).dump_json(output, by_alias=True).decode()
    )
    agent: Agent[None, Any] = Agent(
        model=ScriptedModel([said]), name="reader", output_type=output_type
    )
    result = await agent.run("Read.")
    assert result.output == output
    text = result.to_json()
    again = RunResult.from_json(text, output_type)
    assert again == result
    assert type(again.output) is type(output)
    assert again.to_json() == text


class Renamed(BaseModel):
    x: int = Field(validation_alias="ex")
    y: int = Field(serialization_alias="why")


class Hidden(BaseModel):
    a: int
    b: int = Field(exclude=True)


class Shown(BaseModel):
    when: int

    @field_serializer("when")
    def _shown(self, when: int) -> str:
        return f"<{when}>"


class Computed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        """`a`, two times."""
        return self.a * 2


@pytest.mark.parametrize(
    ("output_type", "text"),
    [
        (Renamed, '{"ex": 1, "y": 2}'),
        (Hidden, '{"a": 1, "b": 2}'),
        (Shown, '{"when": 3}'),
        (Computed, '{"a": 1}'),
        (Base64Bytes, '"/////w=="'),
        (list[Base64Bytes], '{"answer": ["/////w=="]}'),
        (PydanticJson[list[int]], '"[1]"'),
        (SecretStr, '"abc"'),
        (str | Decimal, '"1.5"'),
        (str | Hidden, "in words"),
        (list[float], "[1e999]"),
    ],
)
async def test_an_output_whose_json_is_of_another_form_is_made_again_of_the_answer(
    output_type: Any, text: str
) -> None:
    model = ScriptedModel([text])
    result = await Agent(model=model, name="a", output_type=output_type).run("x")
    again = RunResult.from_json(result.to_json(), output_type)
    assert again.output == result.output
    assert type(again.output) is type(result.output)
    assert answer_text(result)
    assert "output" in result_json(result)


def test_an_output_that_is_not_made_of_the_text_is_made_of_its_json() -> None:
    body = _empty_result() | {"output": [1]}
    text = json.dumps({"format": 1, "kind": "result", "segments": [], "result": body})
    assert RunResult.from_json(text, list[int]).output == [1]


def test_an_output_of_another_type_is_an_error_that_names_it() -> None:
    text = '{"format":1,"kind":"result","segments":[],"result":' + json.dumps(_empty_result()) + "}"
    assert RunResult.from_json(text).output == "no number"
    with pytest.raises(FormatError, match="the output is no <class 'int'>"):
        RunResult.from_json(text, int)


async def test_the_children_of_a_team_come_back_with_their_answers_and_failures() -> None:
    def fails(request: Any) -> str:
        raise RuntimeError("no disk \udc80")

    model = ScriptedModel({"good": ["Fine."], "bad": [fails], "lead": ["Never asked."]})
    lead = Agent(
        model=model, name="lead", subagents=[_worker("good"), _worker("bad")], max_retries=0
    )
    done = await fan_out(lead, [("good", "Do it."), ("bad", "Do it.")])
    good, bad = done.outcomes
    assert isinstance(good, Ok)
    assert isinstance(bad, Failed)
    record = RunRecord(
        run_id="r",
        path=("lead",),
        context=good.result.context,
        messages=(),
        requests=done.requests,
        children=done.outcomes,
        total_s=0.5,
    )
    again = RunRecord.from_json(record.to_json().encode())
    assert again.children[0] == good
    failed = again.children[1]
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, RestoredFailure)
    assert failed.reason == bad.reason == "RuntimeError: no disk \\udc80"
    assert failed.record == bad.record


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not the JSON form of a paused_run"),
        ("[]", "it says no format"),
        ('{"kind":"paused_run"}', "it says no format"),
        ('{"format":3,"kind":"paused_run"}', "is in format 3, and .* reads formats up to 2"),
        ('{"format":1,"kind":"run"}', "of a run, not of a paused_run"),
        ('{"format":1,"kind":"paused_run"}', "not the JSON form"),
        ('{"format":1,"kind":"paused_run","segments":[],"paused_run":{"runs":[]}}', "no runs"),
        ('{"format":1,"kind":"paused_run","segments":[],"paused_run":{"runs":[{}]}}', "missing"),
        ('{"format":1,"kind":"paused_run","segments":[],"paused_run":{"rums":[]}}', "PausedRun"),
    ],
)
def test_a_text_of_another_kind_or_format_is_refused(text: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        PausedRun.from_json(text)


@settings(max_examples=40)
@given(some.paused_runs, st.data())
def test_a_changed_context_is_refused(paused: PausedRun, data: st.DataObject) -> None:
    whole = json.loads(paused.to_json())
    index = data.draw(st.integers(0, len(whole["segments"]) - 1))
    line = whole["segments"][index]
    whole["segments"][index] = line.replace('"text":"', '"text":"!', 1)
    if whole["segments"][index] != line and '"role"' in line:
        with pytest.raises(FormatError, match="digest differs"):
            PausedRun.from_json(json.dumps(whole))
    whole["segments"][index] = line + " "
    with pytest.raises(FormatError, match="not canonical"):
        PausedRun.from_json(json.dumps(whole))


@settings(max_examples=10)
@given(some.runs)
def test_segments_that_runs_share_are_there_once(run: SavedRun) -> None:
    longer = replace(run, context=run.context.append(UserMessage.of("More, said by nobody else.")))
    whole = json.loads(PausedRun(runs=(run, longer)).to_json())
    assert len(whole["segments"]) == len(set(whole["segments"]))
    first, second = (each["context"]["segments"] for each in whole["paused_run"]["runs"])
    assert first == second[:-1]


def test_equal_runs_have_equal_json_in_every_process() -> None:
    code = (
        "from tests.agentkit.test_saved_json import _memory;"
        "from agentkit.saved_json import part_to_json; print(part_to_json(_memory()))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def _memory() -> Memory:
    return Memory(length=None, epoch=0, version=None, seen=frozenset(map(str, range(20))))


def _empty_result() -> dict[str, Any]:
    return {
        "run_id": "r",
        "path": ["a"],
        "context": {"segments": [], "digest": Context().digest},
        "messages": [],
        "requests": [],
        "children": [],
        "total_s": 0.0,
        "output": "no number",
        "text": "no number",
        "finish": "stop",
    }


def _without_errors(record: Any) -> Any:
    """A record whose failures are their reasons, since errors are equal to themselves only."""
    children = tuple(
        replace(each, error=cast(Any, each.reason), record=_without_errors(each.record))
        if isinstance(each, Failed)
        else replace(each, result=_without_errors(each.result))
        for each in record.children
    )
    return replace(record, children=children)


def _worker(name: str) -> Agent[Any, Any]:
    return Agent(name=name, instructions="You do as you are told.")
