"""Totals by anything that requests have in common; the known economics, to the cent."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from decimal import Decimal as D
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.judge import judge
from agentkit.caching.ledger import AtLeast, By, Charge, Ledger
from agentkit.caching.policy import Policy, policy_for
from agentkit.caching.report import CacheReport, RequestRecord
from agentkit.caching.verdict import Cause
from agentkit.usage import Timing, Usage
from tests.agentkit.caching.judging import ANTHROPIC, NOON, TALK, answered, plan, sent, usage

SONNET_4_6 = policy_for("anthropic", "claude-sonnet-4-6", NOON.date())
"""3.00 a million tokens, reads 0.30, writes 3.75."""


def record(
    given_: Usage,
    *,
    path: str = "desk",
    tenant: str = "acme",
    session: str = "s1",
    epoch: int = 0,
    policy: Policy = SONNET_4_6,
    judged: bool = True,
    **verdict: Any,
) -> RequestRecord:
    settings: dict[str, Any] = {"plan": plan(0, 0, 1), "at": NOON, "now": sent()}
    found = judge(policy=policy, usage=given_, **{**settings, **verdict})
    return RequestRecord(
        path=tuple(path.split("/")),
        model=found.model,
        usage=given_,
        timing=Timing(ttft_s=0.5),
        verdict=found if judged else None,
        tenant=tenant,
        session=session,
        epoch=epoch,
        run_id="r1",
    )


SILENT = Usage(input_tokens=1_000, output_tokens=10)


class TestKnownEconomics:
    """100 million input tokens a day, at 3.00 a million and a read price of 0.30."""

    MILLION = 1_000_000

    def test_uncached_a_day_costs_300(self) -> None:
        ledger = Ledger(record(usage(0, 0, self.MILLION, output=0)) for _ in range(100))

        assert ledger.total().cost.exact == D("300.00")
        assert ledger.total().uncached.exact == D("300.00")
        assert ledger.total().saved == 0

    def test_with_80_percent_read_it_costs_84(self) -> None:
        ledger = Ledger(record(usage(800_000, 0, 200_000, output=0)) for _ in range(100))

        assert ledger.total().cost.exact == D("84.00")
        assert ledger.total().uncached.exact == D("300.00")
        assert ledger.total().saved == D("216.00")
        assert ledger.total().write_premium.exact == 0

    def test_the_premium_for_writing_stands_beside_it(self) -> None:
        ledger = Ledger(record(usage(800_000, 200_000, 0, output=0)) for _ in range(100))

        total = ledger.total()

        assert total.write_premium.exact == D("15.00")
        assert total.cost.exact == D("84.00") + D("15.00")


class TestTotals:
    LEDGER = Ledger(
        [
            record(usage(0, 0, 1_000_000, output=0), path="boss", tenant="a", session="x"),
            record(usage(1_000_000, 0, 0, output=0), path="boss/reader", tenant="a", session="x"),
            record(usage(0, 0, 2_000_000, output=0), path="boss", tenant="b", session="y"),
            record(
                usage(0, 0, 1_000_000, output=0),
                path="clerk",
                tenant="b",
                session="y",
                epoch=1,
                policy=ANTHROPIC,
            ),
        ]
    )

    @pytest.mark.parametrize(
        ("by", "costs"),
        [
            (By.AGENT, {"boss": "9", "boss/reader": "0.3", "clerk": "2"}),
            (By.TEAM, {"boss": "9.3", "clerk": "2"}),
            (By.TENANT, {"a": "3.3", "b": "8"}),
            (By.SESSION, {"x": "3.3", "y": "8"}),
            (By.EPOCH, {"x#0": "3.3", "y#0": "6", "y#1": "2"}),
            (By.RUN, {"r1": "11.3"}),
            (
                By.MODEL,
                {"anthropic:claude-sonnet-4-6": "9.3", "anthropic:claude-sonnet-5-5": "2"},
            ),
            (By.PROVIDER, {"anthropic": "11.3"}),
        ],
    )
    def test_money_is_added_up_by_anything(self, by: By, costs: dict[str, str]) -> None:
        sums = self.LEDGER.totals(by)

        assert {names[0]: total.cost.exact for names, total in sums.items()} == {
            name: D(cost) for name, cost in costs.items()
        }

    def test_several_things_may_be_asked_for_at_once(self) -> None:
        sums = self.LEDGER.totals(By.TENANT, By.MODEL)

        assert sums[("b", "anthropic:claude-sonnet-5-5")].cost.exact == 2
        assert len(sums) == 3

    def test_a_session_without_a_name_is_its_run(self) -> None:
        ledger = Ledger([record(usage(0, 0, 10), session="")])

        assert list(ledger.totals(By.SESSION)) == [("r1",)]

    def test_children_count_for_their_team_once(self) -> None:
        """C79: what two children spend is spent from the same sum as what their parent spent."""
        ledger = Ledger([record(usage(0, 0, 200_000, output=0), path="parent")])
        for child in ("parent/one", "parent/two"):
            ledger.add(record(usage(0, 0, 100_000, output=0), path=child))

        assert ledger.totals(By.TEAM)[("parent",)].cost.exact == D("1.20")
        assert ledger.totals(By.AGENT)[("parent",)].cost.exact == D("0.60")

    def test_the_empty_ledger_has_spent_nothing(self) -> None:
        assert Ledger().spent == AtLeast(D(0), 0)
        assert Ledger().total().saved == 0


class TestUnknowns:
    def test_an_unknown_cost_stays_unknown_in_the_sum(self) -> None:
        ledger = Ledger([record(usage(0, 0, 1_000_000, output=0)), record(SILENT)])

        total = ledger.total()

        assert str(total.cost) == "at least 3 (1 request unknown)"
        assert total.saved is None
        assert total.uncached.exact == D("3.00315")
        assert total.cache_read_tokens.unknown == 1

    def test_requests_to_models_without_money_are_counted_apart(self) -> None:
        local = replace(record(usage(900, 0, 100), judged=False), model="local:small")
        ledger = Ledger([record(usage(0, 0, 10)), local])

        total = ledger.total()

        assert (total.requests, total.unpriced, total.cost.unknown) == (2, 1, 0)
        assert total.saved is not None

    def test_a_hosted_request_without_a_verdict_makes_every_amount_unknown(self) -> None:
        """An answer that broke off is billed, too: nothing is exact where one is missing."""
        broken = record(usage(0, 900, 100), judged=False, path="desk/clerk")
        ledger = Ledger([broken, record(usage(0, 0, 1_000_000, output=0))])

        for total in (ledger.total(), ledger.totals(By.MODEL)[(broken.model,)]):
            amounts = (total.cost, total.uncached, total.planned, total.write_premium, total.lost)
            assert [amount.unknown for amount in amounts] == [1] * 5
            assert (total.unpriced, total.saved) == (0, None)
            assert str(total.cost) == "at least 3 (1 request unknown)"
        alone = ledger.totals(By.AGENT)[("desk/clerk",)]
        assert (str(alone.cost), alone.unpriced) == ("at least 0 (1 request unknown)", 0)
        report = CacheReport.of(ledger.records)
        clerk = next(row.money for row in report.rows if row.path == broken.path)
        assert clerk is not None
        assert clerk.cost.unknown == 1
        assert report.total.money is not None
        assert report.total.money.cost.unknown == 1

    def test_cached_usage_is_visible_whatever_the_provider(self) -> None:
        """C80: what was read shows up in the totals and in each line, for every provider."""
        for provider, model in (
            ("anthropic", "claude-sonnet-5-5"),
            ("openai", "gpt-6-sol"),
            ("openai", "gpt-5.5"),
            ("deepseek", "deepseek-flash"),
            ("gemini", "gemini-3.8-flash"),
            ("vllm", "llama"),
        ):
            policy = policy_for(provider, model, NOON.date())
            ledger = Ledger([record(usage(900, 0, 100), policy=policy)])

            assert ledger.total().cache_read_tokens.exact == 900
            (line,) = map(json.loads, ledger.lines())
            assert line["cache_read_tokens"] == 900
            assert line["verdict"]["actual"]["read"] == 900


def test_the_same_requests_cost_the_same_streamed_or_not() -> None:
    """C70: the parts of a stream add up to the counts that come at once, and to the same bill."""
    whole = usage(9_000, 900, 100, output=50)
    parts = [
        Usage(input_tokens=10_000, cache_read_tokens=9_000, output_tokens=1),
        Usage(cache_write_tokens=900, cache_write_long_tokens=0),
        Usage(output_tokens=50),
    ]
    streamed = Usage()
    for part in parts:
        streamed = streamed.merge(part)

    assert Ledger([record(streamed)]).to_json() == Ledger([record(whole)]).to_json()


class TestCharges:
    STORED = Charge(
        at=NOON, what="storage", model="gemini:gemini-3.8-flash", usd=D("0.02"), tenant="acme"
    )

    def test_they_are_part_of_what_was_spent_and_of_no_request(self) -> None:
        ledger = Ledger([record(usage(0, 0, 1_000_000, output=0))])
        ledger.charge(self.STORED)

        assert ledger.spent.exact == D("3.02")
        assert ledger.total().cost.exact == 3
        assert ledger.charges == (self.STORED,)

    def test_an_unknown_one_makes_the_bill_a_lower_bound(self) -> None:
        ledger = Ledger([record(usage(0, 0, 1_000_000, output=0))])
        ledger.charge(replace(self.STORED, usd=None))

        assert ledger.spent == AtLeast(D(3), 1)


def switched() -> RequestRecord:
    return record(
        usage(3_000, 2_000, 0),
        policy=ANTHROPIC,
        epoch=1,
        plan=plan(3_000, 2_000, hit=3),
        before=answered(sent(), tokens=6_000),
        now=sent(talk=("a summary", "thank you")),
        gap_s=5.0,
        epoch_changed=True,
    )


def test_what_a_new_epoch_cost_is_known_by_the_epoch() -> None:
    ledger = Ledger([record(usage(0, 0, 10)), switched()])

    assert ledger.epoch_switches() == {"s1#1": AtLeast(D("0.0048"))}  # 2,000 at 2.50 not 0.10


def test_losses_are_put_together_by_agent_and_cause() -> None:
    missed: dict[str, Any] = {
        "policy": ANTHROPIC,
        "plan": plan(6_000, 2_000, hit=6),
        "before": answered(sent(), tokens=6_000),
        "now": sent(talk=TALK),
        "gap_s": 5.0,
    }
    ledger = Ledger(
        [
            record(usage(0, 8_000, 0), path="a", **missed),
            record(usage(6_000, 2_000, 0), path="a", **missed),
            record(usage(0, 8_000, 0), path="a", **missed),
            record(usage(0, 8_000, 0), path="b", **{**missed, "gap_s": 900.0}),
        ]
    )

    found = [(loss.agent, loss.cause, loss.requests, loss.lost_tokens) for loss in ledger.losses()]

    assert found == [("a", Cause.EVICTED, 2, 12_000), ("b", Cause.EXPIRED, 1, 6_000)]
    assert ledger.total().lost.exact == D("0.0432")


def test_a_cause_that_lost_nothing_leaves_the_losses_known() -> None:
    short = record(
        usage(0, 0, 90), before=None, plan=plan(0, 0, 90), now=sent(n_tokens=10), policy=ANTHROPIC
    )
    ledger = Ledger([short])

    assert [loss.cause for loss in ledger.losses()] == [Cause.TOO_SHORT]
    assert ledger.total().lost == ledger.losses()[0].lost_usd == AtLeast(D(0), 0)


class TestExport:
    def test_inclusive_totals_and_their_parts_add_up_and_nothing_is_in_both(self) -> None:
        """C77: a consumer may sum the parts or take the total, and gets the same."""
        ledger = Ledger([record(usage(900, 60, 40)), record(usage(10, 20, 30))])

        for line in map(json.loads, ledger.lines()):
            parts = ("cache_read_tokens", "cache_write_tokens", "uncached_tokens")
            assert line["input_tokens"] == sum(line[name] for name in parts)
            assert line["cache_write_long_tokens"] <= line["cache_write_tokens"]

    def test_what_does_not_add_up_has_no_remainder(self) -> None:
        """C76: no negative remainder, and none that was clamped to 0."""
        wrong = Usage(
            input_tokens=100, cache_read_tokens=900, cache_write_tokens=0, output_tokens=1
        )
        (line,) = map(json.loads, Ledger([record(wrong)]).lines())

        assert line["uncached_tokens"] is None
        assert line["verdict"]["cost_usd"] is None

    def test_amounts_are_text_with_all_their_digits(self) -> None:
        (line,) = map(json.loads, Ledger([record(usage(1, 0, 0, output=0))]).lines())

        assert D(line["verdict"]["cost_usd"]["total"]) == D("0.0000003")
        assert "E" not in line["verdict"]["cost_usd"]["total"]

    def test_a_cause_is_exported_with_its_place(self) -> None:
        (line,) = map(json.loads, Ledger([switched()]).lines())

        assert line["epoch"] == 1
        assert line["verdict"]["shortfall"]["cause"] == "compacted"
        assert line["verdict"]["shortfall"]["difference"]["segment"] == "history[0]"

    def test_each_addition_is_told_as_the_line_that_is_exported(self) -> None:
        told: list[str] = []
        ledger = Ledger(on_line=told.append)
        ledger.add(record(usage(900, 60, 40)))
        ledger.charge(TestCharges.STORED)

        assert told == list(ledger.lines())

    def test_the_whole_ledger_is_json(self) -> None:
        ledger = Ledger([record(usage(900, 60, 40)), switched()])
        ledger.charge(TestCharges.STORED)

        value = json.loads(json.dumps(ledger.to_json()))

        assert value["total"]["requests"] == 2
        assert value["epoch_switches"] == {"s1#1": {"known": "0.0048", "unknown": 0}}
        assert value["charges"][0]["charge"] == "storage"

    def test_nothing_that_was_added_can_be_changed(self) -> None:
        ledger = Ledger([record(usage(900, 60, 40))])
        before = ledger.records
        ledger.add(record(usage(1, 1, 1)))

        assert len(before) == 1
        assert ledger.records[:1] == before


USAGES = st.builds(
    usage,
    st.none() | st.integers(0, 10**8),
    st.integers(0, 10**8),
    st.integers(0, 10**8),
    st.none() | st.integers(0, 10**6),
)


@given(
    st.lists(st.tuples(USAGES, st.sampled_from("ab"), st.sampled_from("xy")), max_size=8),
    st.randoms(use_true_random=False),
)
def test_totals_are_exact_order_independent_and_add_up_over_any_grouping(
    requests: list[tuple[Usage, str, str]], order: random.Random
) -> None:
    records = [record(given_, path=agent, tenant=tenant) for given_, agent, tenant in requests]
    shuffled = records[:]
    order.shuffle(shuffled)

    whole = Ledger(records).total()

    assert Ledger(shuffled).total() == whole
    for by in (By.AGENT, By.TENANT, By.MODEL, By.EPOCH):
        parts = Ledger(shuffled).totals(by).values()
        assert sum(part.requests for part in parts) == whole.requests
        for name in ("cost", "uncached", "planned", "write_premium", "input_tokens"):
            added = AtLeast()
            for part in parts:
                added = added.plus(getattr(part, name))
            assert added == getattr(whole, name)
