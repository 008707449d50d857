"""Sums in which the unknown stays visible, exact in any order."""

from __future__ import annotations

import random
from decimal import Decimal as D
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.ledger import AtLeast
from agentkit.caching.ledger.amounts import plain

PARTS = st.lists(
    st.none() | st.decimals(min_value=0, max_value=10**12, places=20, allow_nan=False), max_size=20
)


@given(PARTS, st.randoms(use_true_random=False))
def test_a_sum_is_exact_and_does_not_depend_on_the_order(
    parts: list[D | None], order: random.Random
) -> None:
    shuffled = parts[:]
    order.shuffle(shuffled)

    total = AtLeast.of(parts)

    assert total == AtLeast.of(shuffled)
    assert Fraction(total.known) == sum(Fraction(part) for part in parts if part is not None)
    assert total.unknown == parts.count(None)


@given(PARTS, PARTS)
def test_two_sums_together_are_the_sum_of_all(
    first: list[D | None], second: list[D | None]
) -> None:
    assert AtLeast.of(first).plus(AtLeast.of(second)) == AtLeast.of([*first, *second])


def test_more_digits_than_usual_are_kept() -> None:
    parts = [D("1e20"), D("1e-20"), D("-1e20")]

    assert AtLeast.of(parts).known == D("1e-20")


def test_an_unknown_part_makes_it_a_lower_bound() -> None:
    total = AtLeast.of([D("1.50"), None, D("0.25"), None])

    assert total.exact is None
    assert str(total) == "at least 1.75 (2 requests unknown)"
    assert total.to_json() == {"known": "1.75", "unknown": 2}


def test_a_known_sum_is_just_a_number() -> None:
    assert str(AtLeast.of([D("1.50"), D("0.50")])) == "2"
    assert AtLeast.of([]).exact == 0


def test_a_difference_is_known_only_if_both_are() -> None:
    assert AtLeast.of([D(3)]).minus(AtLeast.of([D(1)])) == 2
    assert AtLeast.of([D(3), None]).minus(AtLeast.of([D(1)])) is None
    assert AtLeast.of([D(3)]).minus(AtLeast.of([None])) is None


@pytest.mark.parametrize(
    ("amount", "text"), [("1E+3", "1000"), ("0.0000001", "0.0000001"), ("2.500", "2.5"), ("0", "0")]
)
def test_amounts_are_written_without_exponents(amount: str, text: str) -> None:
    assert plain(D(amount)) == text
