"""Never slower than recomputing: decisions as a table, and what they learn from."""

from __future__ import annotations

import pytest

from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, Medium
from agentkit_runtime.kv.tiers.breakeven import (
    MARGIN,
    STALE_S,
    ComputeCost,
    FetchCost,
    PrefillModel,
    Speed,
    worth_fetching,
    worth_saving,
)
from agentkit_runtime.kv.tiers.worth import BreakEven

H, D = Medium.HOST, Medium.DISK
BLOCK_S = ComputeCost(1.0 / BLOCK_TOKENS)
"""One second for a block."""


@pytest.mark.parametrize(
    ("media", "fetch", "expected"),
    [
        ([], FetchCost(0.0, 0.0, 0.0), 0),
        ([H, H, H], FetchCost(0.5, 9.0, 9.0), 3),
        ([H, H, H], FetchCost(0.7, 0.0, 0.0), 0),
        ([D, D], FetchCost(0.1, 0.1, 0.9), 2),  # 2 s against 1.5 * 1.3 s
        ([D, D], FetchCost(0.1, 0.1, 1.0), 0),
        ([D], FetchCost(0.1, 0.1, 0.6), 0),  # the latency pays from two blocks on
        ([H, D], FetchCost(0.1, 0.9, 0.0), 1),  # the part from disk would be slower
        ([H, D, H, H], FetchCost(0.1, 0.9, 0.0), 4),  # but it is the way to the rest
        ([D, H], FetchCost(0.1, 5.0, 0.0), 0),
    ],
)
def test_what_is_fetched_is_what_saves_most_time(
    media: list[Medium], fetch: FetchCost, expected: int
) -> None:
    assert worth_fetching(media, cached_tokens=0, compute=BLOCK_S, fetch=fetch) == expected


def test_attention_over_a_long_context_makes_fetching_worth_it() -> None:
    compute = ComputeCost(token_s=0.001, pair_s=1e-6)
    fetch = FetchCost(0.03, 0.0, 0.0)
    decided = [
        worth_fetching([H], cached_tokens=n, compute=compute, fetch=fetch)
        for n in (0, 1_000, 2_000, 8_000)
    ]
    assert decided == [0, 0, 1, 1]


def test_a_fetch_that_is_chosen_is_never_predicted_slower() -> None:
    compute = ComputeCost(0.01, 1e-5)
    for host in (0.01, 0.1, 0.5):
        for disk in (0.01, 0.2):
            for latency in (0.0, 0.3, 3.0):
                fetch = FetchCost(host, disk, latency)
                for media in ([H] * 5, [D] * 5, [H, D] * 3, [D, D, H]):
                    n = worth_fetching(media, cached_tokens=64, compute=compute, fetch=fetch)
                    n_disk = media[:n].count(D)
                    cost = fetch.seconds(n - n_disk, n_disk)
                    assert MARGIN * cost <= compute.seconds(n * BLOCK_TOKENS, 64)


def test_only_what_can_ever_pay_is_saved() -> None:
    fetch = FetchCost(0.5, 0.5, 100.0)  # latency does not count: it is shared by many
    assert worth_saving(H, index=0, compute=BLOCK_S, fetch=fetch)
    assert not worth_saving(D, index=0, compute=BLOCK_S, fetch=fetch)
    deep = ComputeCost(1.0 / BLOCK_TOKENS, 1e-3)
    assert worth_saving(D, index=100, compute=deep, fetch=fetch)


def test_prefill_learns_both_parts_of_its_cost() -> None:
    model = PrefillModel()
    assert model.cost is None
    true = ComputeCost(0.002, 3e-7)
    for n, context in [(512, 256), (512, 768), (100, 4_000), (512, 2_000)] * 5:
        model.observe(n, true.seconds(n, 0) + n * true.pair_s * (context - (n - 1) / 2), context)
    cost = model.cost
    assert cost is not None
    assert cost.token_s == pytest.approx(0.002)
    assert cost.pair_s == pytest.approx(3e-7)


def test_without_contexts_prefill_learns_the_mean() -> None:
    model = PrefillModel()
    for _ in range(5):
        model.observe(100, 0.5, 0)
    assert model.cost == ComputeCost(pytest.approx(0.005), 0.0)


def test_newer_prefills_count_more() -> None:
    model = PrefillModel()
    for _ in range(100):
        model.observe(100, 1.0, 0)
    for _ in range(100):
        model.observe(100, 0.1, 0)
    assert model.cost is not None
    assert model.cost.token_s == pytest.approx(0.001, rel=0.1)


@pytest.mark.parametrize("trend", [-1.0, 1.0])
def test_prefill_never_learns_a_negative_cost(trend: float) -> None:
    model = PrefillModel()
    for context in (0, 1_000, 2_000, 4_000):
        seconds = 1.0 - context / 5_000 if trend < 0 else 0.01 + context / 100
        model.observe(100, seconds, context)
    cost = model.cost
    assert cost is not None
    assert cost.token_s >= 0
    assert cost.pair_s >= 0
    assert cost.seconds(16, 500) > 0


def test_steps_that_say_nothing_are_ignored() -> None:
    model = PrefillModel()
    model.observe(3, 1.0, 0)
    model.observe(100, 0.0, 0)
    assert model.cost is None


def test_a_speed_follows_what_is_observed_but_no_outlier() -> None:
    speed = Speed(1e9, lambda: 0.0)
    speed.observe(1 << 30, 1e6)
    assert speed.seconds(10**9) < 2.0
    for _ in range(50):
        speed.observe(10**9, 2.0)
    assert speed.seconds(10**9) == pytest.approx(2.0, rel=0.01)


def test_small_transfers_do_not_count_as_speed() -> None:
    speed = Speed(1e9, lambda: 0.0)
    speed.observe(1_000, 1.0)
    assert speed.seconds(10**9) == pytest.approx(1.0)


def test_a_speed_that_nobody_observes_any_more_is_not_believed_for_ever() -> None:
    now = [0.0]
    speed = Speed(1e9, lambda: now[0])
    for _ in range(50):
        speed.observe(10**9, 100.0)
    assert speed.seconds(10**9) > 50
    now[0] = STALE_S + 1
    assert speed.seconds(10**9) == pytest.approx(1.0)


def test_a_speed_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        Speed(0.0, lambda: 0.0)


def worth(lower_bound: ComputeCost | None = None) -> BreakEven:
    """A row of 1 MB; 1 GB/s from host memory, 100 MB/s from disk."""
    return BreakEven(
        bytes_per_token=1_000_000,
        host_speed=1e9,
        disk_speed=1e8,
        lower_bound=lower_bound,
        clock=lambda: 0.0,
    )


def test_nothing_is_fetched_while_it_is_not_known_what_computing_costs() -> None:
    assert worth().fetching([H] * 9, cached_tokens=0) == 0


def test_after_a_restart_a_lower_bound_stands_for_what_computing_costs() -> None:
    slow = worth(ComputeCost(0.1))
    fast = worth(ComputeCost(0.001))
    assert (slow.fetching([D], cached_tokens=0), fast.fetching([D], cached_tokens=0)) == (1, 0)


def test_everything_is_saved_until_a_prefill_was_measured() -> None:
    w = worth(ComputeCost(1e-9))
    assert w.saving(D, index=0)
    w.note_prefill(100, 0.2, 0)  # 2 ms a token: 1 from host memory, 11 from disk
    assert (w.saving(H, index=0), w.saving(D, index=0)) == (True, False)
    w.note_prefill(100, 0.05, 0)


def test_real_transfers_change_the_decision() -> None:
    w = worth()
    w.note_prefill(100, 0.3, 0)
    assert w.fetching([H] * 4, cached_tokens=0) == 4
    for _ in range(50):
        w.note_load(64, 64 * 0.004)
    assert w.fetching([H] * 4, cached_tokens=0) == 0
    w = worth()
    w.note_prefill(100, 0.3, 0)
    assert w.fetching([D] * 40, cached_tokens=0) == 0
    for _ in range(50):
        w.note_disk_read(4, 64 * 0.0001)
    assert w.fetching([D] * 40, cached_tokens=0) == 40
