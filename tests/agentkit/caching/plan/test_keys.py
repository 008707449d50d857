"""Keys: the same for all that share a prefix, never for two tenants, spread when too busy."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.plan.draft import Draft, Written
from agentkit.caching.plan.keys import KeyRates, cache_key, framed, session_key, shard
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import BlockKind, Platform, Policy, policy_for
from agentkit.caching.request import CacheRequest, Message
from agentkit.caching.simulate import ManualClock, SimulatedOpenAi
from tests.agentkit.caching.plan.planning import (
    DAY,
    GPT,
    assistant,
    block,
    draft_of,
    policy_of,
    send,
    user,
)
from tests.agentkit.caching.plan.planning import request as claude_request

NOW = ManualClock()()
TOOLS = [block("tool", 900, BlockKind.TOOL)]


def asked(*texts: str, model: str = GPT, role: str = "role", tools: str = "tool") -> CacheRequest:
    messages: list[Message] = []
    for number, text in enumerate(texts):
        message = assistant if number % 2 else user
        messages.append(message(block(text)))
    front = [block(tools, 900, BlockKind.TOOL)]
    return claude_request(messages, model=model, tools=front, system=[block("rules"), block(role)])


def key(draft: Draft, policy: Policy | None = None, rates: KeyRates | None = None) -> str:
    found = plan(draft, policy or policy_of("openai", GPT), Written(), NOW, rates=rates).cache_key
    assert found is not None
    return found


def team(request: CacheRequest, **more: Any) -> Draft:
    return draft_of(request, organization=(2, 2), **more)


def test_a_run_keeps_one_key() -> None:
    """C46: without a key, or with a new one each time, a sharded cache is hit by chance only."""
    texts = [f"text{number}" for number in range(20)]
    keys = {key(team(asked(*texts[: 2 * n + 1]), session="s")) for n in range(10)}
    assert len(keys) == 1


def test_siblings_of_one_team_have_one_key() -> None:
    """C47: three children of one type, each with its own session, and a parent of another role."""
    children = {key(team(asked(f"task{n}", role="child"), session=f"child{n}")) for n in range(3)}
    assert children == {key(team(asked("question"), session="parent"))}


def test_the_key_is_the_same_after_a_restart() -> None:
    """C50: a new process with another hash seed derives it anew."""
    program = (
        "from tests.agentkit.caching.plan.test_keys import *\n"
        "print(key(team(asked('question'), tenant='acme')))"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert keys == {key(team(asked("question"), tenant="acme"))}


def test_other_tools_models_and_tenants_have_other_keys() -> None:
    drafts = [
        team(asked("q")),
        team(asked("q", tools="other")),
        team(asked("q"), tenant="acme"),
        team(asked("q"), tenant="acme2"),
    ]
    other_model = key(team(asked("q", model="gpt-6-sol")), policy_of("openai", "gpt-6-sol"))
    assert len({*(key(draft) for draft in drafts), other_model}) == 5


@given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_hashed_lists_never_run_into_each_other(one: list[str], other: list[str]) -> None:
    """C97: ("org_1", "2345") and ("org_12345", "") are two tenants."""
    assert (framed(*one) == framed(*other)) == (one == other)


def test_sessions_of_two_tenants_are_two_sessions() -> None:
    """C98: one session id, two tenants: two pins."""
    policy = policy_of("openrouter", "any/model")
    names = {session_key(team(asked("q"), session="s", tenant=t), policy) for t in ("a", "b")}
    assert len(names) == 2


def test_a_key_of_the_users_own_is_kept() -> None:
    request = asked("q")
    mine = replace(request, identity=replace(request.identity, cache_key="mine"))
    assert key(team(mine)) == "mine"


BUSY = policy_for("openai", "gpt-5.4", DAY)


def test_a_rate_within_the_ceiling_keeps_one_key() -> None:
    """C49: sharding without need would make every session start cold."""
    clock, rates = ManualClock(), KeyRates()
    base = cache_key(team(asked("q", model="gpt-5.4")), BUSY, rates, clock())
    assert base is not None
    for number in range(60):
        draft = team(asked("q", model="gpt-5.4"), session=f"s{number}")
        found = cache_key(draft, BUSY, rates, clock())
        assert found == base
        rates.note(base.base, clock())
        clock.advance(5)


def test_the_highest_rate_of_the_last_hour_is_what_counts() -> None:
    """C49: 40 a minute at 0:00 and 30 at 0:55 leave 30 at 1:01, and nothing at 1:56."""
    clock, rates = ManualClock(), KeyRates()

    def minute(n_requests: int) -> None:
        for _ in range(n_requests):
            rates.note("k", clock())
            clock.advance(60 / n_requests)

    minute(40)
    assert rates.per_minute("k", clock()) == 40
    clock.advance(54 * 60)
    minute(30)
    assert rates.per_minute("k", clock()) == 40
    clock.advance(5 * 60)
    assert rates.per_minute("k", clock()) == 30
    rates.note("k", clock())
    assert rates.per_minute("k", clock()) == 30
    clock.advance(55 * 60)
    assert rates.per_minute("k", clock()) == 1
    clock.advance(60 * 60)
    assert rates.per_minute("k", clock()) == 0


def test_a_session_keeps_its_key_while_the_rate_grows() -> None:
    """C46, C49: a key that changes in the middle of a run loses all that the run has written."""
    clock, rates = ManualClock(), KeyRates()
    found: dict[str, set[str]] = {}
    for number in range(400):
        draft = team(asked("q", model="gpt-5.4"), session=f"s{number % (number // 20 + 1)}")
        got = cache_key(draft, BUSY, rates, clock())
        assert got is not None
        found.setdefault(draft.session, set()).add(got.value)
        rates.note(got.base, clock())
        clock.advance(0.5)
    assert {len(keys) for keys in found.values()} == {1}
    assert len(set.union(*found.values())) > 2


def test_a_session_that_rested_is_spread_anew() -> None:
    clock, rates = ManualClock(), KeyRates()
    assert rates.key_of("k", "s", 1, clock()) == "k"
    clock.advance(3_599)
    assert rates.key_of("k", "s", 9, clock()) == "k"
    clock.advance(3_600)
    assert rates.key_of("k", "s", 9, clock()) == shard("k", "s", 9)


def test_a_rate_above_the_ceiling_is_spread_by_session_and_still_hits() -> None:
    """C49: 40 sessions ask once a minute, all at about the same time, in any order.

    One key spills from machine to machine; spread keys stay where they are.
    """

    def hit_ratio(rates: KeyRates | None) -> float:
        clock = ManualClock()
        cache = SimulatedOpenAi(clock=clock)
        read = total = 0
        order = random.Random(7)
        texts = [f"t{n}" for n in range(17)]
        for step in range(8):
            for session in order.sample(range(40), 40):
                question = asked(f"q{session}", *texts[: 2 * step], model="gpt-5.4")
                draft = team(question, session=f"s{session}")
                found = cache_key(draft, BUSY, rates, clock())
                assert found is not None
                identity = replace(draft.request.identity, cache_key=found.value)
                draft = replace(draft, request=replace(draft.request, identity=identity))
                served = send(cache, clock, draft, BUSY).served
                if rates is not None:
                    rates.note(found.base, clock())
                read, total = read + served.read, total + served.split.total
                clock.advance(0.1)
            clock.advance(60)
        return read / total

    assert hit_ratio(KeyRates()) > hit_ratio(None) + 0.05


def test_more_keys_move_few_sessions_and_none_back() -> None:
    """Rendezvous hashing: from n keys to n + 1 a session stays, or goes to the new one."""
    for session in map(str, range(200)):
        names = [shard("base", session, n) for n in range(1, 9)]
        for n, (before, after) in enumerate(pairwise(names), start=1):
            assert after in (before, f"base-{n}")
    spread = [shard("base", str(number), 4) for number in range(400)]
    assert min(spread.count(name) for name in set(spread)) > 60


def test_a_number_of_keys_is_kept_for_an_hour() -> None:
    clock, rates = ManualClock(), KeyRates()
    for _ in range(40):
        rates.note("key", clock())
        clock.advance(1)
    assert rates.per_minute("key", clock()) == 40
    for _ in range(50):
        clock.advance(60)
        rates.note("key", clock())
    assert rates.per_minute("key", clock()) == 40
    for _ in range(20):
        clock.advance(60)
        rates.note("key", clock())
    assert rates.per_minute("key", clock()) <= 2
    clock.advance(3600)
    assert rates.per_minute("key", clock()) == 0


def test_azure_has_a_ceiling_for_newer_models_too() -> None:
    azure = policy_for("openai", GPT, DAY, platform=Platform.AZURE)
    rates = KeyRates()
    base = key(team(asked("q")), azure)
    for _ in range(100):
        rates.note(base, NOW)
    keys = {key(team(asked("q"), session=str(n)), azure, rates) for n in range(50)}
    assert len(keys) > 4
    assert all(name.startswith(base) and len(name) <= 64 for name in keys)


def test_anthropic_gets_no_key() -> None:
    draft = team(asked("q", model="claude-sonnet-5-5"))
    planned = plan(draft, policy_of("anthropic", "claude-sonnet-5-5"), Written(), NOW)
    assert planned.cache_key is planned.key_base is None
