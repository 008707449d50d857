"""Providers without marks of their own: DeepSeek, Gemini, OpenAI-compatible servers."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from agentkit.caching.plan.draft import Draft, SharedBy, SharedPrefix, Written
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import (
    CompatiblePolicy,
    GeminiPolicy,
    Provider,
    Salt,
    Ttl,
    policy_for,
)
from agentkit.caching.request import CacheRequest
from agentkit.caching.simulate import (
    CachedContent,
    ManualClock,
    Served,
    SimulatedDeepSeek,
    SimulatedGemini,
)
from agentkit.caching.simulate.compatible import SimulatedCompatible
from agentkit.errors import ConfigurationError
from tests.agentkit.caching.plan.planning import (
    DAY,
    assistant,
    block,
    draft_of,
    policy_of,
    request,
    send,
    user,
    with_user_marks,
)

NOW = ManualClock()()
PEAK = datetime(2026, 11, 27, 2, 30, tzinfo=UTC)


def asked(model: str, front: int = 50_000, question: str = "question") -> CacheRequest:
    return request([user(block(question, 500))], model=model, system=[block("front", front)])


class TestDeepSeek:
    MODEL = "deepseek-flash"
    POLICY = policy_of("deepseek", MODEL)

    def test_two_siblings_go_ahead_before_the_front_is_found(self) -> None:
        """Two prompts must have a beginning in common before it becomes a unit."""
        clock = ManualClock()
        cache = SimulatedDeepSeek(clock=clock, build_s=0)
        ahead, reads = [], []
        for number in range(4):
            draft = draft_of(asked(self.MODEL, question=f"task{number}"))
            sent = send(cache, clock, draft, self.POLICY)
            ahead.append(sent.plan.siblings_ahead)
            reads.append(sent.served.read)
            clock.advance(60)
        assert ahead == [2, 2, 0, 0]
        assert reads == [0, 0, 50_000, 50_000]

    def test_tenants_are_kept_apart_and_agents_are_not(self) -> None:
        def user_id(**more: Any) -> str | None:
            draft = draft_of(asked(self.MODEL), **more)
            return plan(draft, self.POLICY, Written(), NOW).cache_key

        assert user_id() is None
        assert user_id(tenant="a", session="1") == user_id(tenant="a", session="2")
        assert user_id(tenant="a") != user_id(tenant="b")

    def test_peak_hours_are_said_with_their_end_and_what_comes_after(self) -> None:
        note = plan(draft_of(asked(self.MODEL)), self.POLICY, Written(), PEAK).notes[0]
        assert note == (
            "peak hours until 04:00 UTC: input costs 0.30 USD per million tokens, 0.15 after them"
        )
        assert plan(draft_of(asked(self.MODEL)), self.POLICY, Written(), NOW).notes == ()

    def test_marks_of_the_user_are_left_out(self) -> None:
        marked = draft_of(with_user_marks(asked(self.MODEL), [0], None))
        planned = plan(marked, self.POLICY, Written(), NOW)
        assert re.search("DeepSeek has no cache marks", str(planned.lost_marks))
        assert planned.marks == ()
        assert "do nothing" in planned.notes[-1]


class TestGemini:
    MODEL = "gemini-3.1-pro-preview"
    POLICY = policy_of("gemini", MODEL)

    def draft(self, *, reads: int, front: int = 50_000, model: str = MODEL) -> Draft:
        draft = draft_of(asked(model, front), run=0, agent=reads)
        return replace(draft, implicit_share=Decimal(0))

    def test_an_object_is_made_when_its_reads_save_more_than_it_costs(self) -> None:
        planned = plan(self.draft(reads=5), self.POLICY, Written(), NOW)
        assert planned.cached_front is not None
        assert planned.cached_front.end == 1
        assert planned.siblings_ahead == 0
        assert plan(self.draft(reads=0), self.POLICY, Written(), NOW).cached_front is None

    def test_while_the_implicit_cache_keeps_its_word_no_object_is_paid_for(self) -> None:
        def makes_one(share: str) -> bool:
            draft = replace(self.draft(reads=5), implicit_share=Decimal(share))
            return plan(draft, self.POLICY, Written(), NOW).cached_front is not None

        assert [makes_one(share) for share in ("1", "0.3", "0")] == [False, True, True]

    def test_the_choice_is_the_cheaper_one(self) -> None:
        """For any number of reads: creation, storage and reads, against plain input each time."""
        for reads in range(6):
            draft = self.draft(reads=reads)
            made = plan(draft, self.POLICY, Written(), NOW).cached_front
            clock = ManualClock()
            cache = SimulatedGemini(clock=clock, implicit=False)
            front = replace(draft.request, messages=())
            ttl_s = 300 if made is None else made.ttl_s
            content = cache.create(front, ttl_s=ttl_s)
            assert isinstance(content, CachedContent)
            assert content.creation_cost is not None
            explicit = content.creation_cost.total
            plain = Decimal(0)
            for _ in range(reads + 1):
                tail = replace(draft.request, system=(), cached_content=content.name)
                explicit += _cost(cache.request(tail))
                plain += _cost(cache.request(draft.request))
            clock.advance(ttl_s)
            stored = cache.storage_cost(content.name)
            assert stored is not None
            assert (made is not None) == (explicit + stored < plain)

    def test_the_prediction_is_that_of_a_request_with_the_object(self) -> None:
        draft = self.draft(reads=5)
        clock = ManualClock()
        cache = SimulatedGemini(clock=clock)
        planned = plan(draft, self.POLICY, Written(), clock())
        assert planned.cached_front is not None
        content = cache.create(
            replace(draft.request, messages=()), ttl_s=planned.cached_front.ttl_s
        )
        assert isinstance(content, CachedContent)
        tail = replace(draft.request, system=(), cached_content=content.name)
        served = cache.request(tail)
        assert isinstance(served, Served)
        assert served.read == planned.predicted.split.read == 50_000

    def test_a_front_that_the_implicit_cache_has_needs_no_object(self) -> None:
        clock = ManualClock()
        cache = SimulatedGemini(clock=clock)
        cache.request(self.draft(reads=5).request)
        draft = draft_of(asked(self.MODEL, question="other"), agent=5)
        planned = plan(draft, self.POLICY, cache.written(draft.request), clock())
        assert planned.cached_front is None
        assert planned.predicted.split.read == 50_000

    def test_a_front_below_the_minimum_gets_no_object_however_long_the_history(self) -> None:
        """Its own length counts, not that of the whole prompt."""
        long = request(
            [user(block("q", 60_000)), assistant(block("a")), user(block("q2"))],
            model=self.MODEL,
            system=[block("front", 4000)],
        )
        draft = replace(draft_of(long, agent=9), implicit_share=Decimal(0))
        assert plan(draft, self.POLICY, Written(), NOW).cached_front is None

    def test_models_without_objects_get_none(self) -> None:
        model = "gemini-4-argon"
        policy = policy_of("gemini", model)
        assert isinstance(policy, GeminiPolicy)
        draft = self.draft(reads=9, model=model)
        assert plan(draft, policy, Written(), NOW).cached_front is None

    def test_an_object_lives_as_long_as_its_next_reader_takes(self) -> None:
        shared = SharedPrefix(end=1, by=SharedBy.AGENT, reads=Decimal(9), gap_s=Decimal(900))
        draft = Draft(request=asked(self.MODEL), shared=(shared,), implicit_share=Decimal(0))
        made = plan(draft, self.POLICY, Written(), NOW).cached_front
        assert made is not None
        assert made.ttl_s == 1800


def _cost(served: object) -> Decimal:
    assert isinstance(served, Served)
    assert served.cost is not None
    return served.cost.total


def compatible(provider: Provider, model: str = "model") -> CompatiblePolicy:
    policy = policy_for(provider, model, DAY)
    assert isinstance(policy, CompatiblePolicy)
    return policy


class TestCompatible:
    def test_a_tenants_salt_is_bound_to_it_and_fits(self) -> None:
        """C94: whatever the tenant is called: too long, with characters that the server refuses."""
        policy = compatible(Provider.VLLM)
        assert policy.salt is not None
        salts = set()
        for tenant in ("acme", "a@b/c\\d", "x" * 5000, "Ünïcode"):
            hints = plan(draft_of(asked("model"), tenant=tenant), policy, Written(), NOW).hints
            salt = hints.body["cache_salt"]
            assert isinstance(salt, str)
            assert tenant not in salt
            assert len(salt) <= (policy.salt.max_chars or 0)
            assert not set(salt) & set(policy.salt.forbidden)
            salts.add(salt)
        assert len(salts) == 4
        none = plan(draft_of(asked("model")), policy, Written(), NOW).hints
        assert "cache_salt" not in none.body

    def test_a_salt_that_does_not_fit_is_an_error_and_not_cut(self) -> None:
        policy = replace(compatible(Provider.VLLM), salt=Salt(field="cache_salt", max_chars=8))
        with pytest.raises(ConfigurationError, match="may have 8 characters"):
            plan(draft_of(asked("model"), tenant="acme"), policy, Written(), NOW)

    @pytest.mark.parametrize(
        ("provider", "priority"),
        [(Provider.VLLM, -3), (Provider.SGLANG, 3), (Provider.GROQ, None)],
    )
    def test_urgent_has_the_sign_that_the_server_means_by_it(
        self, provider: Provider, priority: int | None
    ) -> None:
        draft = draft_of(asked("model"), priority=3)
        hints = plan(draft, compatible(provider), Written(), NOW).hints
        assert hints.body.get("priority") == priority

    @pytest.mark.parametrize(
        ("provider", "header"),
        [
            (Provider.VLLM, "X-Session-ID"),
            (Provider.SGLANG, "x-smg-routing-key"),
            (Provider.TENSORRT_LLM, "x-session-id"),
            (Provider.OPENROUTER, "x-session-id"),
            (Provider.XAI, "x-grok-conv-id"),
        ],
    )
    def test_a_conversation_names_itself_in_the_servers_header(
        self, provider: Provider, header: str
    ) -> None:
        def named(session: str, tenant: str = "") -> str:
            draft = draft_of(asked("model"), session=session, tenant=tenant)
            return plan(draft, compatible(provider), Written(), NOW).hints.headers[header]

        assert named("one") == named("one")
        assert len({named("one"), named("two"), named("one", "acme"), named("one", "zeta")}) == 4

    @pytest.mark.parametrize("provider", [Provider.MISTRAL, Provider.MOONSHOT, Provider.XAI])
    def test_a_cache_key_is_derived_where_there_is_a_field_for_it(self, provider: Provider) -> None:
        keys = {
            plan(
                draft_of(asked("model", question=q), session=q),
                compatible(provider),
                Written(),
                NOW,
            ).cache_key
            for q in ("one", "two")
        }
        assert len(keys) == 1
        assert None not in keys

    def test_gateways_get_marks_and_self_hosted_servers_none(self) -> None:
        draft = draft_of(asked("claude-sonnet-5-5"))
        assert plan(draft, compatible(Provider.VLLM), Written(), NOW).marks == ()
        marks = plan(draft, compatible(Provider.OPENROUTER), Written(), NOW).marks
        assert [(m.index, m.ttl) for m in marks] == [(0, None), (1, None)]
        alibaba = plan(draft, compatible(Provider.ALIBABA), Written(), NOW).marks
        assert [(m.index, m.ttl) for m in alibaba] == [(0, None), (1, None)]

    def test_marks_of_the_user_are_left_out_where_none_are_passed_on(self) -> None:
        marked = draft_of(with_user_marks(asked("model"), [0], None))
        planned = plan(marked, compatible(Provider.VLLM), Written(), NOW)
        assert re.search("vllm passes on no cache marks", str(planned.lost_marks))
        assert planned.marks == ()

    def test_a_gateway_gets_the_newest_marks_with_their_lifetimes_in_order(self) -> None:
        """C25, C35: the provider behind it would refuse them as its own API does."""
        blocks = [block(f"part {i}", 2000) for i in range(5)]
        talk = request([user(*blocks)], model="anthropic/claude-sonnet-5-5")
        talk = with_user_marks(with_user_marks(talk, [0, 1], Ttl.FIVE_MINUTES), [2], Ttl.ONE_HOUR)
        planned = plan(draft_of(talk), compatible(Provider.OPENROUTER), Written(), NOW)
        assert re.search("'1h' behind one with '5m'", str(planned.lost_marks))
        assert [m.ttl for m in planned.marks if m.by_user] == [Ttl.FIVE_MINUTES] * 3
        assert all(m.ttl is not Ttl.ONE_HOUR for m in planned.marks)
        crowded = with_user_marks(talk, [3, 4], None)
        planned = plan(draft_of(crowded), compatible(Provider.OPENROUTER), Written(), NOW)
        assert re.search("'1h'", str(planned.lost_marks))
        assert "older ones give way" in str(planned.lost_marks)
        assert [m.index for m in planned.marks] == [1, 2, 3, 4]

    def test_marks_of_ours_before_an_hour_of_the_users_last_an_hour_too(self) -> None:
        """C35: also where the planner itself has no lifetimes to choose from."""
        talk = asked("anthropic/claude-sonnet-5-5")
        n_blocks = talk.n_blocks
        draft = draft_of(with_user_marks(talk, [n_blocks - 1], Ttl.ONE_HOUR))
        planned = plan(draft, compatible(Provider.OPENROUTER), Written(), NOW)
        assert [m.by_user for m in planned.marks] == [*[False] * (len(planned.marks) - 1), True]
        assert len(planned.marks) > 1
        assert {m.ttl for m in planned.marks} == {Ttl.ONE_HOUR}

    def test_an_hour_behind_a_mark_without_a_lifetime_is_taken_without_it(self) -> None:
        """C35: what names no lifetime lives for five minutes."""
        talk = request([user(*[block(f"part {i}", 2000) for i in range(3)])])
        talk = with_user_marks(with_user_marks(talk, [0], None), [1], Ttl.ONE_HOUR)
        planned = plan(draft_of(talk), compatible(Provider.OPENROUTER), Written(), NOW)
        assert Ttl.ONE_HOUR not in {m.ttl for m in planned.marks}

    @pytest.mark.parametrize(("chance", "ttl"), [("0.02", None), ("1", Ttl.ONE_HOUR)])
    def test_moonshots_lifetime_is_chosen_by_price(self, chance: str, ttl: Ttl | None) -> None:
        """An hour doubles the price of what is written now; a slow gap loses the whole prefix."""
        policy = compatible(Provider.MOONSHOT, "kimi-k3")
        clock = ManualClock()
        cache = SimulatedCompatible(clock=clock, policy_of=lambda *_: policy)
        first = request([user(block("q", 30_000))], model="kimi-k3")
        more = [assistant(block("a", 100)), user(block("r", 3000))]
        second = replace(first, messages=(*first.messages, *more))
        chances: dict[str, Any] = {"slow_chance": Decimal(chance)}
        cold = send(cache, clock, draft_of(first, **chances), policy)
        warm = send(cache, clock, draft_of(second, **chances), policy)
        assert cold.plan.openai.ttl is None
        assert warm.plan.openai.ttl is ttl

    def test_what_is_computed_is_shared_at_once(self) -> None:
        draft = draft_of(asked("model"))
        assert plan(draft, compatible(Provider.SGLANG), Written(), NOW).siblings_ahead == 0
        assert plan(draft, compatible(Provider.GROQ), Written(), NOW).siblings_ahead == 1

    @pytest.mark.parametrize("provider", [Provider.VLLM, Provider.SGLANG, Provider.XAI])
    def test_the_prediction_is_what_the_server_reads_in_whole_blocks(
        self, provider: Provider
    ) -> None:
        policy = compatible(provider)
        clock = ManualClock()
        cache = SimulatedCompatible(clock=clock, policy_of=lambda *_: policy)
        for question, front in (("one", 1003), ("one", 1003), ("two", 1003)):
            sent = send(cache, clock, draft_of(asked("model", front, question)), policy)
            assert sent.served.split == sent.plan.predicted.split
        assert sent.served.read == 1003 // (policy.block_tokens or 1) * (policy.block_tokens or 1)
