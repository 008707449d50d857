"""What requests under way may still cost is set aside."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_runtime.api.answering import Asked
from agentkit_runtime.api.caller import Caller
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatFinished, ChatMessage, ChatRequest, ChatTool, History
from agentkit_runtime.tenancy.accounts import Accounts
from agentkit_runtime.tenancy.estimate import (
    MOST_ANSWER,
    UNSAID_ANSWER,
    answer_tokens,
    prompt_tokens,
)
from agentkit_runtime.tenancy.gate import TenantGate, TenantTicket
from agentkit_runtime.tenancy.ledger import Ledger
from agentkit_runtime.tenancy.live import LiveStore
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.tenancy.terms import UNLIMITED, Terms
from agentkit_runtime.types import RequestStats, SamplingParams
from tests.runtime.service.scripted import wait_until
from tests.runtime.tenancy.clocks import Clock
from tests.runtime.tenancy.house import House, Text, ask

FINISHED = ChatFinished(
    reason="stop",
    stats=RequestStats(
        prompt_tokens=1, cached_tokens=0, completion_tokens=1, queue_s=0, ttft_s=0, total_s=0
    ),
)


def chat(text: str = "", *, max_tokens: int | None = 10, **more: object) -> ChatRequest:
    messages = (ChatMessage(role="user", content=text),)
    return ChatRequest(messages=messages, sampling=SamplingParams(max_tokens=max_tokens), **more)  # type: ignore[arg-type]


# -- the estimate ------------------------------------------------------------------------------


def test_a_prompt_is_not_taken_for_less_than_it_is(smollm2_text: Text) -> None:
    tokenizer, template = smollm2_text
    texts = (
        "Answer in one sentence, and be kind to everybody who asks.",
        "def fib(n: int) -> int:\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n",
        "Die Donaudampfschifffahrtsgesellschaft hat heute geöffnet.",
    )
    for text in texts:
        rendered = template.render([{"role": "user", "content": text}], add_generation_prompt=True)
        n_tokens = len(tokenizer.encode_rendered(rendered, None))
        assert n_tokens <= prompt_tokens(chat(text)) <= 3 * n_tokens


def test_known_ids_and_tools_count() -> None:
    tool = ChatTool(name="look", description="Looks.", parameters={"type": "object"})
    assert prompt_tokens(chat(prompt_ids=(1, 2, 3))) == 3
    assert prompt_tokens(chat(tools=(tool,))) > prompt_tokens(chat()) + 8
    history = History(ids=tuple(range(50)), n_messages=1)
    assert prompt_tokens(chat("x" * 9_000, history=history)) == 82


def test_an_answers_bound_counts_up_to_a_bound() -> None:
    bounds = (0, 7, 100_000, None)
    assert [answer_tokens(chat(max_tokens=n)) for n in bounds] == [
        *(0, 7, MOST_ANSWER),
        UNSAID_ANSWER,
    ]


# -- the gate ----------------------------------------------------------------------------------


class Desk:
    """A gate before an engine whose counts a test sets."""

    def __init__(self, path: Path, terms: Terms) -> None:
        self.store = KeyStore(path, create=True)
        self.store.set_terms("ann", terms)
        self.computed = {"ann": 0}
        self.live = LiveStore(path)
        self.accounts = Accounts(self.live, Ledger(), lambda: self.computed, clock=Clock())
        self.gate = TenantGate(self.accounts)

    def enter(self, request: ChatRequest, *more: ChatRequest, n: int = 1) -> TenantTicket:
        asked = Asked(
            id="r",
            endpoint="/v1/chat/completions",
            caller=Caller(tenant="ann"),
            chat=request,
            more=more,
            n=n,
            headers={},
            began_s=0.0,
        )
        return self.gate.enter(asked)

    def close(self) -> None:
        self.live.close()
        self.store.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path / "keys.db", Terms(tokens_per_minute=100))
    yield desk
    desk.close()


def left(desk: Desk) -> int:
    level = desk.accounts.standing("ann").tokens
    assert level is not None
    return level.remaining


def test_a_lone_request_is_let_in_whatever_it_may_cost(desk: Desk) -> None:
    desk.computed["ann"] = 99
    ticket = desk.enter(chat("x" * 30_000, max_tokens=None), n=3)
    assert left(desk) == 0
    ticket.leave()
    assert left(desk) == 1


def test_what_is_under_way_is_set_aside_until_it_ends(desk: Desk) -> None:
    first = desk.enter(chat(prompt_ids=tuple(range(40)), max_tokens=30))
    assert left(desk) == 30
    second = desk.enter(chat(prompt_ids=tuple(range(40)), max_tokens=30))
    with pytest.raises(ApiError, match="under way") as refused:
        desk.enter(chat())
    assert (refused.value.status, refused.value.retry_after_s) == (429, 1)
    desk.computed["ann"] = 5  # the other 35 were cached
    first.event(0, FINISHED)
    assert left(desk) == 0  # 100 - 5 computed - 30 - 70
    second.event(0, FINISHED)
    second.event(0, FINISHED)
    assert left(desk) == 35
    for ticket in (first, second):
        ticket.leave()
    assert left(desk) == 95


def test_of_several_prompts_none_is_settled_by_another_ones_answer(desk: Desk) -> None:
    one, other = (chat(prompt_ids=tuple(range(n)), max_tokens=5) for n in (20, 30))
    ticket = desk.enter(one, other, n=2)
    assert left(desk) == 40
    ticket.event(0, FINISHED)
    assert left(desk) == 40
    ticket.leave()
    assert left(desk) == 100


def test_a_request_whose_cost_cannot_be_estimated_leaves_nothing_behind(desk: Desk) -> None:
    schema: dict[str, object] = {}
    for _ in range(5_000):
        schema = {"items": schema}
    with pytest.raises(RecursionError):
        desk.enter(chat(tools=(ChatTool(name="f", description="", parameters=schema),)))
    assert (desk.accounts.of("ann").n_running, left(desk)) == (0, 100)


def test_a_budget_counts_what_is_under_way(desk: Desk) -> None:
    desk.store.set_terms("ann", Terms(tokens_per_month=50))
    ticket = desk.enter(chat(prompt_ids=tuple(range(60))))
    with pytest.raises(ApiError, match="under way"):
        desk.enter(chat())
    ticket.leave()
    desk.computed["ann"] = 50
    with pytest.raises(ApiError, match="used up; ask the operator"):
        desk.enter(chat())


def test_terms_that_come_while_requests_run_leave_nothing_behind(desk: Desk) -> None:
    desk.store.set_terms("ann", UNLIMITED)
    before = desk.enter(chat())
    desk.store.set_terms("ann", Terms(tokens_per_minute=100))
    during = desk.enter(chat())
    desk.store.set_terms("ann", UNLIMITED)
    for ticket in (before, during):
        ticket.leave()
    desk.store.set_terms("ann", Terms(tokens_per_minute=100))
    assert left(desk) == 100


@settings(max_examples=25, deadline=None)
@given(costs=st.lists(st.tuples(st.integers(1, 80), st.integers(0, 80)), min_size=1, max_size=30))
def test_many_at_once_exceed_a_rate_by_less_than_one_of_them(
    costs: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    desk = Desk(tmp_path_factory.mktemp("desk") / "keys.db", Terms(tokens_per_minute=200))
    let_in = []
    for n_prompt, n_answer in costs:
        try:
            desk.enter(chat(prompt_ids=tuple(range(n_prompt)), max_tokens=n_answer))
        except ApiError:
            break
        let_in.append(n_prompt + n_answer)
    desk.close()
    assert let_in
    assert sum(let_in[:-1]) < 200


# -- over HTTP ---------------------------------------------------------------------------------


def test_twenty_at_once_exceed_a_limit_by_at_most_one_of_them(house: House) -> None:
    house.store.set_terms("ann", Terms(tokens_per_minute=300))
    before = house.service.stats().scheduler.computed.get("ann", 0)
    house.pace.hold()
    with ThreadPoolExecutor(20) as clients:
        asked = [clients.submit(ask, house.ann, system=f"{n} asks.") for n in range(20)]
        try:
            wait_until(lambda: sum(one.done() for one in asked) >= 10)
        finally:
            house.pace.go()
        answers = [one.result() for one in asked]
    house.store.set_terms("ann", UNLIMITED)

    good = [answer.json()["usage"]["total_tokens"] for answer in answers if answer.is_success]
    computed = house.service.stats().scheduler.computed["ann"] - before
    assert len(good) >= 2
    assert computed <= 300 + max(good)
    refused = [answer for answer in answers if not answer.is_success]
    assert {answer.status_code for answer in refused} == {429}
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert ask(house.ann).status_code == 200
