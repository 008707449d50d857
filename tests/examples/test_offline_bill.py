"""Clerks that start together share one write, and the report says what that saved."""

from __future__ import annotations

from decimal import Decimal

import pytest

from examples.offline_bill import LETTERS, MODELS, bill, main


@pytest.mark.parametrize("model", MODELS)
async def test_one_clerk_writes_the_front_and_the_others_read_it(model: str) -> None:
    report = await bill(model)
    assert [row.requests for row in report.rows] == [2] * len(LETTERS)
    first, *others = [row.usage.hit_ratio for row in report.rows]
    assert first is not None
    assert 0.45 < first < 0.5  # nothing in the first of two requests, all that can be in the second
    assert all(ratio is not None and ratio > 0.95 for ratio in others)
    assert report.losses == ()


@pytest.mark.parametrize("model", MODELS)
async def test_what_is_paid_is_what_was_planned_and_far_below_the_uncached_price(
    model: str,
) -> None:
    money = (await bill(model)).total.money
    assert money is not None
    paid, planned, uncached = money.cost.exact, money.planned.exact, money.uncached.exact
    assert paid is not None
    assert planned is not None
    assert uncached is not None
    assert abs(paid - planned) < paid / 100
    assert paid < uncached * Decimal("0.35")


def test_it_prints_a_report_and_the_savings_for_each_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main()
    printed = capsys.readouterr().out
    for model in MODELS:
        assert f"{model}\n\n" in printed
    assert printed.count("The cache saved 0.0") == len(MODELS)
    assert printed.count("desk/clerk[3]") == len(MODELS)
