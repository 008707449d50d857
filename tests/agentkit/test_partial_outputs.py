"""Answers while they are being written."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import date
from decimal import Decimal
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from agentkit import Agent, partial_outputs
from agentkit.events import Event, TextDelta
from agentkit.testing import Call, ScriptedModel
from agentkit.toolset import tool


class Finding(BaseModel):
    line: int
    quote: str


class Report(TypedDict, total=False):
    title: str
    lines: list[int]


@tool
def look() -> str:
    """Look."""
    return "seen"


async def outputs(script: list[Any], output_type: Any) -> tuple[list[Any], object]:
    agent = Agent(model=ScriptedModel(script), tools=[look], output_type=output_type)
    async with agent.stream("x") as events:
        seen = [each async for each in partial_outputs(events, output_type)]
    return seen, events.result.output


FINDINGS = [{"line": n, "quote": f"quote number {n}"} for n in range(20)]


@pytest.mark.parametrize("form", ["{}", '{{"answer": {}}}', "```json\n{}\n```"])
async def test_elements_of_a_list_come_one_after_another(form: str) -> None:
    text = form.format(json.dumps(FINDINGS))
    seen, output = await outputs([text], list[Finding])
    lengths = [len(each) for each in seen]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 8
    assert seen[-1] == output == [Finding(**each) for each in FINDINGS]  # type: ignore[arg-type]
    # All but the last element, which may be growing, are as they will be.
    assert all(each[:-1] == output[: len(each) - 1] for each in seen if each)


async def test_members_of_an_open_dict_and_words_of_a_text_come_as_they_are_written() -> None:
    text = json.dumps({"title": "A long title of a report", "lines": list(range(50))})
    seen, output = await outputs([text], Report)
    assert any(each.keys() == {"title"} for each in seen)
    assert seen[-1] == output
    words, _ = await outputs(["one two three four five six seven"], str)
    assert all("one two three four five six seven".startswith(each) for each in words)
    assert len(words) > 2


async def test_a_model_is_seen_when_it_is_whole_and_a_value_only_once() -> None:
    seen, output = await outputs(['{"line": 3, "quote": "' + "x" * 200 + '"}'], Finding)
    assert seen[-1] == output
    assert len(seen) == len({each.model_dump_json() for each in seen})
    assert await outputs(['"yes"'], Literal["yes", "no"]) == (["yes"], "yes")
    assert await outputs(["null"], Finding | None) == ([None], None)


async def test_an_element_that_is_not_valid_yet_is_left_out_until_it_is() -> None:
    async def written() -> AsyncIterator[Event]:
        yield TextDelta('[{"line": 1, "quote": "a"}, {"line": 2, ')
        yield TextDelta('"quote": "b"}]')

    first = Finding(line=1, quote="a")
    seen = [each async for each in partial_outputs(written(), list[Finding])]
    assert seen == [[first], [first, Finding(line=2, quote="b")]]


class Pay(BaseModel):
    to: str
    euros: Decimal
    day: date | None = None


PAYS: list[tuple[Any, str]] = [
    (Pay, '{"to": "Ada", "euros": 1250000000000.25000000000000000000001}'),
    (Pay, '{"to": "12", "euros": "1250000000000", "day": "2026-01-02"}'),
    (dict[str, int], '{"a": -12, "b": 3456}'),
    (list[float], "[1.5e10, 2, -0.25]"),
    (int, "123456789012345678901234567890"),
    (list[Literal["no", "no way"]], '["no", "no way"]'),
    (Pay | str, "12 euros, in words"),
    (dict[str, str | int], '{"a": "12\\" 3", "b": 45}'),
    (bool, "true"),
]


@pytest.mark.parametrize(("output_type", "text"), PAYS)
async def test_what_is_no_text_is_never_seen_cut(output_type: Any, text: str) -> None:
    async def cut(length: int) -> AsyncIterator[Event]:
        yield TextDelta(text[:length])

    seen, whole = await outputs([text], output_type)
    assert seen[-1] == whole
    for length in range(8, len(text)):
        for each in [each async for each in partial_outputs(cut(length), output_type)]:
            assert _is_beginning(each, whole), each


def _is_beginning(part: Any, whole: Any) -> bool:
    if isinstance(part, BaseModel) and isinstance(whole, BaseModel):
        return _is_beginning(dict(part), dict(whole))
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, list) and isinstance(whole, list):
        return all(map(_is_beginning, part, whole))
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(_is_beginning(part[key], whole[key]) for key in part)
    return bool(part == whole) or (part is None and isinstance(whole, date))


async def test_a_turn_that_calls_tools_and_one_that_is_corrected_are_forgotten() -> None:
    script = [[Call("look", {})], '{"line": "no number"}', '{"line": 1, "quote": "a"}']
    seen, output = await outputs(script, Finding)
    assert seen == [output]
