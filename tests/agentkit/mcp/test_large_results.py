"""Results that take long to read are read beside the event loop."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentkit.toolset.mcp.calls import calling
from agentkit.toolset.mcp.calls.outputs import OutputSchema, PromisedOutputs
from agentkit.toolset.mcp.calls.size import is_large

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def read_in(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each result: whether it was read in the thread of the event loop."""
    seen: list[bool] = []
    read = calling.to_tool_output

    def noting(result: Mapping[str, object], *limits: int):
        seen.append(threading.current_thread() is threading.main_thread())
        return read(result, *limits)

    monkeypatch.setattr(calling, "to_tool_output", noting)
    return seen


async def test_a_large_result_does_not_hold_up_the_event_loop(server, read_in):
    rows = {"structuredContent": {"rows": [{"id": number} for number in range(2_000)]}}
    async with server("plain", protocol="legacy").connect() as connection:
        large = await connection.call("result", {"text": json.dumps({"content": [], **rows})})
        assert large.structured == rows["structuredContent"]
        small = {"content": [{"type": "text", "text": "few words"}]}
        said = await connection.call("result", {"text": json.dumps(small)})
        assert said.content == "few words"
    assert read_in == [False, True]


@pytest.mark.parametrize(
    ("result", "is_so"),
    [
        ({"content": [{"type": "text", "text": "x" * 90_000}]}, False),
        ({"content": [{"type": "text", "text": "x" * 60_000}] * 2}, True),
        ({"structuredContent": list(range(900))}, False),
        ({"structuredContent": {str(n): None for n in range(600)}}, True),
        ({"structuredContent": list(range(10**6))}, True),
    ],
)
def test_how_large_a_result_is_depends_on_its_values_and_its_characters(result, is_so):
    assert is_large(result) is is_so


def test_a_promise_is_first_looked_at_beside_the_loop_and_then_by_what_that_took():
    wide = {"type": "object", "properties": {"x": {"anyOf": [{"const": n} for n in range(900)]}}}
    promised = PromisedOutputs()
    plain = {"type": "object", "properties": {"x": {"type": "integer"}}}
    tools = [{"name": "plain", "outputSchema": plain}, {"name": "wide", "outputSchema": wide}]
    promised.learn([*tools, {"name": "none"}])
    names = ("plain", "wide", "none")
    assert [promised.is_quick(name) for name in names] == [False, False, True]
    for name in names:
        promised.problem_with(name, {"structuredContent": {"x": 899}})
    assert [promised.is_quick(name) for name in names] == [True, False, True]


def test_checks_of_one_promise_in_two_threads_do_not_mix():
    both_have_begun = threading.Barrier(2, timeout=20)

    class Waiting(list[object]):
        def __iter__(self) -> Iterator[object]:
            both_have_begun.wait()
            return super().__iter__()

    schema = {"type": "object", "properties": {"x": {"items": {"type": "integer"}}}}
    promise = OutputSchema(schema)
    # Together they take more steps than one check may.
    good = {"structuredContent": {"x": Waiting([1] * 12_000)}}
    bad = {"structuredContent": {"x": Waiting([*[1] * 12_000, "no"])}}
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(promise.problem_with, [good, bad]))
    assert found == [None, "x/12000: 'no' is not of type 'integer'"]
