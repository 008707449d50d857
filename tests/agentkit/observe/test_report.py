"""The cache report: data first, and a table that says when something is unknown."""

from __future__ import annotations

import json

from agentkit.caching import CacheReport, RequestRecord
from agentkit.observe.report import render_text
from agentkit.usage import Timing, Usage


def record(path: str, read: int | None, ttft_s: float | None) -> RequestRecord:
    return RequestRecord(
        path=tuple(path.split("/")),
        model="m",
        usage=Usage(
            input_tokens=1000, cache_read_tokens=read, cache_write_tokens=None, output_tokens=10
        ),
        timing=Timing(ttft_s=ttft_s),
    )


REPORT = CacheReport.of(
    [
        record("boss", 0, 0.42),
        record("boss/reader[0]", 800, 0.1),
        record("boss", 900, 0.04),
        record("boss/reader[0]", 990, 0.02),
    ]
)


def test_rows_are_agents_in_order_of_their_first_request() -> None:
    assert [row.label for row in REPORT.rows] == ["boss", "boss/reader[0]"]
    boss, reader = REPORT.rows
    assert (boss.requests, boss.usage.cache_read_tokens) == (2, 900)
    assert boss.ttft_first_s == 0.42
    assert reader.usage.hit_ratio == 0.895
    assert REPORT.total.requests == 4
    assert REPORT.hit_ratio == 2690 / 4000


def test_the_text_shows_counts_ratio_and_times() -> None:
    text = str(REPORT)
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}

    assert lines["boss/reader[0]"] == [
        "2",
        "2,000",
        "1,790",
        "89.5%",
        "20",
        "100",
        "ms",
        "60",
        "ms",
    ]
    assert lines["total"][:4] == ["4", "4,000", "2,690", "67.2%"]
    assert "\x1b" not in text


def test_unknown_is_shown_as_unknown_and_never_as_zero() -> None:
    report = CacheReport.of([record("a", None, None), record("a", 500, 0.1)])
    (row,) = report.rows
    words = next(line.split() for line in str(report).splitlines() if line.startswith("  a "))

    assert row.usage.cache_read_tokens is None
    assert words == ["a", "2", "2,000", "unknown", "unknown", "20", "unknown", "100", "ms"]


def test_the_report_is_json_with_nulls_for_unknown() -> None:
    value = json.loads(json.dumps(REPORT.to_json()))

    assert value["rows"][0]["agent"] == "boss"
    assert value["rows"][0]["cache_write_tokens"] is None
    assert value["total"]["hit_ratio"] == 2690 / 4000


def test_names_that_look_like_markup_are_shown_as_they_are() -> None:
    assert "[red]x[0]" in str(CacheReport.of([record("[red]x[0]", 1, 1)]))


def test_a_report_of_nothing_is_empty() -> None:
    report = CacheReport.of([])

    assert report.rows == ()
    assert report.hit_ratio is None
    assert render_text(report, width=60)
