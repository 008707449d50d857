"""What requests under way may still cost is set aside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_runtime.api import answering
from agentkit_runtime.api.asked import Asked, NotYet
from agentkit_runtime.api.caller import Caller
from agentkit_runtime.api.estimate import (
    MOST_ANSWER,
    UNSAID_ANSWER,
    answer_tokens,
    prompt_tokens,
)
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatFinished, ChatMessage, ChatRequest, ChatTool, History
from agentkit_runtime.errors import EngineStopped
from agentkit_runtime.tenancy.accounts import Accounts
from agentkit_runtime.tenancy.estimates import MOST_WAITING, Estimates
from agentkit_runtime.tenancy.gate import TenantGate, TenantTicket
from agentkit_runtime.tenancy.ledger import Ledger
from agentkit_runtime.tenancy.live import LiveStore
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.tenancy.terms import UNLIMITED, Terms
from agentkit_runtime.types import RequestStats, SamplingParams
from tests.runtime.service.scripted import BOUND_S, wait_until
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


def done(n: int) -> Future[int]:
    future = Future[int]()
    future.set_result(n)
    return future


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


# -- what the engine says of a prompt ------------------------------------------------------------


def run(work: Callable[[], None]) -> None:
    """Run `work` in an event loop, and all that it has called back."""

    async def running() -> None:
        work()
        await asyncio.sleep(0)

    asyncio.run(running())


def test_what_the_engine_has_to_compute_takes_the_place_of_the_estimate(desk: Desk) -> None:
    ticket = desk.enter(chat(prompt_ids=tuple(range(60)), max_tokens=10))
    assert left(desk) == 30
    run(lambda: ticket.costs(lambda: done(5)))
    assert left(desk) == 85
    desk.enter(chat(prompt_ids=tuple(range(60)), max_tokens=10)).leave()
    ticket.event(0, FINISHED)
    assert left(desk) == 90
    run(lambda: ticket.costs(lambda: done(60)))  # too late: it is computed
    assert left(desk) == 90
    ticket.leave()
    run(lambda: ticket.costs(lambda: done(60)))
    assert left(desk) == 100


def test_an_engine_that_stops_leaves_the_estimate(desk: Desk) -> None:
    ticket = desk.enter(chat(prompt_ids=tuple(range(60)), max_tokens=10))
    stopped, cancelled = Future[int](), Future[int]()
    stopped.set_exception(EngineStopped("it is closed"))
    cancelled.cancel()
    run(lambda: ticket.costs(lambda: stopped))
    run(lambda: ticket.costs(lambda: cancelled))
    assert left(desk) == 30
    ticket.leave()
    assert left(desk) == 100


def test_who_waits_looks_again_one_after_the_other_and_nobody_is_left(desk: Desk) -> None:
    async def waited() -> list[str]:
        estimates, woken = Estimates(), list[str]()
        for _ in range(2):
            estimates.began()

        async def wait(name: str) -> None:
            await estimates.more_known()
            woken.append(name)
            if name == "b":
                estimates.wake()

        tasks = [asyncio.create_task(wait(name)) for name in "abcd"]
        await asyncio.sleep(0)
        estimates.known()
        await asyncio.sleep(0)
        assert woken == ["a"]
        estimates.known()
        tasks[1].cancel()  # woken, and gone before it could look
        await asyncio.wait(tasks[:3])
        assert woken == ["a", "c"]
        assert not estimates.may_change
        estimates.wake()
        await asyncio.wait_for(tasks[3], BOUND_S)
        estimates.wake()
        return woken

    assert asyncio.run(waited()) == ["a", "c", "d"]


def test_only_so_many_wait_for_what_is_not_known_yet(desk: Desk) -> None:
    async def crowd() -> None:
        first = desk.enter(chat(prompt_ids=tuple(range(200))))
        waiting = []
        for _ in range(MOST_WAITING):
            with pytest.raises(NotYet) as refusal:
                desk.enter(chat())
            waiting.append(asyncio.ensure_future(refusal.value.more_known()))
            await asyncio.sleep(0)
        with pytest.raises(ApiError, match="under way") as refused:
            desk.enter(chat())
        assert not isinstance(refused.value, NotYet)
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)
        first.leave()

    asyncio.run(crowd())
    assert desk.gate.refused == {"rate_limit_exceeded": 1}


Step = tuple[str, int, int]
STEPS = st.tuples(
    st.sampled_from(["enter", "costs", "event", "leave", "terms"]),
    st.integers(0, 5),
    st.integers(0, 300),
)


@pytest.fixture(scope="module")
def one_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    desk = Desk(tmp_path_factory.mktemp("desk") / "keys.db", Terms(tokens_per_minute=1_000))
    yield desk
    desk.close()


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEPS, max_size=30))
def test_nothing_stays_set_aside_whatever_comes_in_which_order(
    steps: list[Step], one_desk: Desk
) -> None:
    desk = one_desk
    inside: list[TenantTicket] = []

    def step(kind: str, which: int, n: int) -> None:
        if kind == "terms":
            desk.store.set_terms("ann", UNLIMITED if n % 2 else Terms(tokens_per_month=10**9))
        elif kind == "enter":
            ids = tuple(range(n + 1))
            more = () if which else (chat(prompt_ids=ids, max_tokens=which),)
            with suppress(ApiError):
                inside.append(desk.enter(chat(prompt_ids=ids, max_tokens=which), *more))
        elif inside:
            ticket = inside[which % len(inside)]
            if kind == "costs":
                ticket.costs(lambda: done(n))
            elif kind == "event":
                ticket.event(0, FINISHED)
            else:
                inside.remove(ticket)
                ticket.leave()

    async def all_steps() -> None:
        for kind, which, n in steps:
            step(kind, which, n)
            if n % 3:  # else what was told comes behind the next step
                await asyncio.sleep(0)
            assert desk.accounts.of("ann").reserved >= 0
        for ticket in inside:
            ticket.leave()
        await asyncio.sleep(0)

    asyncio.run(all_steps())
    account = desk.accounts.of("ann")
    assert not account.estimates.may_change
    assert (account.reserved, account.n_running) == (0, 0)


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


@pytest.mark.parametrize(("who", "is_warm"), [("ann", True), ("bob", False)])
def test_what_a_tenant_has_cached_is_not_set_aside_and_what_others_have_is(
    house: House, who: str, is_warm: bool
) -> None:
    rules = "Say what every visitor of the harbour office has to know. " * 30
    client: httpx2.Client = getattr(house, who)
    wait_until(lambda: house.idle)
    ask(house.ann, system=rules)
    usage = ask(house.ann, system=rules).json()["usage"]
    n_prompt = usage["prompt_tokens"]
    n_cached = usage["prompt_tokens_details"]["cached_tokens"] if is_warm else 0
    house.store.set_terms(who, Terms(tokens_per_minute=5_000))
    house.pace.hold()
    with ThreadPoolExecutor(1) as clients:
        try:
            answer = clients.submit(ask, client, system=rules)
            # Its first token is being computed: so the engine was asked before.
            assert house.pace.waiting.wait(BOUND_S)
            left = 5_000 - (n_prompt - n_cached) - 4
            wait_until(lambda: _told_left(client) == left)
        finally:
            house.pace.go()
        assert answer.result().status_code == 200
    house.store.set_terms(who, UNLIMITED)
    assert n_prompt > 300
    assert not is_warm or n_cached > 0.9 * n_prompt


def _told_left(client: httpx2.Client) -> int:
    return int(client.get("/v1/models").headers["x-ratelimit-remaining-tokens"])


def test_many_cached_requests_at_once_pass_a_limit_that_their_prompts_would_exceed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "SETTLING_S", BOUND_S)
    rules = "Say what every visitor of the harbour office has to know. " * 20
    wait_until(lambda: house.idle)
    n_prompt = [ask(house.ann, system=rules) for _ in range(2)][1].json()["usage"]["prompt_tokens"]
    house.store.set_terms("ann", Terms(tokens_per_minute=2 * n_prompt))
    with ThreadPoolExecutor(12) as clients:
        answers = list(clients.map(lambda _: ask(house.ann, system=rules), range(12)))
    house.store.set_terms("ann", UNLIMITED)
    assert [answer.status_code for answer in answers] == [200] * 12


def test_a_large_body_is_estimated_in_a_thread(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[str]()

    def noted(chats: Sequence[ChatRequest]) -> int:
        threads.append(threading.current_thread().name)
        return 1

    monkeypatch.setattr(answering, "prompts_tokens", noted)
    house.store.set_terms("ann", Terms(tokens_per_minute=1_000_000))
    messages = [{"role": "user", "content": "hello"}] * 8_000
    answer = ask(house.ann, messages=messages)
    small = ask(house.ann)
    house.store.set_terms("ann", UNLIMITED)
    assert answer.status_code == 400, "longer than the context"
    assert small.status_code == 200
    assert [name.startswith("asyncio_") for name in threads] == [True], threads
