"""What the ledger says was served, what it cost, and why the cache missed."""

from __future__ import annotations

from decimal import Decimal

import httpx2
from anthropic import AsyncAnthropic

from agentkit.caching.policy import Platform, Switches, TwelveHours
from agentkit.caching.times import VirtualTime
from agentkit.fake import FakeProvider, create_app

RULES = "Follow the rules. " * 400


async def ask(client: AsyncAnthropic, *, marked: bool = True) -> None:
    mark = {"cache_control": {"type": "ephemeral"}} if marked else {}
    await client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=50,
        system=[{"type": "text", "text": RULES, **mark}],  # type: ignore[typeddict-item]
        messages=[{"role": "user", "content": "x"}],
    )


async def test_costs_are_those_of_the_price_list(
    anthropic: AsyncAnthropic, fake: FakeProvider
) -> None:
    """Sonnet 5.5: 2 USD a million tokens in, 2.50 written, 0.10 read, 10 out."""
    await ask(anthropic)
    await ask(anthropic)
    (total,) = fake.ledger()["totals"]
    written, read, rest, output = (
        Decimal(total[name]) for name in ("written", "read", "uncached", "output")
    )
    assert read == written > 0
    million = Decimal(1_000_000)
    cost = (written * Decimal("2.5") + read * Decimal("0.1") + rest * 2 + output * 10) / million
    assert Decimal(total["cost"]) == cost
    assert Decimal(total["uncached_cost"]) == ((written + read + rest) * 2 + output * 10) / million


async def test_each_request_says_why_it_missed(
    anthropic: AsyncAnthropic, fake: FakeProvider, time: VirtualTime
) -> None:
    await ask(anthropic)
    await ask(anthropic)
    await time.advance(400)
    await ask(anthropic)
    await ask(anthropic, marked=False)
    rows = fake.ledger()["requests"]
    assert [row["miss"] and row["miss"]["reason"] for row in rows] == [
        "never_written",
        None,
        "expired",
        "no_marks",
    ]
    assert rows[2]["miss"]["lost_tokens"] == rows[0]["written"]["5m"]
    report = fake.report()
    assert "expired: 1 requests" in report
    assert "anthropic:claude-sonnet-5-5" in report


def test_nothing_served_is_said_so(fake: FakeProvider) -> None:
    assert fake.report() == "No request came in."
    assert fake.ledger()["totals"] == []


async def test_unknown_prices_are_unknown_and_not_zero(
    fake: FakeProvider, http: httpx2.AsyncClient
) -> None:
    body = {"model": "gpt-9", "input": RULES}
    await http.post("/v1/responses", json=body, headers={"authorization": "Bearer key"})
    (total,) = fake.ledger()["totals"]
    assert total["written"] > 1_024
    assert (total["cost"], total["uncached_cost"]) == (None, None)
    assert "unknown" in fake.report()


async def test_what_was_not_understood_is_in_the_ledger_too(
    fake: FakeProvider, http: httpx2.AsyncClient
) -> None:
    await http.post("/v1/messages", content=b"{", headers={"x-api-key": "key"})
    (row,) = fake.ledger()["requests"]
    assert (row["status"], "no valid JSON" in row["message"]) == (400, True)
    assert fake.requests == [b"{"]


async def test_the_application_carries_its_fake(time: VirtualTime) -> None:
    app = create_app(time=time)
    fake = app.state.fake
    async with httpx2.AsyncClient(transport=fake.transport(), base_url="http://fake") as client:
        assert (await client.get("/__ledger__")).json()["requests"] == []
    assert fake.app is app


async def test_switches_and_platform_are_those_of_the_caches(time: VirtualTime) -> None:
    mark = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
    chat = {
        "model": "gpt-6-sol",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x", **mark}]}],
    }
    automatic = {
        "model": "claude-opus-4-6",
        "max_tokens": 5,
        "cache_control": {"type": "ephemeral"},
        "messages": [{"role": "user", "content": "x"}],
    }
    statuses = []
    for app in (
        create_app(time=time),
        create_app(
            time=time,
            switches=Switches(openai_twelve_hours=TwelveHours.EVERYWHERE),
            platform=Platform.BEDROCK_LEGACY,
        ),
    ):
        transport = app.state.fake.transport()
        headers = {"x-api-key": "key"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://fake") as client:
            for path, body in (("/v1/chat/completions", chat), ("/v1/messages", automatic)):
                statuses.append((await client.post(path, json=body, headers=headers)).status_code)
    assert statuses == [400, 200, 200, 400]
