"""Prices by day, length, hour and terms; the known economics of caching, to the cent."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal as D

import pytest

from agentkit.caching.policy import (
    GeminiBatchRead,
    InputSplit,
    Platform,
    PriceRow,
    Rates,
    Speed,
    Switches,
    Terms,
    Ttl,
    anthropic_policy,
    break_even_reads,
    cost_of,
    gemini_policy,
    keep_alive_pings,
    kv_bytes_per_token,
    padding_pays,
    policy_for,
)

TODAY = date(2026, 11, 29)
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)  # a Friday
MILLION = 1_000_000


def _row(provider: str, model: str, on: date = TODAY) -> PriceRow:
    row = policy_for(provider, model, on).prices
    assert row is not None
    return row


def _rates(
    provider: str,
    model: str,
    *,
    on: date = TODAY,
    n_tokens: int = 1000,
    at: datetime = NOON,
    terms: Terms | None = None,
) -> Rates:
    rates = _row(provider, model, on).rates_for(n_tokens, at, terms)
    assert rates is not None
    return rates


@pytest.mark.parametrize(
    ("provider", "model", "prices"),
    [
        ("anthropic", "claude-fable-5-2", "8 10 16 0.20 40"),
        ("anthropic", "claude-fable-5-1", "10 12.5 20 0.25 50"),
        ("anthropic", "claude-opus-5-5", "4 5 8 0.20 20"),
        ("anthropic", "claude-opus-4-5", "5 6.25 10 0.50 25"),
        ("anthropic", "claude-sonnet-5-5", "2 2.5 4 0.10 10"),
        ("anthropic", "claude-sonnet-5", "2 2.5 4 0.20 10"),
        ("anthropic", "claude-sonnet-4-6", "3 3.75 6 0.30 15"),
        ("anthropic", "claude-haiku-5-5", "0.10 0.125 0.20 0.01 0.50"),
        ("anthropic", "claude-haiku-4-5", "1 1.25 2 0.10 5"),
        ("openai", "gpt-6.2-astra", "8 10 20 0.40 40"),
        ("openai", "gpt-6.1-terra", "1 1.25 2.5 0.05 5"),
        ("openai", "gpt-6-luna", "0.10 0.125 0.25 0.01 0.50"),
        ("openai", "gpt-5.6-sol", "4 5 10 0.40 20"),
        ("moonshot", "kimi-k3.1-pro", "2 2 4 0.20 10"),
    ],
)
def test_prices_with_two_write_lifetimes_are_as_published(
    provider: str, model: str, prices: str
) -> None:
    rates = _rates(provider, model)
    short, long = (price for _, price in rates.writes)
    found = (rates.input, short, long, rates.read, rates.output)
    assert found == tuple(D(price) for price in prices.split())


@pytest.mark.parametrize(
    ("provider", "model", "prices"),
    [
        ("openai", "gpt-5.5", "5 0.50 30"),
        ("openai", "gpt-5.4-mini", "0.75 0.075 4.5"),
        ("openai", "gpt-4o", "2.5 1.25 10"),
        ("xai", "grok-4.7", "2 0.50 6"),
        ("mistral", "mistral-large-4", "0.70 0.07 2.1"),
        ("groq", "openai/gpt-oss-120b", "0.15 0.075 0.60"),
    ],
)
def test_prices_without_a_write_fee_are_as_published(
    provider: str, model: str, prices: str
) -> None:
    rates = _rates(provider, model)
    assert rates.writes == ()
    assert (rates.input, rates.read, rates.output) == tuple(D(price) for price in prices.split())


def test_an_unknown_model_has_no_price_rather_than_price_zero() -> None:
    models = [("anthropic", "claude-3-5-haiku"), ("openai", "gpt-7"), ("vllm", "m")]
    assert [policy_for(*model, TODAY).prices for model in models] == [None] * 3
    assert policy_for("openai", "gpt-7", TODAY).read_multiplier is None


def test_a_model_has_no_price_before_its_release() -> None:
    assert policy_for("anthropic", "claude-opus-5-5", date(2026, 9, 21)).prices is None
    assert policy_for("anthropic", "claude-opus-5-5", date(2026, 9, 22)).prices is not None


@pytest.mark.parametrize(
    ("provider", "model", "day", "before", "after"),
    [
        ("anthropic", "claude-sonnet-5-5", date(2026, 10, 7), "0.20", "0.10"),
        ("gemini", "gemini-4-argon", date(2026, 12, 1), "0.10", "0.20"),
        ("gemini", "gemini-3.8-flash", date(2027, 1, 1), "0.075", "0.15"),
    ],
)
def test_reads_change_their_price_on_the_announced_day(
    provider: str, model: str, day: date, before: str, after: str
) -> None:
    eve = day - timedelta(days=1)
    assert _rates(provider, model, on=eve).read == D(before)
    assert _rates(provider, model, on=day).read == D(after)


@pytest.mark.parametrize(
    ("model", "multiplier"),
    [
        ("claude-opus-5-5", "0.05"),
        ("claude-sonnet-5-5", "0.05"),
        ("claude-fable-5-1", "0.025"),
        ("claude-mythos-5-2", "0.025"),
        ("claude-opus-5", "0.1"),
        ("claude-haiku-5-5", "0.1"),
    ],
)
def test_read_multipliers_are_not_one_tenth_everywhere(model: str, multiplier: str) -> None:
    assert anthropic_policy(model, TODAY).read_multiplier == D(multiplier)


@pytest.mark.parametrize(
    ("provider", "model", "last_cheap", "factor"),
    [
        ("anthropic", "claude-haiku-5-5", 100_000, 5),
        ("openai", "gpt-5.4", 272_000, 2),
        ("openai", "gpt-6-sol", 272_000, 2),
        ("gemini", "gemini-3.1-pro-preview", 200_000, 2),
        ("xai", "grok-4.5", 199_999, 2),
    ],
)
def test_a_long_prompt_pays_more_for_every_token(
    provider: str, model: str, last_cheap: int, factor: int
) -> None:
    short = _rates(provider, model, n_tokens=last_cheap)
    long = _rates(provider, model, n_tokens=last_cheap + 1)
    assert (long.input, long.read) == (short.input * factor, short.read * factor)


def test_a_long_openai_prompt_pays_half_more_for_output() -> None:
    assert _rates("openai", "gpt-6-sol", n_tokens=272_001).output == D(15)


@pytest.mark.parametrize(
    ("at", "peak"),
    [
        ("2026-11-27T00:59", False),
        ("2026-11-27T01:00", True),
        ("2026-11-27T04:00", False),
        ("2026-11-27T06:00", True),
        ("2026-11-27T09:59", True),
        ("2026-11-27T10:00", False),
        ("2026-11-28T07:00", False),  # Saturday
    ],
)
def test_deepseek_charges_double_at_peak_hours_and_also_for_hits(at: str, peak: bool) -> None:
    moment = datetime.fromisoformat(at).replace(tzinfo=UTC)
    rates = _rates("deepseek", "deepseek-flash", at=moment)
    expected = (D("0.30"), D("0.006")) if peak else (D("0.15"), D("0.003"))
    assert (rates.input, rates.read) == expected


def test_peak_hours_are_in_utc_whatever_the_clock_says() -> None:
    beijing = datetime(2026, 11, 27, 9, tzinfo=timezone(timedelta(hours=8)))
    assert _rates("deepseek", "deepseek-flash", at=beijing).input == D("0.30")
    peak = _row("deepseek", "deepseek-flash").peak
    assert peak is not None
    with pytest.raises(ValueError, match="no time zone"):
        peak.is_peak(datetime(2026, 11, 27, 9))


def test_fast_batch_and_region_multiply() -> None:
    fast = _rates("anthropic", "claude-opus-5", terms=Terms(speed=Speed.FAST))
    assert (fast.input, fast.read, fast.write(Ttl.ONE_HOUR), fast.output) == (10, 1, 20, 50)
    both = _rates("anthropic", "claude-opus-5", terms=Terms(batch=True, us_only=True))
    assert (both.input, both.read) == (D("2.75"), D("0.275"))
    assert _rates("openai", "gpt-6-sol", terms=Terms(speed=Speed.FAST)).input == 4
    assert _rates("openai", "gpt-6-sol", n_tokens=300_000, terms=Terms(speed=Speed.FAST)).input == 8


def test_terms_without_a_published_price_are_unknown() -> None:
    rows = [
        (_row("anthropic", "claude-sonnet-5"), Terms(speed=Speed.FAST)),
        (_row("anthropic", "claude-opus-4-5"), Terms(us_only=True)),
        (_row("anthropic", "claude-opus-5"), Terms(regional=True)),
        (_row("deepseek", "deepseek-flash"), Terms(batch=True)),
    ]
    assert [row.rates_for(1000, NOON, terms) for row, terms in rows] == [None] * 4
    haiku = _row("anthropic", "claude-haiku-5-5")
    assert haiku.rates_for(200_000, NOON, Terms(speed=Speed.FAST)) is None


def test_regional_endpoints_cost_a_tenth_more_on_the_clouds() -> None:
    row = anthropic_policy("claude-opus-5", TODAY, platform=Platform.BEDROCK).prices
    assert row is not None
    rates = row.rates_for(1000, NOON, Terms(regional=True))
    assert rates is not None
    assert rates.input == D("5.5")


def test_gemini_batch_reads_are_behind_a_switch() -> None:
    half = Switches(gemini_batch_read=GeminiBatchRead.HALF)
    found = []
    for switches in (Switches(), half):
        row = gemini_policy("gemini-3.8-flash", TODAY, switches=switches).prices
        assert row is not None
        rates = row.rates_for(1000, NOON, Terms(batch=True))
        assert rates is not None
        found.append((rates.input, rates.read))
    assert found == [(D("0.375"), D("0.075")), (D("0.375"), D("0.0375"))]


def test_a_hundred_million_tokens_a_day_cost_300_uncached_and_84_at_80_percent_reads() -> None:
    """The premium for having written the rest stands beside the bill without it."""
    rates = _rates("anthropic", "claude-sonnet-4-6")
    assert (rates.input, rates.read) == (D("3"), D("0.30"))
    uncached = cost_of(InputSplit(read=0, uncached=100 * MILLION), rates)
    cached = cost_of(InputSplit(read=80 * MILLION, uncached=20 * MILLION), rates)
    written = cost_of(
        InputSplit(read=80 * MILLION, writes=((Ttl.FIVE_MINUTES, 20 * MILLION),), uncached=0), rates
    )
    assert (uncached.total, cached.total) == (D("300.00"), D("84.00"))
    assert written.write_premium == D("15.00")
    assert written.total == cached.total + written.write_premium


def test_a_cost_has_its_parts_and_its_output() -> None:
    rates = _rates("anthropic", "claude-sonnet-5-5")
    split = InputSplit(read=1000, writes=((Ttl.ONE_HOUR, 2000),), uncached=3000)
    cost = cost_of(split, rates, output_tokens=100)
    assert (cost.read, cost.write, cost.uncached, cost.output) == (
        D("0.0001"),
        D("0.008"),
        D("0.006"),
        D("0.001"),
    )
    assert cost.write_premium == D("0.004")
    assert split.total == 6000
    assert split.wrote(Ttl.FIVE_MINUTES) == 0


def test_a_lifetime_that_is_not_sold_has_no_price() -> None:
    split = InputSplit(read=0, writes=((Ttl.TWELVE_HOURS, 10),), uncached=0)
    with pytest.raises(ValueError, match=r"'12h'.*5m, 1h"):
        cost_of(split, _rates("anthropic", "claude-sonnet-5-5"))


@pytest.mark.parametrize(
    ("write", "read", "expected"),
    [
        ("1.25", "0.1", "0.28"),
        ("1.25", "0.05", "0.26"),
        ("1.25", "0.025", "0.26"),
        ("2", "0.1", "1.11"),
        ("2", "0.05", "1.05"),
        ("2", "0.025", "1.03"),
        ("2.5", "0.1", "1.67"),
        ("2.5", "0.05", "1.58"),
    ],
)
def test_writes_pay_from_this_many_expected_reads(write: str, read: str, expected: str) -> None:
    assert round(break_even_reads(D(write), D(read)), 2) == D(expected)


@pytest.mark.parametrize(("read", "pings"), [("0.1", 11), ("0.05", 24), ("0.025", 49)])
def test_keeping_alive_is_cheaper_than_one_miss_for_this_many_pings(read: str, pings: int) -> None:
    assert keep_alive_pings(D("1.25"), D(read)) == pings


def test_padding_a_short_prefix_pays_only_when_it_is_read_often_enough() -> None:
    read, write = D("0.1"), D("1.25")
    assert padding_pays(900, 1024, write=write, read=read, n_requests=10)
    assert not padding_pays(900, 1024, write=write, read=read, n_requests=1)
    assert not padding_pays(100, 1024, write=write, read=read, n_requests=1000)


def test_kv_sizes_of_known_models_come_out_exactly() -> None:
    """Llama-3-70B: 80 layers, 8 KV heads of 128; OPT-13B: 40 layers, 40 heads of 128."""
    assert kv_bytes_per_token(layers=80, kv_heads=8, head_dim=128, dtype_bytes=2) == 327_680
    assert kv_bytes_per_token(layers=40, kv_heads=40, head_dim=128, dtype_bytes=2) == 819_200


def test_formulas_refuse_what_they_cannot_mean() -> None:
    with pytest.raises(ValueError, match=r"layers.*0"):
        kv_bytes_per_token(layers=0, kv_heads=8, head_dim=128, dtype_bytes=2)
    with pytest.raises(ValueError, match="read must be"):
        break_even_reads(D(2), D(1))
    with pytest.raises(ValueError, match="no bound"):
        keep_alive_pings(D(2), D(0))
    with pytest.raises(ValueError, match="n_requests"):
        padding_pays(1, 2, write=D(2), read=D(0), n_requests=0)
