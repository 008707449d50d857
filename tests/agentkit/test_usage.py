"""Unknown is a value: it is never counted as nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.usage import Timing, Usage

COUNTS = st.none() | st.integers(0, 10**9)
USAGES = st.builds(
    Usage,
    input_tokens=COUNTS,
    cache_read_tokens=COUNTS,
    cache_write_tokens=COUNTS,
    cache_write_long_tokens=COUNTS,
    output_tokens=COUNTS,
)


def test_unknown_plus_known_is_unknown() -> None:
    total = Usage(input_tokens=10, output_tokens=1) + Usage(input_tokens=5, cache_read_tokens=5)

    assert total == Usage(input_tokens=15)


@given(st.lists(USAGES, max_size=6), st.randoms())
def test_a_total_does_not_depend_on_the_order(usages: list[Usage], random: object) -> None:
    shuffled = usages[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert Usage.total(shuffled) == Usage.total(usages)


def test_the_total_of_nothing_is_known() -> None:
    assert Usage.total([]) == Usage(
        input_tokens=0,
        cache_read_tokens=0,
        cache_write_tokens=0,
        cache_write_long_tokens=0,
        output_tokens=0,
    )


@pytest.mark.parametrize(
    ("usage", "ratio"),
    [
        (Usage(input_tokens=100, cache_read_tokens=75), 0.75),
        (Usage(input_tokens=100, cache_read_tokens=0), 0.0),
        (Usage(input_tokens=100), None),
        (Usage(cache_read_tokens=3), None),
        (Usage(input_tokens=0, cache_read_tokens=0), None),
    ],
)
def test_the_hit_ratio_is_unknown_unless_both_counts_are_known(
    usage: Usage, ratio: float | None
) -> None:
    assert usage.hit_ratio == ratio


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="cache_read_tokens"):
        Usage(cache_read_tokens=-1)


def test_a_later_timing_refines_an_earlier_one() -> None:
    assert Timing(ttft_s=1.0).merge(Timing(total_s=2.0)) == Timing(ttft_s=1.0, total_s=2.0)
