"""What is learnt about a server that refuses fields, or leaves its host."""

from __future__ import annotations

import dataclasses
import json
import random
import warnings

import httpx
import pytest
import respx

from agentkit.caching.plan.plan import Hints
from agentkit.context import Context
from agentkit.errors import ModelError, RequestRefused
from agentkit.folding import fold
from agentkit.models.base import Settings
from agentkit.models.hosted.openai_chat import (
    DEEPSEEK,
    OPENROUTER,
    VLLM,
    Profile,
)
from agentkit.models.hosted.openai_common import CacheFieldsRefusedWarning
from tests.agentkit.models.hosted.openai_chat.talk import (
    QUESTION,
    SAID,
    URL,
    Clock,
    adapter,
    collect,
    plan,
    refused,
    sse,
    turns,
    usage_chunk,
    without_marks,
)
from tests.agentkit.models.hosted.weather import FRONT, request


@pytest.mark.parametrize(
    ("message", "dropped"),
    [
        ("Unrecognized request argument supplied: prompt_cache_breakpoint", "marks"),
        ("messages.0.content.0.prompt_cache_breakpoint: Extra inputs are not permitted", "marks"),
        ("Extra inputs are not permitted", "all"),
    ],
)
async def test_a_gateway_that_rejects_marks_is_asked_again_without_them_and_remembered(
    httpx2_mock: respx.Router, message: str, dropped: str
) -> None:
    """C86: marks that a gateway refuses are left out at once, and from then on."""
    route = httpx2_mock.post(URL).mock(side_effect=[refused(message), sse(*SAID), sse(*SAID)])
    api, made = adapter(), turns()[1]
    planned = plan(2, 11, mode="explicit", cache_key="k")
    finished = api.body(api.layout(made), planned, made)

    with pytest.warns(CacheFieldsRefusedWarning, match="does not know") as warned:
        events = await collect(api, finished)
    assert len(warned) == 1
    assert fold(events).message.text == "Hi"
    first, second = (json.loads(each.request.content) for each in route.calls)
    assert b"prompt_cache_breakpoint" not in route.calls[1].request.content
    # Explicit mode without any breakpoint would turn the cache off.
    assert "prompt_cache_options" not in second
    assert ("prompt_cache_key" in second) == (dropped == "marks")
    assert (
        second["messages"] == json.loads(without_marks(route.calls[0].request.content))["messages"]
    )
    assert first["tools"] == second["tools"]

    later = api.body(api.layout(made), planned, made)
    assert later.data == route.calls[1].request.content
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await collect(api, later)
    assert route.call_count == 3
    assert "prompt_cache_breakpoint" in api.refused_fields


@pytest.mark.parametrize(("choice", "later"), [("auto", None), ("required", "required")])
async def test_a_gateway_that_does_not_know_masks_gets_the_choice_without(
    httpx2_mock: respx.Router, choice: str, later: str | None
) -> None:
    route = httpx2_mock.post(URL).mock(
        side_effect=[refused("Invalid value: 'allowed_tools'"), sse(*SAID)]
    )
    api, made = adapter(), request(turns()[1].context, tool_choice=choice)
    planned = plan(2, mode="explicit", cache_key="k", mask=frozenset(["weather"]))

    with pytest.warns(CacheFieldsRefusedWarning, match="allowed_tools"):
        await collect(api, api.body(api.layout(made), planned, made))

    first, second = (json.loads(each.request.content) for each in route.calls)
    assert first.pop("tool_choice")["type"] == "allowed_tools"
    assert second.pop("tool_choice", None) == later
    assert first == second
    assert api.body(api.layout(made), planned, made).data == route.calls[1].request.content


@pytest.mark.parametrize(
    "message",
    [
        "the context is too long",
        "Unsupported parameter: 'temperature'",
        "a prompt_cache_breakpoint of 1h must not come after a prompt_cache_breakpoint of 5m",
    ],
)
async def test_a_refusal_that_is_about_something_else_is_told_at_once(
    httpx2_mock: respx.Router, message: str
) -> None:
    route = httpx2_mock.post(URL).mock(return_value=refused(message))
    api, made = adapter(), request(turns()[1].context, settings=Settings(temperature=1.0))

    with pytest.raises(RequestRefused, match=message):
        await collect(api, api.body(api.layout(made), plan(2, cache_key="k"), made))

    assert route.call_count == 1
    assert not api.refused_fields


async def test_a_second_refusal_is_final_and_nothing_is_learnt(httpx2_mock: respx.Router) -> None:
    route = httpx2_mock.post(URL).mock(return_value=refused("unknown field prompt_cache_key"))
    api, made = adapter(), turns()[1]

    with pytest.raises(RequestRefused):
        await collect(api, api.body(api.layout(made), plan(cache_key="k"), made))

    assert route.call_count == 2
    assert not api.refused_fields


@pytest.mark.parametrize(
    ("profile", "field"),
    [(VLLM, "cache_salt"), (DEEPSEEK, "user_id")],
    ids=["vllm", "deepseek"],
)
async def test_what_keeps_tenants_apart_is_never_left_out(
    httpx2_mock: respx.Router, profile: Profile, field: str
) -> None:
    route = httpx2_mock.post(URL).mock(side_effect=[refused(f"unknown field {field}"), sse(*SAID)])
    api = adapter(profile)
    made = request(Context(*FRONT, QUESTION), tenant="t1")
    planned = plan(cache_key="t1", hints=Hints(body={"cache_salt": "t1"}))

    with pytest.raises(RequestRefused, match=field):
        await collect(api, api.body(api.layout(made), planned, made))

    assert route.call_count == 1
    assert not api.refused_fields


async def test_what_keeps_tenants_apart_is_sent_even_if_it_was_refused_without_a_tenant(
    httpx2_mock: respx.Router,
) -> None:
    httpx2_mock.post(URL).mock(side_effect=[refused("unknown field cache_salt"), sse(*SAID)])
    api, planned = adapter(VLLM), plan(hints=Hints(body={"cache_salt": "s"}))
    anybody = request(Context(*FRONT, QUESTION))
    with pytest.warns(CacheFieldsRefusedWarning):
        await collect(api, api.body(api.layout(anybody), planned, anybody))
    assert b"cache_salt" not in api.body(api.layout(anybody), planned, anybody).data

    tenants = request(Context(*FRONT, QUESTION), tenant="t1")

    assert b'"cache_salt":"s"' in api.body(api.layout(tenants), planned, tenants).data


async def test_a_template_that_wants_one_system_message_gets_one_at_the_next_attempt(
    httpx2_mock: respx.Router,
) -> None:
    httpx2_mock.post(URL).mock(
        side_effect=[refused("System message must be at the beginning."), sse(*SAID)]
    )
    api, made = adapter(VLLM), turns()[0]

    with pytest.raises(ModelError, match="one_system_message=True") as caught:
        await collect(api, api.body(api.layout(made), plan(), made))
    assert caught.value.retryable
    again = api.body(api.layout(made), plan(), made)
    assert fold(await collect(api, again)).message.text == "Hi"

    roles = [message["role"] for message in json.loads(again.data)["messages"]]
    assert roles == ["system", "user"]


class Gateway:
    """Routes by price; its key holds the host in `held` of 100 cases. Each host has a cache."""

    def __init__(self, held: int, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._held = held
        self._caches: dict[str, set[str]] = {"A": set(), "B": set(), "C": set()}
        self._last = "A"
        self.read = 0
        self.total = 0

    def answer(self, asked: httpx.Request) -> httpx.Response:
        body = json.loads(asked.content)
        order = body.get("provider", {}).get("order", [])
        if order:
            host = order[0]
        elif self._random.randrange(100) < self._held:
            host = self._last
        else:
            host = self._random.choice([each for each in self._caches if each != self._last])
        self._last = host
        texts = [json.dumps(message) for message in body["messages"]]
        prefixes = ["".join(texts[: n + 1]) for n in range(len(texts))]
        known = [len(prefix) for prefix in prefixes if prefix in self._caches[host]]
        self._caches[host].update(prefixes)
        hit = max(known, default=0)
        self.read += hit
        self.total += len(prefixes[-1])
        usage = usage_chunk(
            prompt_tokens=len(prefixes[-1]), prompt_tokens_details={"cached_tokens": hit}
        )
        return sse(*({**each, "provider": host} for each in (*SAID, usage)))


async def gateway_ratio(router: respx.Router, *, held: int, holds_host: bool) -> float:
    """The share of a conversation of 30 turns that a gateway reads, with and without our pin."""
    gateway = Gateway(held)
    router.post(URL).mock(side_effect=gateway.answer)
    api = adapter(OPENROUTER, now_s=Clock(), holds_host=holds_host)
    context = Context(*FRONT)
    for turn in range(30):
        context = context.append(dataclasses.replace(QUESTION, blocks=QUESTION.blocks * (turn + 1)))
        made = request(context)
        answered = fold(await collect(api, api.body(api.layout(made), plan(cache_key="k"), made)))
        context = context.append(answered.message)
    return gateway.read / gateway.total


async def test_a_gateway_that_leaves_its_host_is_held_to_it(httpx2_mock: respx.Router) -> None:
    """C52: the key alone holds a price-weighted gateway's host 60 % of the time; our pin does."""
    best = await gateway_ratio(httpx2_mock, held=100, holds_host=False)
    loose = await gateway_ratio(httpx2_mock, held=60, holds_host=False)
    held = await gateway_ratio(httpx2_mock, held=60, holds_host=True)

    assert loose < best - 0.1
    assert held > best - 0.03


async def test_a_gateway_that_stays_is_left_alone(httpx2_mock: respx.Router) -> None:
    route = httpx2_mock.post(URL).mock(
        return_value=sse(*({**each, "provider": "A"} for each in SAID))
    )
    api = adapter(OPENROUTER)
    for made in turns():
        await collect(api, api.body(api.layout(made), plan(), made))

    assert all(b'"provider"' not in call.request.content for call in route.calls)


async def test_a_host_is_forgotten_when_its_cache_is(httpx2_mock: respx.Router) -> None:
    hosts = iter("ABAB")
    httpx2_mock.post(URL).mock(
        side_effect=lambda _: sse(
            *({**each, "provider": h} for h in [next(hosts)] for each in SAID)
        )
    )
    clock = Clock()
    api, made = adapter(OPENROUTER, now_s=clock), turns()[0]
    for _ in range(2):
        await collect(api, api.body(api.layout(made), plan(), made))
    assert b'"order":["B"]' in api.body(api.layout(made), plan(), made).data

    clock.offset = 10_000

    assert b'"order"' not in api.body(api.layout(made), plan(), made).data


async def test_other_tenants_do_not_choose_each_others_hosts(httpx2_mock: respx.Router) -> None:
    hosts = iter("AB")
    httpx2_mock.post(URL).mock(
        side_effect=lambda _: sse(
            *({**each, "provider": h} for h in [next(hosts)] for each in SAID)
        )
    )
    api = adapter(OPENROUTER)
    for tenant in ("t1", "t2"):
        made = request(Context(*FRONT, QUESTION), tenant=tenant)
        await collect(api, api.body(api.layout(made), plan(), made))

    assert b'"order"' not in api.body(api.layout(made), plan(), made).data
