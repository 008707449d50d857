"""Usage of an answer that took several requests: one sum, and each part apart."""

from __future__ import annotations

from agentkit.blocks import Json
from agentkit.models.hosted.anthropic.usage import UsageMeter
from agentkit.usage import Usage

MODEL = "claude-sonnet-5-5"


def counts(n: int) -> dict[str, Json]:
    return {
        "input_tokens": 10 * n,
        "cache_read_input_tokens": 200 * n,
        "cache_creation_input_tokens": 0,
        "output_tokens": 4 * n,
    }


def inclusive(n: int) -> Usage:
    return Usage(
        input_tokens=210 * n,
        cache_read_tokens=200 * n,
        cache_write_tokens=0,
        cache_write_long_tokens=0,
        output_tokens=4 * n,
    )


def test_one_request_has_no_parts() -> None:
    meter = UsageMeter(MODEL)
    meter.update(counts(1))

    event = meter.event(note="tools_changed")

    assert (event.usage, event.first, event.parts) == (inclusive(1), None, ())
    assert event.cache_note == "tools_changed"


def test_one_iteration_has_no_parts_either() -> None:
    meter = UsageMeter(MODEL)
    meter.update({**counts(1), "iterations": [{"type": "message", **counts(1)}]})

    assert (meter.event().usage, meter.event().first) == (inclusive(1), None)


def test_a_loop_on_the_server_is_planned_by_its_first_round() -> None:
    meter = UsageMeter(MODEL)
    rounds: list[Json] = [{"type": "message", **counts(n)} for n in (1, 2)]
    meter.update({**counts(3), "iterations": rounds})

    event = meter.event()

    assert (event.usage, event.first) == (inclusive(3), inclusive(1))
    assert [(part.model, part.usage) for part in event.parts] == [(MODEL, inclusive(2))]


def test_an_answer_that_was_continued_is_planned_by_its_first_response() -> None:
    meter = UsageMeter(MODEL)
    meter.update(counts(1))
    meter.next_response()
    advisor: Json = {"type": "advisor_message", "model": "claude-opus-5-5", **counts(5)}
    meter.update({**counts(2), "iterations": [{"type": "message", **counts(2)}, advisor]})

    event = meter.event()

    assert (event.usage, event.first) == (inclusive(3), inclusive(1))
    assert [(part.model, part.usage) for part in event.parts] == [
        (MODEL, inclusive(2)),
        ("claude-opus-5-5", inclusive(5)),
    ]
