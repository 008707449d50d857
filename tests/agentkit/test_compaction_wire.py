"""Compaction on the providers' wires: what is sent, what is read from the cache, what is paid."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal

import pytest

from agentkit import CompactionRule
from tests.agentkit.digger import RULE, hosted_run
from tests.agentkit.hosted_world import PROVIDERS, HostedWorld, hit


def front_of(sent: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(itertools.takewhile(lambda piece: b"Dig." not in piece, sent))


def summary_at(world: HostedWorld) -> int:
    return next(n for n, body in enumerate(world.fake.requests) if b"Write that summary" in body)


def test_on_the_wire_the_summarys_request_extends_what_was_sent() -> None:
    """C59: at the last byte, in the provider's order of tools, system and messages."""
    world, _ = hosted_run(16)

    wires = world.wires
    at = summary_at(world)
    assert wires[at][: len(wires[at - 1])] == wires[at - 1]
    head = [json.loads(world.fake.requests[n]) for n in (at - 1, at)]
    for name in ("model", "max_tokens", "tool_choice", "thinking", "output_config"):
        assert head[0].get(name) == head[1].get(name)


def test_the_summarys_request_is_read_from_the_cache() -> None:
    """C61: the compaction call had a hit ratio of 0 %."""
    rule = CompactionRule(trigger_tokens=30_000, limit_tokens=30_000)
    world, result = hosted_run(70, compaction=rule)

    at = summary_at(world)
    assert hit(world.served[at]) > 0.95
    assert not world.served[at].split.written
    verdict = result.requests[at].verdict
    assert verdict is not None
    assert verdict.shortfall is None or not verdict.shortfall.lost_tokens


def test_the_new_epoch_reads_its_front_from_the_cache_and_no_change_is_reported_as_a_fault() -> (
    None
):
    world, result = hosted_run(16)

    at = next(n for n, r in enumerate(result.requests) if r.epoch == 1)
    front = [piece for piece in world.wires[0] if piece[0] in ("tools", "system")]
    assert world.wires[at][: len(front)] == front
    assert world.served[at].read > 1_000
    for record in result.requests:
        assert record.verdict is not None
        shortfall = record.verdict.shortfall
        assert shortfall is None or not shortfall.lost_tokens, shortfall


def test_a_long_run_costs_less_than_without_summaries() -> None:
    bills = []
    for rule in (RULE, None):
        world, _ = hosted_run(60, compaction=rule)
        bills.append(sum((s.cost.total for s in world.served if s.cost), Decimal(0)))

    assert bills[0] < bills[1]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_within_an_epoch_every_request_extends_the_one_before_at_all_providers(
    provider: str,
) -> None:
    """C59: also the summary's; and every API takes what the loop sends."""
    world, result = hosted_run(24, provider)

    assert result.output == "Next."
    epochs = [record.epoch for record in result.requests]
    assert len(world.served) == len(epochs)
    assert max(epochs) >= 1
    assert front_of(world.sent[0])
    for n, (first, second) in enumerate(itertools.pairwise(epochs)):
        n_same = len(world.sent[n]) if first == second else len(front_of(world.sent[0]))
        assert world.sent[n + 1][:n_same] == world.sent[n][:n_same]
