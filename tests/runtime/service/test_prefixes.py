"""Pre-warming, pins, pruning, published prefixes and reasons for misses, by chat requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentkit_runtime import load
from agentkit_runtime.chat import ChatFinished, ChatMessage, ChatRequest, ChatTool
from agentkit_runtime.errors import PinRefused, RequestRejected
from agentkit_runtime.kv.hints import LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.kv.prune import ByPin, BySession, ByTag, ByTenant
from agentkit_runtime.load import EngineOptions
from agentkit_runtime.local import LocalRuntime
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.service.scripted import Script, scripted_model

Text = tuple[Tokenizer, ChatTemplate]

RULES = ChatMessage(role="system", content="Always answer in one sentence. " * 5)
ROLE = ChatMessage(role="system", content="You look things up. " * 5)
LOOK = ChatTool(name="look", description="Looks at a place.", parameters={"type": "object"})
FRONT = ChatRequest(messages=(RULES, ROLE), tools=(LOOK,), tenant="t", tags=frozenset({"seeker"}))


def asking(text: str, **fields: object) -> ChatRequest:
    messages = (*FRONT.messages, ChatMessage(role="user", content=text))
    return dataclasses.replace(FRONT, messages=messages, **fields)  # type: ignore[arg-type]


@pytest.fixture
def service(smollm2_text: Text) -> Iterator[ChatService]:
    answers = {"where": "Here it is.", "who": "It is me.", "else": "Nothing else."}
    with scripted_model(*smollm2_text, Script(smollm2_text[0], answers)) as loaded:
        yield ChatService(loaded)


async def ask(service: ChatService, request: ChatRequest) -> ChatFinished:
    events = [event async for event in service.stream(request)]
    assert isinstance(events[-1], ChatFinished)
    return events[-1]


async def test_the_first_request_of_a_warmed_agent_computes_only_its_question(
    service: ChatService,
) -> None:
    warmed = await service.prefixes.prewarm(FRONT)
    end = await ask(service, asking("where is it?"))

    assert warmed.cached_tokens == 0
    assert end.stats.cached_tokens >= warmed.tokens
    assert end.stats.prompt_tokens - end.stats.cached_tokens < 15


async def test_warming_again_computes_nothing(service: ChatService) -> None:
    first = await service.prefixes.prewarm(FRONT, pin=True)
    again = await service.prefixes.prewarm(FRONT, pin=True)

    assert again.cached_tokens >= again.tokens - 1
    assert first.pin is not None
    assert again.pin is not None
    assert (again.pin.handle, again.pin.tokens) == (first.pin.handle, first.tokens)
    assert [pin.handle for pin in await service.prefixes.pins("t")] == [first.pin.handle]
    assert await service.prefixes.pins("other") == []


async def test_a_pinned_front_stays_until_it_is_unpinned(service: ChatService) -> None:
    warmed = await service.prefixes.prewarm(FRONT, pin=True, name="seeker", ttl_s=60)
    assert warmed.pin is not None
    filler = ChatMessage(role="user", content="else " * 900)
    for n in range(6):
        await ask(service, ChatRequest(messages=(filler,), tenant=f"other {n}"))

    pinned = (await service.prefixes.explain(asking("where?"))).cached_tokens
    ended = await service.prefixes.unpin(warmed.pin.handle, tenant="t")
    for n in range(6):
        await ask(service, ChatRequest(messages=(filler,), tenant=f"another {n}"))

    assert pinned >= warmed.tokens
    assert ended
    assert (await service.prefixes.explain(asking("where?"))).cached_tokens < warmed.tokens


async def test_another_tenant_cannot_end_a_pin(service: ChatService) -> None:
    warmed = await service.prefixes.prewarm(FRONT, pin=True)
    assert warmed.pin is not None

    assert not await service.prefixes.unpin(warmed.pin.handle, tenant="other")
    assert len(await service.prefixes.pins()) == 1


async def test_a_pin_beyond_the_quota_is_refused_with_the_numbers(service: ChatService) -> None:
    long = ChatRequest(messages=(ChatMessage(role="system", content="word " * 2000),), tenant="t")

    with pytest.raises(PinRefused, match=r"\d+"):
        await service.prefixes.prewarm(long, pin=True)


async def test_a_front_that_no_prompt_can_be_made_of_is_refused(service: ChatService) -> None:
    with pytest.raises(RequestRejected, match="two tools are called"):
        await service.prefixes.prewarm(dataclasses.replace(FRONT, tools=(LOOK, LOOK)))


async def test_a_published_front_is_read_by_every_tenant(service: ChatService) -> None:
    published = await service.prefixes.publish(
        ChatRequest(messages=(RULES,), tools=(LOOK,), tenant="operator")
    )
    ends = [await ask(service, asking("where?", tenant=name)) for name in ("a", "b")]
    ended = await service.prefixes.unpublish(published.handle)
    late = await ask(service, asking("where?", tenant="c"))

    assert [end.stats.cached_tokens for end in ends] == [published.tokens] * 2
    assert ended
    assert late.stats.cached_tokens == 0


@pytest.mark.parametrize(
    "selector", [BySession("s", "t"), ByTag("seeker", "t"), ByTenant("t"), "pin", "prefix"]
)
async def test_what_was_pruned_is_not_read_again(service: ChatService, selector: object) -> None:
    request = asking("where?", session="s")
    warmed = await service.prefixes.prewarm(
        dataclasses.replace(FRONT, session="s"), pin=selector == "pin"
    )
    await ask(service, request)
    if selector == "prefix":
        would = await service.prefixes.prune_prefix(FRONT, dry_run=True)
        did = await service.prefixes.prune_prefix(FRONT)
    else:
        if selector == "pin":
            assert warmed.pin is not None
            selector = ByPin(warmed.pin.handle)
        would = await service.prefixes.prune(selector, dry_run=True)  # type: ignore[arg-type]
        did = await service.prefixes.prune(selector)  # type: ignore[arg-type]

    assert would.freed_tokens == did.freed_tokens > warmed.tokens // 2
    assert (await service.prefixes.explain(request)).cached_tokens <= 20


async def test_a_session_that_waits_for_a_tool_outlives_ones_that_were_used_later(
    service: ChatService,
) -> None:
    waiting, later = (
        ChatRequest(
            messages=(ChatMessage(role="user", content=f"where {name} " * 300),), session=name
        )
        for name in ("waiting", "later")
    )
    await ask(service, waiting)
    await ask(service, later)
    service.prefixes.advise(SessionWaits("waiting", 60.0, "default"))
    await service.prefixes.hint(LikelyNext(frozenset({"nobody"}), 5.0, "default"))
    filler = ChatRequest(messages=(ChatMessage(role="user", content="else " * 3000),))
    await ask(service, filler)

    kept = [(await service.prefixes.explain(request)) for request in (waiting, later)]

    assert kept[0].cached_tokens == kept[0].prompt_tokens
    assert kept[1].cached_tokens < kept[1].prompt_tokens


async def test_a_closed_engine_takes_no_advice_and_does_not_mind(service: ChatService) -> None:
    service.close()
    service.prefixes.advise(SessionDone("s", "t"))


async def test_a_rotated_key_hides_everything_that_was_cached(service: ChatService) -> None:
    """R20, R23."""
    await ask(service, asking("where?"))
    service.rotate_namespace_key(b"another key of 32 bytes or more.")

    assert (await ask(service, asking("where?"))).stats.cached_tokens == 0


@pytest.mark.parametrize(("own_key", "same"), [(None, True), (b"own " * 8, False)])
def test_a_disk_cache_keeps_the_key_that_names_its_blocks(
    smollm2_text: Text,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_key: bytes | None,
    same: bool,
) -> None:
    seen: list[EngineOptions] = []
    with scripted_model(*smollm2_text, Script(smollm2_text[0], {})) as loaded:
        monkeypatch.setattr(
            load, "load_engine", lambda spec, options: seen.append(options) or loaded
        )
        folder = tmp_path / "kv"
        first = LocalRuntime.load("any", disk_cache=str(folder), host_cache_bytes=1000)
        second = LocalRuntime.load("any", disk_cache=folder, namespace_key=own_key)
        without = LocalRuntime.load("any")
        roots = [
            runtime.service.prepare(asking("where?")).generate.namespace
            for runtime in (first, second, without)
        ]

    assert (roots[0] == roots[1]) is same
    assert roots[2] not in roots[:2]
    assert (seen[0].disk_cache, seen[0].host_cache_bytes) == (folder, 1000)
    assert (seen[2].disk_cache, seen[2].host_cache_bytes) == (None, None)


def test_a_rotated_key_counts_after_a_restart_too(
    smollm2_text: Text, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted_model(*smollm2_text, Script(smollm2_text[0], {})) as loaded:
        monkeypatch.setattr(load, "load_engine", lambda spec, options: loaded)
        first = LocalRuntime.load("any", disk_cache=tmp_path)
        before = first.service.prepare(asking("where?")).generate.namespace
        first.rotate_namespace_key(b"another key of exactly 32 bytes.")
        after = first.service.prepare(asking("where?")).generate.namespace
        restarted = LocalRuntime.load("any", disk_cache=tmp_path)

        assert restarted.service.prepare(asking("where?")).generate.namespace == after != before


# -- why did I miss --------------------------------------------------------------------------------


async def test_a_request_that_was_never_made_says_so(service: ChatService) -> None:
    report = await service.prefixes.explain(asking("where?"))

    assert (report.cause, report.cached_tokens) == ("never seen", 0)
    assert (report.place, report.role) == ("messages[0]", "system")


async def test_asking_why_or_how_long_it_is_leaves_no_trace(
    service: ChatService,
) -> None:
    """It said "evicted" of what had been asked about before, and was never computed."""
    request = asking("where?")
    await service.marks.prompt_ids(request)
    reports = [await service.prefixes.explain(request) for _ in range(2)]

    assert [report.cause for report in reports] == ["never seen", "never seen"]


async def test_what_ran_and_left_says_so_whoever_asked_about_it_since(
    service: ChatService,
) -> None:
    await ask(service, asking("where?"))
    await service.marks.prompt_ids(asking("where?"))
    longer = dataclasses.replace(
        asking("where?"),
        messages=(*asking("where?").messages, ChatMessage(role="assistant", content="There.")),
    )
    await service.marks.prompt_ids(longer)  # a longer one that only was counted hides nothing
    await service.prefixes.prune(ByTenant("t"))

    reports = [await service.prefixes.explain(asked) for asked in (asking("where?"), longer)]
    assert [report.cause for report in reports] == ["evicted", "evicted"]


async def test_what_is_cached_says_so(service: ChatService) -> None:
    await ask(service, asking("where?"))

    report = await service.prefixes.explain(asking("where?"))

    assert (report.cause, report.place) == ("cached", None)
    assert report.cached_tokens == report.prompt_tokens


async def test_a_changed_role_is_named_with_the_text_of_both_sides(service: ChatService) -> None:
    await ask(service, asking("where?"))
    changed = ChatMessage(role="system", content="You write things down. " * 5)
    request = dataclasses.replace(
        FRONT, messages=(RULES, changed, ChatMessage(role="user", content="where?"))
    )

    report = await service.prefixes.explain(request)

    assert (report.cause, report.place, report.role) == ("diverged", "messages[1]", "system")
    assert report.before.endswith("You")
    assert report.asked.startswith(" write things down")
    assert report.cached.startswith(" look things up")
    assert "' write things" in report.detail


async def test_changed_tools_are_named_as_tools(service: ChatService) -> None:
    await ask(service, asking("where?"))
    changed = dataclasses.replace(LOOK, description="Looks at two places.")

    report = await service.prefixes.explain(asking("where?", tools=(changed,)))

    assert (report.cause, report.place) == ("diverged", "tools")
    assert report.asked.startswith(" two places")


async def test_an_evicted_conversation_is_told_from_one_that_was_never_seen(
    service: ChatService,
) -> None:
    await ask(service, asking("where?"))
    await service.prefixes.prune(ByTenant("t"))

    report = await service.prefixes.explain(asking("where?"))

    assert (report.cause, report.cached_tokens) == ("evicted", 0)


async def test_nothing_of_another_tenant_is_shown(service: ChatService) -> None:
    """R22."""
    await ask(service, asking("where?", tenant="other"))

    report = await service.prefixes.explain(asking("who?"))

    assert (report.cause, report.cached_tokens, report.cached) == ("never seen", 0, "")


async def test_sessions_and_tags_of_one_tenant_are_no_handle_on_another_s(
    service: ChatService,
) -> None:
    """R22: users choose these names; they may choose the same ones."""
    mine = asking("where?", session="s")
    await ask(service, mine)
    await ask(service, asking("where?", session="s", tenant="other"))
    before = (await service.prefixes.explain(mine)).cached_tokens

    for selector in (BySession("s", "other"), ByTag("seeker", "other"), ByTenant("other")):
        await service.prefixes.prune(selector)
    await service.prefixes.hint(SessionDone("s", "other"))
    await service.prefixes.prune_prefix(dataclasses.replace(FRONT, tenant="other"))

    assert (await service.prefixes.explain(mine)).cached_tokens == before > 0
    theirs = await service.prefixes.explain(asking("where?", session="s", tenant="other"))
    assert theirs.cached_tokens == 0


async def test_hints_and_selectors_without_a_tenant_mean_that_of_requests_without_one(
    service: ChatService,
) -> None:
    request = ChatRequest(messages=asking("where?").messages, session="s", tags=frozenset({"x"}))
    for selector in (BySession("s"), ByTag("x")):
        await ask(service, request)
        assert (await service.prefixes.prune(selector)).freed_tokens > 0
    with pytest.raises(ValueError, match="tenant must not be empty"):
        ChatRequest(messages=(), tenant="")


async def test_what_is_no_hint_selector_or_handle_is_refused(service: ChatService) -> None:
    nothing: Any
    for nothing in (None, "session", 7, {"session": "s"}):
        with pytest.raises(TypeError, match="a hint is SessionWaits, SessionDone or LikelyNext"):
            await service.prefixes.hint(nothing)
        with pytest.raises(TypeError, match="a hint is"):
            service.prefixes.advise(nothing)
        with pytest.raises(TypeError, match="what to prune is said by"):
            await service.prefixes.prune(nothing)
    for handle in ("", "pin-of-somebody"):
        assert not await service.prefixes.unpin(handle)
        assert not await service.prefixes.unpublish(handle)
    with pytest.raises(LookupError, match="there is no pin"):
        await service.prefixes.prune(ByPin("pin-of-somebody"))
    assert service.healthy


async def test_what_only_a_pin_has_is_not_taken_without_one(service: ChatService) -> None:
    with pytest.raises(ValueError, match="do nothing without pin=True"):
        await service.prefixes.prewarm(FRONT, ttl_s=5.0)
    with pytest.raises(ValueError, match="do nothing without pin=True"):
        await service.prefixes.prewarm(FRONT, name="front")
    for ttl_s in (-1.0, float("nan"), float("inf"), "5"):
        with pytest.raises(ValueError, match="ttl_s must"):
            await service.prefixes.prewarm(FRONT, pin=True, ttl_s=ttl_s)  # type: ignore[arg-type]
    assert service.stats().prompt_tokens == 0, "refused before anything is computed"


async def test_a_new_key_leaves_no_pins_that_nobody_could_use(service: ChatService) -> None:
    """Regression: they stayed for ever, and counted against their tenant's quota."""
    await service.prefixes.prewarm(FRONT, pin=True)
    await service.prefixes.publish(ChatRequest(messages=(RULES,), tools=(LOOK,)))

    service.rotate_namespace_key(b"another key of 32 bytes or more.")

    assert await service.prefixes.pins() == []
    again = await service.prefixes.prewarm(FRONT, pin=True)
    assert (again.cached_tokens, again.pin is not None) == (0, True)
    stats = service.stats()
    assert stats.free_slots == stats.total_slots - again.tokens
