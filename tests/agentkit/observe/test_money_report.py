"""The report with money: what was paid, planned and uncached, and why it was not less."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal as D
from typing import Any

from agentkit.caching import CacheReport, RequestRecord
from agentkit.caching.judge import judge
from agentkit.caching.policy import policy_for
from agentkit.observe.report import render_text, why
from agentkit.usage import Timing, Usage
from tests.agentkit.caching.judging import ANTHROPIC, NOON, TALK, answered, plan, sent, usage

VLLM = policy_for("vllm", "llama", NOON.date())


def record(given_: Usage, path: str = "boss", **verdict: Any) -> RequestRecord:
    settings: dict[str, Any] = {
        "policy": ANTHROPIC,
        "plan": plan(6_000, 2_000, hit=6),
        "at": NOON,
        "before": answered(sent(), tokens=6_000),
        "now": sent(talk=TALK),
        "gap_s": 5.0,
    }
    found = judge(usage=given_, **{**settings, **verdict})
    return RequestRecord(
        path=tuple(path.split("/")),
        model=found.model,
        usage=given_,
        timing=Timing(ttft_s=0.5),
        verdict=found,
    )


READ = record(usage(6_000, 2_000, 0))
MISSED = record(usage(0, 8_000, 0), path="boss/reader[0]")
SILENT = record(Usage(input_tokens=8_000, output_tokens=100))


def words(report: CacheReport, agent: str) -> list[str]:
    lines = [line.split() for line in str(report).splitlines() if line.strip()]
    return next(line[1:] for line in lines if line[0] == agent)


def test_what_was_paid_planned_and_uncached_is_shown() -> None:
    report = CacheReport.of([READ, MISSED])

    assert words(report, "boss")[-3:] == ["$0.0066", "$0.0066", "$0.017"]
    assert words(report, "boss/reader[0]")[-3:] == ["$0.021", "$0.0066", "$0.017"]
    assert words(report, "total")[-3:] == ["$0.0276", "$0.0132", "$0.034"]


def test_it_fits_on_a_line_of_100_columns() -> None:
    report = CacheReport.of([READ, MISSED])
    header = next(line for line in str(report).splitlines() if "agent" in line)

    assert "uncached" in header
    assert max(map(len, str(report).splitlines())) <= 100


def test_a_narrow_terminal_gets_fewer_columns_and_whole_numbers() -> None:
    report = CacheReport.of([READ, MISSED, SILENT])
    wide = render_text(report, width=100).split()

    for width in range(36, 101):
        lines = render_text(report, width=width).splitlines()
        start = next(index for index, line in enumerate(lines) if "prompt" in line)
        end = next(index for index, line in enumerate(lines) if line.startswith(" total"))
        shown = lines[start : end + 1]
        assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(shown)
        assert max(map(len, shown)) <= width
        assert "cost" in lines[start]
        assert set(lines[end].split()) <= set(wide)
    assert "planned" not in render_text(report, width=60)
    assert "uncached" in render_text(report, width=60)


def test_the_cause_and_what_it_cost_are_said_below() -> None:
    report = CacheReport.of([READ, MISSED, MISSED])

    (line,) = why(report)

    assert line.startswith(
        "  boss/reader[0]: evicted by the provider (2 calls, 12,000 tokens, $0.0288): "
    )
    assert "boss/reader[0]: evicted" in str(report)


def test_the_dearest_cause_comes_first() -> None:
    short = record(
        usage(0, 0, 80), "boss/short", before=None, plan=plan(0, 0, 80), now=sent(n_tokens=10)
    )
    report = CacheReport.of([short, MISSED])

    assert [line.split(":")[0].strip() for line in why(report)] == ["boss/reader[0]", "boss/short"]


def test_nothing_is_said_where_nothing_is_amiss() -> None:
    assert why(CacheReport.of([READ])) == []


def test_unknown_costs_make_sums_lower_bounds_and_are_explained() -> None:
    report = CacheReport.of([READ, SILENT])

    assert words(report, "total")[-3:] == ["$0.0066+", "$0.0132", "$0.034"]
    assert why(report)[-1].startswith("  1 of 2 requests have no known cost")
    assert words(CacheReport.of([SILENT]), "boss")[-3] == "unknown"


def test_a_model_without_a_price_has_unknown_money_and_a_cause_all_the_same() -> None:
    report = CacheReport.of([record(usage(0, 0, 8_000), policy=VLLM)])

    assert words(report, "boss")[-3:] == ["unknown", "unknown", "unknown"]
    assert "evicted" in why(report)[0]
    assert "$" not in why(report)[0]


def test_an_agent_on_a_local_model_has_empty_cells_beside_a_priced_one() -> None:
    local = replace(READ, path=("boss", "local"), model="local:small", verdict=None)
    report = CacheReport.of([READ, local])

    assert words(report, "boss/local")[-1] == "ms"
    assert words(report, "total")[-3] == "$0.0066"


def test_without_verdicts_the_report_is_as_it_was() -> None:
    local = replace(READ, verdict=None)
    report = CacheReport.of([local])

    assert report.total.money is None
    assert "TTFT median" in str(report)
    assert "$" not in str(report)
    assert "money_usd" not in report.total.to_json()
    assert set(report.to_json()) == {"rows", "total"}


def test_the_report_is_json_with_amounts_as_text() -> None:
    report = CacheReport.of([READ, MISSED, SILENT])

    value = json.loads(json.dumps(report.to_json()))

    money = value["total"]["money_usd"]
    assert money["cost"] == {"known": "0.0276", "unknown": 1}
    assert money["saved"] is None
    assert D(value["rows"][1]["money_usd"]["lost"]["known"]) == D("0.0144")
    assert {loss["cause"] for loss in value["losses"]} == {"evicted", "unreported"}


def test_a_cause_with_a_source_names_the_line() -> None:
    changed = record(
        usage(2_000, 6_000, 0),
        now=sent(talk=TALK, role="It is 12:01.", sources={1: "app.py:12"}),
    )

    text = render_text(CacheReport.of([changed]))

    assert "segment changed" in text
    assert "app.py:12" in text
    assert CacheReport.of([changed]).losses[0].to_json()["source"] == "app.py:12"
