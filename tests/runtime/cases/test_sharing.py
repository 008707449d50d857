"""Conversations that take turns find all that they had computed."""

from __future__ import annotations

import pytest

from tests.runtime.cases.driver import Driver, prompt


@pytest.mark.parametrize("n_lanes", [1, 2, 4])
def test_more_prompts_than_lanes_in_turn_all_hit(n_lanes: int) -> None:
    """R50. Fault: caches that belong to lanes; N lanes and N + 1 prompts in turn never hit."""
    driver = Driver(n_slots=1_000, max_lanes=n_lanes)
    prompts = [prompt(seed, 60) for seed in range(n_lanes + 1)]
    cold = [driver.ask(p) for p in prompts]
    assert {answer.stats.cached_tokens for answer in cold} == {0}
    for _ in range(2):
        for before, p in zip(cold, prompts, strict=True):
            warm = driver.ask(p)
            assert (warm.stats.cached_tokens, warm.ids) == (59, before.ids)


def test_prompts_in_turn_share_their_prefix_also_where_they_do_not_all_fit() -> None:
    """R50: in a pool that is too small for all of them."""
    shared = prompt(0, 100)
    driver = Driver(n_slots=256)
    cached = [
        driver.ask([*shared, *prompt(seed, 60)]).stats.cached_tokens
        for _ in range(3)
        for seed in range(1, 6)
    ]
    assert cached[0] == 0
    assert min(cached[1:]) >= 100


def test_children_that_take_turns_never_compute_what_they_share_again() -> None:
    """C92. Fault: with two busy children turns alternated at 0 %: the oldest prefix was evicted,
    which was the shared one. In proportion: a parent of 50k tokens, two children of 75k."""
    parent = prompt(1, 500)
    children = [[*parent, *prompt(seed, 130)] for seed in (2, 3)]
    last = max(map(len, children)) + 5 * (20 + 4)
    driver = Driver(n_slots=500 + 2 * (last - 500) + 8 * 16)  # for all, and what lanes take ahead
    driver.ask(parent)
    computed = 0
    for turn in range(5):
        for number, conversation in enumerate(children):
            conversation += prompt(100 + 10 * turn + number, 20)
            answer = driver.ask(conversation)
            news = len(conversation) - answer.stats.cached_tokens
            # The first turn brings the child's own part; later ones a question and, of the answer
            # before, the last token, which was generated and never computed.
            assert news <= (150 if turn == 0 else 21), (turn, number)
            computed += news
            conversation += answer.ids
    assert computed <= 2 * 150 + 8 * 21
    assert driver.core.stats().evicted_tokens == 0


def test_log_probabilities_do_not_depend_on_what_was_cached() -> None:
    """R19. Fault: with a cached prefix they were missing, or those of another request."""
    driver = Driver(n_slots=400)
    p = prompt(7, 50)
    cold = driver.ask(p, 5, logprobs=3)
    driver.ask([*p[:30], *prompt(8, 20)], 5, logprobs=3)
    warm = driver.ask(p, 5, logprobs=3)
    assert warm.stats.cached_tokens == 49
    assert warm.ids == cold.ids
    for one, other in zip(cold.logprobs, warm.logprobs, strict=True):
        assert other.token_id == one.token_id
        assert other.logprob == pytest.approx(one.logprob, abs=1e-3)
        assert [i for i, _ in other.top] == [i for i, _ in one.top]
