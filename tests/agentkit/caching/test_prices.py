"""Where a price comes from; and our own rows against those of genai-prices."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal as D
from typing import Any

import genai_prices
import pytest

from agentkit.caching.package_prices import package_price
from agentkit.caching.policy import (
    Platform,
    PriceRow,
    Provider,
    Rates,
    Speed,
    Terms,
    Ttl,
    policy_for,
)
from agentkit.caching.policy.anthropic_prices import PRICES as ANTHROPIC_PRICES
from agentkit.caching.policy.compatible_prices import PRICES as COMPATIBLE_PRICES
from agentkit.caching.policy.gemini_prices import prices as gemini_prices
from agentkit.caching.policy.openai_prices import PRICES as OPENAI_PRICES
from agentkit.caching.policy.source import note
from agentkit.caching.prices import Price, PriceBook
from agentkit.errors import ConfigurationError

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
TODAY = NOON.date()
OWN = Rates(input=D("0.20"), read=D("0.02"), output=D(1))


def price(
    provider: str,
    model: str,
    *,
    book: PriceBook | None = None,
    n_tokens: int = 1_000,
    terms: Terms | None = None,
    raw: str | None = None,
) -> Price | None:
    policy = policy_for(provider, model, TODAY)
    return (book or PriceBook()).price(policy, n_tokens, NOON, terms, model=raw)


def test_our_own_rows_come_first_and_say_where_they_are_from() -> None:
    found = price("anthropic", "claude-sonnet-5-5")

    assert found is not None
    assert (found.rates.input, found.rates.read) == (D(2), D("0.10"))
    assert found.source == "policy (package 2026-11-29)"


def test_the_package_is_asked_where_we_are_silent_and_named_with_its_version() -> None:
    found = price("openai", "gpt-5.2")

    assert policy_for("openai", "gpt-5.2", TODAY).prices is None
    assert found is not None
    assert found.rates.input == D("1.75")
    assert found.source == f"genai-prices {genai_prices.__version__} (gpt-5.2)"


def test_the_packages_writes_have_the_providers_lifetimes() -> None:
    found = price("anthropic", "claude-opus-4-1")

    assert found is not None
    assert found.rates.writes == ((Ttl.FIVE_MINUTES, D("18.75")), (Ttl.ONE_HOUR, D(30)))


def test_the_packages_price_depends_on_the_length_of_the_prompt() -> None:
    short, long = (price("xai", "grok-4.20", n_tokens=n) for n in (199_999, 200_000))

    assert short is not None
    assert long is not None
    assert (short.rates.input, long.rates.input) == (D("1.25"), D("2.5"))


def test_a_read_without_a_price_costs_what_input_costs() -> None:
    found = price("openai", "gpt-5.2-pro")

    assert found is not None
    assert found.rates.read == found.rates.input == 21


@pytest.mark.parametrize(
    ("provider", "model"), [("openai", "gpt-9"), ("anthropic", "claude-next"), ("vllm", "llama")]
)
def test_nobodys_price_is_unknown(provider: str, model: str) -> None:
    assert price(provider, model) is None


@pytest.mark.parametrize(
    "terms",
    [
        Terms(us_only=True),
        Terms(regional=True),
        Terms(speed=Speed.FAST, batch=True),
        Terms(speed=Speed.FAST),
    ],
)
def test_terms_that_the_package_does_not_price_are_unknown(terms: Terms) -> None:
    assert price("openai", "gpt-5.2-pro", terms=terms) is None


def test_the_package_prices_batches() -> None:
    found = price("openai", "gpt-5.2", terms=Terms(batch=True))

    assert found is not None
    assert found.rates.input == D("0.875")


def test_the_package_is_not_asked_for_another_platform() -> None:
    policy = policy_for("openai", "gpt-5.2", TODAY, platform=Platform.AZURE)

    assert PriceBook().price(policy, 1_000, NOON) is None


def test_without_the_package_the_price_is_unknown(no_package: None) -> None:
    assert price("openai", "gpt-5.2") is None
    assert price("openai", "gpt-6-sol") is not None


def test_the_package_can_be_left_out() -> None:
    assert price("openai", "gpt-5.2", book=PriceBook(package=False)) is None


class TestOverrides:
    def test_a_self_hosted_model_gets_the_users_price(self) -> None:
        found = price("vllm", "llama-3-70b", book=PriceBook(overrides={"llama-3-70b": OWN}))

        assert found == Price(rates=OWN, source="override")

    def test_they_beat_our_own_rows(self) -> None:
        book = PriceBook(overrides={"claude-sonnet-5-5": OWN})

        found = price("anthropic", "claude-sonnet-5-5", book=book)

        assert found == Price(rates=OWN, source="override")

    def test_one_for_a_provider_beats_one_for_all(self) -> None:
        other = replace(OWN, input=D(7))
        book = PriceBook(overrides={"llama": OWN, "sglang:llama": other})

        assert price("vllm", "llama", book=book) == Price(rates=OWN, source="override")
        assert price("sglang", "llama", book=book) == Price(rates=other, source="override")

    def test_the_name_on_the_wire_is_known_too(self) -> None:
        book = PriceBook(overrides={"org/llama-3-70b": OWN})

        assert price("vllm", "org/llama-3-70b", book=book, raw="org/llama-3-70b") is not None

    def test_a_row_holds_from_its_first_day_on_and_under_its_terms(self) -> None:
        row = PriceRow(
            models=("llama",), rates=OWN, source=note("2026-11-01"), valid_from=date(2026, 12, 1)
        )
        book = PriceBook(overrides={"llama": row})

        assert price("vllm", "llama", book=book) is None
        valid = PriceBook(overrides={"llama": replace(row, valid_from=TODAY)})
        assert price("vllm", "llama", book=valid) is not None
        assert price("vllm", "llama", book=valid, terms=Terms(batch=True)) is None

    def test_plans_reckon_with_them_too(self) -> None:
        policy = policy_for("vllm", "llama", TODAY)
        book = PriceBook(overrides={"llama": OWN})

        priced = book.applied(policy)

        assert policy.prices is None
        assert priced.prices is not None
        assert priced.prices.rates_for(1, NOON) == OWN
        assert str(priced.prices.source) == "user 2026-11-27"
        assert book.price(priced, 1_000, NOON) == Price(rates=OWN, source="override")

    def test_without_one_a_policy_stays_as_it_is(self) -> None:
        policy = policy_for("anthropic", "claude-sonnet-5-5", TODAY)

        assert PriceBook(overrides={"llama": OWN}).applied(policy) is policy

    def test_what_is_no_price_is_refused(self) -> None:
        wrong: Any = {"llama": 3}

        with pytest.raises(ConfigurationError, match="llama"):
            PriceBook(overrides=wrong)


DAYS = [date(2026, 9, 15), date(2026, 10, 20), TODAY, date(2026, 11, 28), date(2027, 2, 1)]
LENGTHS = (1_000, 150_000, 200_000, 250_000, 300_000)
TERMS = {
    "standard": Terms(),
    "batch": Terms(batch=True),
    "fast": Terms(speed=Speed.FAST),
}

EXPLAINED = {
    # provider, model, terms: why ours is another, for some day, hour or length
    ("deepseek", "deepseek-flash", "standard"): "its peak hours have no weekends",
    ("deepseek", "deepseek-v4-pro", "standard"): "its peak hours have no weekends",
    ("gemini", "gemini-3.8-flash", "batch"): "a contradiction: Switches.gemini_batch_read",
    ("gemini", "gemini-4-argon", "batch"): "a contradiction: Switches.gemini_batch_read",
    ("mistral", "mistral-large-4", "standard"): "our row has no earlier prices (until 2026-10-28)",
    ("openai", "gpt-4.1", "batch"): "it has no batch price for reads of this model",
    ("openai", "gpt-4o", "batch"): "it has no batch price for reads of this model",
    ("openai", "gpt-5.4", "batch"): "it rounds the read price to cents",
    ("openai", "gpt-5.4", "fast"): "it has no fast prices above 272k tokens",
    ("openai", "gpt-5.5", "fast"): "it has no fast prices above 272k tokens",
}


def our_models() -> list[tuple[Provider, str]]:
    rows = [(Provider.ANTHROPIC, row) for row in ANTHROPIC_PRICES]
    rows += [(Provider.OPENAI, row) for row in OPENAI_PRICES]
    rows += [(Provider.GEMINI, row) for row in gemini_prices(half_batch_reads=False)]
    rows += COMPATIBLE_PRICES
    models = {(provider, model) for provider, row in rows for model in row.models}
    return sorted({*models, *((Provider.DEEPSEEK, f"deepseek-{m}") for m in ("flash", "v4-pro"))})


def differences() -> Iterator[tuple[str, str, str]]:
    """Every model and term for which both sides know a price, and not the same one."""
    for provider, model in our_models():
        for on in DAYS:
            policy = policy_for(provider, model, on)
            for hour in (2, 12):
                at = datetime(on.year, on.month, on.day, hour, tzinfo=UTC)
                for name, terms in TERMS.items():
                    for n_tokens in LENGTHS:
                        row = policy.prices
                        ours = None if row is None else row.rates_for(n_tokens, at, terms)
                        theirs = package_price(
                            provider, Platform.DIRECT, model, n_tokens, at, terms
                        )
                        if ours and theirs and not same(ours, theirs[0]):
                            yield provider.value, model, name


def same(ours: Rates, theirs: Rates) -> bool:
    """The package has not all lifetimes; those that both have must agree."""
    mine, other = dict(ours.writes), dict(theirs.writes)
    return (ours.input, ours.read, ours.output) == (
        theirs.input,
        theirs.read,
        theirs.output,
    ) and all(mine[ttl] == other[ttl] for ttl in mine.keys() & other.keys())


def test_our_rows_agree_with_the_package_but_for_differences_that_are_explained() -> None:
    assert set(differences()) == set(EXPLAINED)


def test_the_package_knows_most_of_our_models() -> None:
    known = [
        model
        for provider, model in our_models()
        if package_price(provider, Platform.DIRECT, model, 1_000, NOON, Terms())
    ]

    assert len(known) > 0.8 * len(our_models())


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("genai_prices"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
