"""Cached-content objects: made once, used again, kept alive, given back, and paid for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import httpx2
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentkit.blocks import UserMessage
from agentkit.caching.ledger import Ledger
from agentkit.caching.plan.plan import CachedFront
from agentkit.caching.simulate import SimulatedGemini
from agentkit.caching.times import VirtualTime
from agentkit.context import Context
from agentkit.errors import ModelError, RequestRefused
from agentkit.events import UsageEvent
from agentkit.folding import fold
from agentkit.models.hosted.gemini import GeminiAdapter
from agentkit.models.hosted.gemini.body import GeminiBody
from agentkit.models.hosted.gemini.cached_content import CachedContents
from agentkit.models.hosted.gemini.front import Created, Front, FrontKey
from agentkit.usage import Usage
from tests.agentkit.models.hosted.gemini.talk import (
    FRONT,
    HISTORY,
    MODEL,
    FakeServer,
    events_of,
    long_front,
    object_plan,
    plan,
    refusal,
    request,
)

GONE = refusal(403, "PERMISSION_DENIED", "CachedContent not found (or permission denied)")


def talk(n_messages: int = 1, **changes: object) -> Any:
    return request(Context(*long_front(), *HISTORY[:n_messages]), **changes)


async def send(adapter: GeminiAdapter, wanted: Any | None = None, *, ttl_s: int = 600) -> None:
    body = object_plan(adapter, wanted or talk(), ttl_s=ttl_s)
    fold(await events_of(adapter.stream(body)))


async def test_an_object_holds_the_front_and_the_request_only_the_rest() -> None:
    """C82: the object is made of tools and system instruction; `contents` is absent, not empty."""
    server, time = FakeServer(), VirtualTime()
    adapter = server.adapter(time=time)
    body = object_plan(adapter, talk())
    full = json.loads(body.data)

    await events_of(adapter.stream(body))

    assert server.paths() == ["POST cachedContents", f"POST {MODEL}:streamGenerateContent"]
    (created,) = server.bodies("create")
    assert created.pop("model") == f"models/{MODEL}"
    assert created.pop("ttl") == "600s"
    assert created.pop("displayName").startswith("agentkit ")
    assert created == {"tools": full["tools"], "systemInstruction": full["systemInstruction"]}
    (sent,) = server.bodies("stream")
    assert sent == {"cachedContent": "cachedContents/1", "contents": full["contents"]}


async def test_the_object_is_used_again_by_every_later_request() -> None:
    server = FakeServer()
    adapter = server.adapter(time=VirtualTime())
    for n_messages in (1, 3, 5):
        await send(adapter, talk(n_messages))

    assert len(server.bodies("create")) == 1
    assert [body["cachedContent"] for body in server.bodies("stream")] == ["cachedContents/1"] * 3


async def test_a_front_may_hold_whole_messages_behind_the_system_instruction() -> None:
    server = FakeServer()
    adapter = server.adapter(time=VirtualTime())
    wanted = talk(5)
    layout = adapter.layout(wanted)
    full = json.loads(adapter.body(layout, plan(layout), wanted).data)
    end = next(each.end for each in layout.shared if each.end > 5)
    body = adapter.body(layout, plan(layout, cached_front=CachedFront(end=end, ttl_s=60)), wanted)

    await events_of(adapter.stream(body))

    assert server.bodies("create")[0]["contents"] == full["contents"][:1]
    assert server.bodies("stream")[0]["contents"] == full["contents"][1:]
    with pytest.raises(ValueError, match="must end behind"):
        adapter.body(layout, plan(layout, cached_front=CachedFront(end=1, ttl_s=60)), wanted)


async def test_a_request_that_steers_tool_calls_sends_its_front_in_full() -> None:
    server = FakeServer()
    adapter = server.adapter(time=VirtualTime())

    await send(adapter, talk(tool_choice="none"))

    assert server.paths() == [f"POST {MODEL}:streamGenerateContent"]
    assert "tools" in server.bodies("stream")[0]


async def test_an_object_is_worth_more_than_a_mask_which_the_loop_keeps_to_anyway() -> None:
    server = FakeServer()
    adapter = server.adapter(time=VirtualTime())
    wanted = talk(allowed_tools=frozenset(("add",)))
    layout = adapter.layout(wanted)
    front = CachedFront(end=5, ttl_s=60)

    planned = plan(layout, cached_front=front, mask=wanted.allowed_tools)
    await events_of(adapter.stream(adapter.body(layout, planned, wanted)))

    assert "toolConfig" not in server.bodies("stream")[0]
    assert "cachedContent" in server.bodies("stream")[0]


async def test_a_long_history_makes_no_object_of_a_short_front() -> None:
    """C83: the minimum holds for the front; the whole prompt's length says nothing."""
    server = FakeServer()
    adapter = server.adapter(time=VirtualTime())
    long_history = Context(*FRONT, UserMessage.of("word " * 50_000))

    await send(adapter, request(long_history))

    assert server.paths() == [f"POST {MODEL}:streamGenerateContent"]


async def test_a_model_without_objects_is_never_asked_for_one() -> None:
    server = FakeServer()

    await send(server.adapter("gemini-4-argon", time=VirtualTime()))

    assert server.bodies("create") == []


async def test_a_refused_create_is_not_tried_again_for_every_request() -> None:
    """C83: after a failure the front goes in full, and the next attempt waits ever longer."""
    server, time = FakeServer(), VirtualTime()
    too_short = refusal(400, "INVALID_ARGUMENT", "Cached content is too small")
    server.reply("create", too_short, too_short)
    adapter = server.adapter(time=time)

    for _ in range(5):
        await send(adapter)
        await time.advance(60)
    assert len(server.bodies("create")) == 1
    assert all("tools" in body for body in server.bodies("stream"))

    await time.advance(301)  # 10 minutes after the first attempt
    await send(adapter)
    await time.advance(900)
    await send(adapter)
    assert len(server.bodies("create")) == 2

    await time.advance(301)  # 20 minutes after the second
    await send(adapter)
    assert len(server.bodies("create")) == 3
    assert "cachedContent" in server.bodies("stream")[-1]


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b"oops", b'{"name":""}'])
async def test_an_answer_that_is_no_object_costs_no_request(answer: bytes) -> None:
    server = FakeServer().reply("create", httpx2.Response(200, content=answer))

    await send(server.adapter(time=VirtualTime()))

    assert "tools" in server.bodies("stream")[0]


async def test_an_overloaded_api_is_asked_again_sooner_but_not_before_it_says() -> None:
    server, time = FakeServer(), VirtualTime()
    wait = {"retryDelay": "40s"}
    server.reply("create", refusal(503, "UNAVAILABLE", "busy"), refusal(429, "X", "limit", wait))
    adapter = server.adapter(time=time)

    attempts = []
    for _ in range(8):
        await send(adapter)
        attempts.append(len(server.bodies("create")))
        await time.advance(10)

    assert attempts == [1, 1, 2, 2, 2, 2, 3, 3]


@pytest.mark.parametrize(
    "gone",
    [
        GONE,
        refusal(404, "NOT_FOUND", "cached content cachedContents/1 does not exist"),
        refusal(400, "INVALID_ARGUMENT", "Cache content 123 is expired."),
    ],
)
async def test_an_object_that_is_gone_costs_one_full_prompt_and_no_error(
    gone: httpx2.Response,
) -> None:
    server = FakeServer().reply("stream", gone)
    adapter = server.adapter(time=VirtualTime())

    await send(adapter)
    await send(adapter)

    bodies = server.bodies("stream")
    assert [body.get("cachedContent") for body in bodies] == [
        "cachedContents/1",
        None,
        "cachedContents/2",
    ]
    assert "tools" in bodies[1]


async def test_a_report_can_say_why_the_front_was_not_read_from_its_object() -> None:
    server, time = FakeServer(), VirtualTime()
    server.reply("create", refusal(503, "UNAVAILABLE", "busy"))
    adapter = server.adapter(time=time)

    async def note() -> str | None:
        events = await events_of(adapter.stream(object_plan(adapter, talk())))
        (last,) = [event for event in events if isinstance(event, UsageEvent)][-1:]
        return last.cache_note

    assert "no cached content" in (await note() or "")
    await time.advance(60)
    assert await note() is None
    server.reply("stream", GONE)
    assert "CachedContent not found" in (await note() or "")


async def test_the_full_prompt_is_sent_only_once() -> None:
    server = FakeServer().reply("stream", GONE, refusal(400, "INVALID_ARGUMENT", "bad image"))

    with pytest.raises(RequestRefused, match="bad image"):
        await send(server.adapter(time=VirtualTime()))

    assert len(server.bodies("stream")) == 2


async def test_an_object_in_use_is_renewed_before_it_ends() -> None:
    server, time = FakeServer(), VirtualTime()
    adapter = server.adapter(time=time)
    for _ in range(20):  # 20 minutes, with a life of 10
        await send(adapter)
        await time.advance(60)

    assert len(server.bodies("create")) == 1
    assert server.bodies("renew") == [{"ttl": "600s"}] * 3


async def test_an_object_that_nobody_used_is_made_again_after_its_end() -> None:
    server, time = FakeServer(), VirtualTime()
    adapter = server.adapter(time=time)

    await send(adapter)
    await time.advance(600)
    await send(adapter)

    assert len(server.bodies("create")) == 2
    assert server.bodies("renew") == []


async def test_a_renewal_that_fails_does_not_lose_the_object_while_it_lives() -> None:
    server, time = FakeServer(), VirtualTime()
    server.reply("renew", refusal(503, "UNAVAILABLE", "busy"), GONE)
    adapter = server.adapter(time=time)
    await send(adapter)
    await time.advance(400)

    await send(adapter)
    assert server.bodies("stream")[-1]["cachedContent"] == "cachedContents/1"
    await send(adapter)
    assert "cachedContent" not in server.bodies("stream")[-1]
    await send(adapter)
    assert server.bodies("stream")[-1]["cachedContent"] == "cachedContents/2"


async def test_touching_renews_the_object_and_sends_no_prompt() -> None:
    server, time = FakeServer(), VirtualTime()
    adapter = server.adapter(time=time)
    body = object_plan(adapter, talk())

    assert await adapter.touch(body) is None
    await events_of(adapter.stream(body))
    await time.advance(500)
    event = await adapter.touch(body)
    await time.advance(500)
    await events_of(adapter.stream(body))

    assert isinstance(event, UsageEvent)
    assert event.usage == Usage.total(())
    assert [path.split()[0] for path in server.paths()] == [
        "POST",
        "POST",
        "PATCH",
        "PATCH",
        "POST",
    ]
    assert len(server.bodies("create")) == 1
    wanted = talk()
    layout = adapter.layout(wanted)
    assert await adapter.touch(adapter.body(layout, plan(layout), wanted)) is None


async def test_objects_of_different_tenants_fronts_and_models_are_apart() -> None:
    server = FakeServer()
    adapter = server.adapter(time=VirtualTime())
    await send(adapter, talk(tenant="one"))
    await send(adapter, talk(tenant="two"))
    rules, tools, role, document = long_front()
    await send(adapter, request(Context(rules, tools, document, *HISTORY[:1])))

    used = [body["cachedContent"] for body in server.bodies("stream")]
    assert len(set(used)) == 3
    assert role not in (rules, document)


async def test_whoever_wants_a_front_that_is_being_made_waits_for_it() -> None:
    server, gate = FakeServer(), asyncio.Event()
    server.reply("create", _behind(gate))
    adapter = server.adapter(time=VirtualTime())

    async with asyncio.TaskGroup() as group:
        for n_messages in (1, 3, 5):
            group.create_task(send(adapter, talk(n_messages)))
        await asyncio.sleep(0)
        gate.set()

    assert len(server.bodies("create")) == 1
    assert [body["cachedContent"] for body in server.bodies("stream")] == ["slow"] * 3


async def test_cancelling_one_who_waits_leaves_the_object_to_the_others_and_to_the_end() -> None:
    server, gate = FakeServer(), asyncio.Event()
    server.reply("create", _behind(gate))
    adapter = server.adapter(time=VirtualTime())
    first = asyncio.create_task(send(adapter))
    second = asyncio.create_task(send(adapter))
    await server.got("create", 1)

    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    gate.set()
    await second

    assert [body["cachedContent"] for body in server.bodies("stream")] == ["slow"]
    await adapter.aclose()
    assert server.paths()[-1] == "DELETE slow"


async def test_closing_waits_for_what_is_being_made_and_deletes_everything() -> None:
    server, gate = FakeServer(), asyncio.Event()
    adapter = server.adapter(time=VirtualTime())
    await send(adapter, talk(tenant="one"))
    server.reply("create", _behind(gate))
    alone = asyncio.create_task(send(adapter, talk(tenant="two")))
    await server.got("create", 2)
    alone.cancel()
    await asyncio.gather(alone, return_exceptions=True)

    closing = asyncio.create_task(adapter.aclose())
    await asyncio.sleep(0)
    gate.set()
    await closing

    assert sorted(server.paths()[-2:]) == ["DELETE 1", "DELETE slow"]
    await send(adapter, talk(tenant="one"))
    assert "cachedContent" not in server.bodies("stream")[-1]


async def test_a_delete_that_fails_is_no_error_and_the_storage_counts_to_the_end() -> None:
    server, time = FakeServer(), VirtualTime()
    server.reply("delete", refusal(503, "UNAVAILABLE", "busy"))
    adapter = server.adapter(time=time)
    await send(adapter, ttl_s=3_600)
    await adapter.aclose()
    await time.advance(7_200)

    (use,) = adapter.cached_contents.storage()
    assert use.token_hours == 7_000


async def test_what_objects_cost_is_what_the_simulator_says() -> None:
    server, time = FakeServer(), VirtualTime()
    adapter = server.adapter(time=time)
    wanted = talk(tenant="acme")
    layout = adapter.layout(wanted)
    front = layout.cache_request
    n_tokens = sum(block.n_tokens for block in (*front.tools, *front.system))
    body = httpx2.Response(
        200, json={"name": "c/1", "usageMetadata": {"totalTokenCount": n_tokens}}
    )
    server.reply("create", body)
    simulated = SimulatedGemini(clock=time)
    made = simulated.create(
        type(front)(identity=front.identity, tools=front.tools, system=front.system), ttl_s=1_800
    )

    await send(adapter, wanted, ttl_s=1_800)
    await time.advance(900)
    (living,) = adapter.cached_contents.storage()
    assert living.storage_cost == simulated.storage_cost(made.name)  # type: ignore[union-attr]
    await time.advance(3_600)
    (ended,) = adapter.cached_contents.storage()

    assert ended.storage_cost == simulated.storage_cost(made.name)  # type: ignore[union-attr]
    assert ended.creation_cost == made.creation_cost.total  # type: ignore[union-attr]
    assert ended.token_hours == Decimal(n_tokens) / 2
    assert (ended.objects, ended.created_tokens, ended.tenant) == (1, n_tokens, "acme")
    assert ended.cost == ended.creation_cost + ended.storage_cost  # type: ignore[operator]


async def test_charges_for_a_ledger_add_up_to_what_was_spent_and_none_comes_twice() -> None:
    server, time, ledger = FakeServer(), VirtualTime(), Ledger()
    adapter = server.adapter(time=time)
    contents = adapter.cached_contents
    for tenant in ("one", "two", "one"):
        await send(adapter, talk(tenant=tenant), ttl_s=3_600)
        await time.advance(1_234)
        for charge in (*contents.charges(), *contents.charges()):
            ledger.charge(charge)
    await time.advance(7_200)
    await adapter.aclose()
    for charge in contents.charges():
        ledger.charge(charge)
    await time.advance(7_200)

    assert contents.charges() == ()
    spent = sum((use.cost for use in contents.storage() if use.cost), Decimal(0))
    assert ledger.spent.exact is not None
    assert round(ledger.spent.exact, 15) == round(spent, 15) > 0
    assert {charge.tenant for charge in ledger.charges} == {"one", "two"}
    assert len(ledger.charges) == 2 + 1 + 2 + 2 + 2


async def test_objects_of_a_model_without_a_price_cost_something_unknown() -> None:
    api = Api(VirtualTime())
    contents = CachedContents(
        api, time=api.time, takes=lambda front, at: True, rates=lambda n_tokens, at: None
    )
    await contents.acquire(front("a"))

    (charge,) = contents.charges()
    assert charge.usd is None
    (use,) = contents.storage()
    assert (use.creation_cost, use.storage_cost, use.cost) == (None, None, None)
    assert use.created_tokens == 5_000


async def test_the_object_that_ends_first_makes_room_for_another() -> None:
    api = Api(VirtualTime())
    contents = CachedContents(
        api, time=api.time, takes=lambda front, at: True, rates=lambda n_tokens, at: None, most=2
    )
    for name in "abc":
        await contents.acquire(front(name))
        await api.time.advance(1)

    assert sorted(api.living()) == ["o2", "o3"]


class Api:
    """Objects without a network; each call can be made to fail."""

    def __init__(self, time: VirtualTime) -> None:
        self.time = time
        self.ends: dict[str, float] = {}
        self.fails: list[ModelError] = []
        self.calls = 0

    def living(self) -> list[str]:
        return [name for name, end in self.ends.items() if end > self.time.now().timestamp()]

    async def create(self, front: Front) -> Created:
        await self._call()
        name = f"o{len(self.ends) + 1}"
        self.ends[name] = self.time.now().timestamp() + front.ttl_s
        return Created(name=name, n_tokens=front.n_tokens)

    async def renew(self, name: str, ttl_s: int) -> None:
        await self._call()
        if name not in self.living():
            raise RequestRefused("gone")
        self.ends[name] = self.time.now().timestamp() + ttl_s

    async def delete(self, name: str) -> None:
        await self._call()
        self.ends[name] = self.time.now().timestamp()

    async def _call(self) -> None:
        self.calls += 1
        await asyncio.sleep(0)
        if self.fails:
            raise self.fails.pop(0)


def front(name: str, *, ttl_s: int = 600) -> Front:
    key = FrontKey(model=MODEL, digest=name, tenant="")
    return Front(key=key, data=b"{}", n_contents=0, n_tokens=5_000, ttl_s=ttl_s)


class ObjectsMachine(RuleBasedStateMachine):
    """Whatever happens, a name that is handed out lives, and there is one object for each front."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.api = Api(VirtualTime())
        self.contents = CachedContents(
            self.api,
            time=self.api.time,
            takes=lambda front, at: True,
            rates=lambda n_tokens, at: None,
            most=3,
        )
        self.is_closed = False

    @rule(name=st.sampled_from("abcd"), ttl_s=st.sampled_from([60, 600]), n=st.integers(1, 3))
    def acquire(self, name: str, ttl_s: int, n: int) -> None:
        before = self.api.calls

        async def together() -> list[str | None]:
            waits = (self.contents.acquire(front(name, ttl_s=ttl_s)) for _ in range(n))
            return list(await asyncio.gather(*waits))

        names = self.loop.run_until_complete(together())

        assert len(set(names)) == 1
        assert names[0] is None or names[0] in self.api.living()
        assert self.api.calls - before <= 2  # one create or renewal, and one that makes room

    @rule(name=st.sampled_from("abcd"))
    def cancelled(self, name: str) -> None:
        async def cancel() -> None:
            task = asyncio.create_task(self.contents.acquire(front(name)))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for _ in range(10):
                await asyncio.sleep(0)

        self.loop.run_until_complete(cancel())

    @rule(seconds=st.sampled_from([1, 50, 400, 700]))
    def wait(self, seconds: int) -> None:
        self.loop.run_until_complete(self.api.time.advance(seconds))

    @rule(refused=st.booleans())
    def fail_next(self, refused: bool) -> None:
        error = RequestRefused("no") if refused else ModelError("busy", retryable=True)
        self.api.fails.append(error)

    @precondition(lambda self: not self.is_closed)
    @rule()
    def close(self) -> None:
        self.api.fails.clear()
        self.loop.run_until_complete(self.contents.aclose())
        self.is_closed = True
        assert self.api.living() == []

    @invariant()
    def nothing_is_lost_sight_of(self) -> None:
        uses = self.contents.storage()
        assert sum(use.objects for use in uses) == len(self.api.ends)

    def teardown(self) -> None:
        self.loop.close()


TestObjects = ObjectsMachine.TestCase
TestObjects.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def _behind(gate: asyncio.Event) -> Callable[[httpx2.Request], Awaitable[httpx2.Response]]:
    async def reply(got: httpx2.Request) -> httpx2.Response:
        del got
        await gate.wait()
        return httpx2.Response(200, json={"name": "slow"})

    return reply


def test_a_body_without_a_front_has_no_object() -> None:
    adapter = GeminiAdapter(MODEL)
    wanted = talk()
    layout = adapter.layout(wanted)

    assert adapter.body(layout, plan(layout), wanted) == GeminiBody(
        data=adapter.body(layout, plan(layout), wanted).data
    )
