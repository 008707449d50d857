"""`cache_control` is a pin with an end, and the counts say what was kept."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic.types import Message, Usage

from agentkit_runtime import marks
from agentkit_runtime.core import EngineCore
from agentkit_runtime.kv.pins import Pin
from tests.runtime.api.anthropic.cases import EPHEMERAL, HOUR, WEATHER, assistant, text, user
from tests.runtime.api.serving import Served
from tests.runtime.service.scripted import wait_until


@pytest.fixture(autouse=True)
def no_pins(served: Served) -> Iterator[None]:
    """Each test begins without pins, and with a prompt that nobody has sent."""
    yield
    for pin in pins(served):
        asyncio.run(served.service.prefixes.unpin(pin.handle))


def pins(served: Served) -> list[Pin]:
    return asyncio.run(served.service.prefixes.pins())


TEXTS = itertools.count()


def new_text(n_words: int = 40) -> str:
    """Like no other that the server has seen, and the same in each run of the tests."""
    return f"{uuid.uuid5(uuid.NAMESPACE_URL, str(next(TEXTS)))} " + "word " * n_words


def ask(client: anthropic.Anthropic, *messages: Any, **more: Any) -> Message:
    given = messages or (user("hello"),)
    return client.messages.create(model="scripted", max_tokens=20, messages=given, **more)


def counts(usage: Usage) -> tuple[int, int, int, int]:
    """Read, created for an hour, created for five minutes, the rest."""
    created = usage.cache_creation
    assert created is not None
    assert usage.cache_read_input_tokens is not None
    return (
        usage.cache_read_input_tokens,
        created.ephemeral_1h_input_tokens,
        created.ephemeral_5m_input_tokens,
        usage.input_tokens,
    )


def test_a_marked_system_is_pinned_and_read_by_the_next_request(
    served: Served, client: anthropic.Anthropic
) -> None:
    system = [text(new_text(), cache_control=EPHEMERAL)]

    first = counts(ask(client, system=system).usage)
    (pin,) = pins(served)
    second = counts(ask(client, user("accents"), system=system).usage)

    assert pin.ttl_s == 300
    assert first[0] + first[2] == pin.tokens
    assert first[1] == 0
    assert first[2] > 40
    assert second[0] >= pin.tokens
    assert second[1:3] == (0, 0)
    assert [p.handle for p in pins(served)] == [pin.handle]


def test_the_pin_ends_with_the_text_that_is_marked(
    served: Served, client: anthropic.Anthropic
) -> None:
    rules, rest = new_text(), "And be quick."
    ask(client, system=[text(rules, cache_control=HOUR), text(rest)])
    (pin,) = pins(served)
    with_rest = client.messages.count_tokens(
        model="scripted", messages=[user("hello")], system=f"{rules}\n{rest}"
    )
    without = client.messages.count_tokens(model="scripted", messages=[user("hello")], system=rules)
    n_rest = with_rest.input_tokens - without.input_tokens
    usage = ask(client, system=[text(rules, cache_control=HOUR), text(rest)]).usage

    assert pin.ttl_s == 3600
    behind_rules = sum(counts(usage)) - pin.tokens
    assert behind_rules - n_rest == pytest.approx(without.input_tokens - pin.tokens, abs=1)


def test_two_lifetimes_are_counted_apart(served: Served, client: anthropic.Anthropic) -> None:
    system = [text(new_text(), cache_control=HOUR)]
    message = user(text(f"{new_text()} hello", cache_control=EPHEMERAL))

    _, hour, minutes, rest = counts(ask(client, message, system=system).usage)

    assert {pin.ttl_s for pin in pins(served)} == {300, 3600}
    assert min(hour, minutes) > 40
    assert 3 <= rest < 8  # the beginning of the answer is behind the mark


def test_a_mark_on_tools_keeps_the_front_that_they_are_in(
    served: Served, client: anthropic.Anthropic
) -> None:
    tools = [{**WEATHER, "description": new_text(), "cache_control": EPHEMERAL}]

    first = counts(ask(client, tools=tools).usage)
    (pin,) = pins(served)
    second = counts(ask(client, user("accents"), tools=tools).usage)

    assert first[2] > 40
    assert second[0] >= pin.tokens


def test_a_conversation_moves_its_mark_along(served: Served, client: anthropic.Anthropic) -> None:
    system, messages = new_text(), [user("Hi"), assistant("Yes?"), user("hello")]
    first = ask(client, *messages, system=system, cache_control=EPHEMERAL)
    messages += [assistant(first.content[0].text), user("accents")]  # type: ignore[union-attr]

    read, _, created, _ = counts(
        ask(client, *messages, system=system, cache_control=EPHEMERAL).usage
    )

    assert read > sum(counts(first.usage)) > 40
    assert 0 < created < 20
    assert len(pins(served)) == 2


def test_a_stream_tells_the_counts_at_once_and_again_at_its_end(
    served: Served, client: anthropic.Anthropic
) -> None:
    system = [text(new_text(), cache_control=HOUR)]
    served.pace.hold()
    try:
        with client.messages.stream(
            model="scripted", max_tokens=20, messages=[user("hello")], system=system
        ) as stream:
            wait_until(served.pace.waiting.is_set)
            served.pace.go()
            for event in stream:
                if event.type == "message_start":
                    begun = counts(event.message.usage)
                    assert [pin.ttl_s for pin in pins(served)] == [3600]
                if event.type == "message_delta":
                    ended = event.usage
    finally:
        served.pace.go()

    read, hour, minutes, rest = begun
    assert hour > 40
    assert (minutes, read + hour + rest) == (0, sum(begun))
    assert ended.cache_creation_input_tokens == hour
    assert (ended.cache_read_input_tokens, ended.input_tokens) == (read, rest)


def test_a_mark_beyond_the_quota_is_told_as_ordinary_input(
    served: Served, client: anthropic.Anthropic
) -> None:
    """A quarter of the pool's 4096 slots is a tenant's."""
    system = [text(new_text(1200), cache_control=EPHEMERAL)]

    read, hour, minutes, rest = counts(ask(client, system=system).usage)

    assert pins(served) == []
    assert (hour, minutes) == (0, 0)
    assert read + rest > 1200


def test_prewarming_computes_pins_and_answers_nothing(
    served: Served, client: anthropic.Anthropic
) -> None:
    system = [text(new_text(), cache_control=HOUR)]

    warmed = ask(client, user("x"), system=system, extra_body={"max_tokens": 0})
    read, *created, _ = counts(ask(client, system=system).usage)

    assert (warmed.content, warmed.stop_reason) == ([], "max_tokens")
    assert warmed.usage.output_tokens == 0
    assert counts(warmed.usage)[1] > 40
    (pin,) = pins(served)
    assert read >= pin.tokens
    assert created == [0, 0]


def test_a_tenant_has_a_bounded_number_of_marks(
    served: Served, client: anthropic.Anthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "MAX_MARKS_PER_TENANT", 2)
    for _ in range(4):
        ask(client, system=[text(new_text(5), cache_control=EPHEMERAL)])

    assert len(pins(served)) <= 2


def test_a_mark_for_five_minutes_does_not_shorten_one_for_an_hour(
    served: Served, client: anthropic.Anthropic
) -> None:
    system = new_text()
    for control in (HOUR, EPHEMERAL):
        ask(client, system=[text(system, cache_control=control)])

    assert [pin.ttl_s for pin in pins(served)] == [3600.0]


def test_a_mark_leaves_a_pin_made_by_hand_as_it_is(
    served: Served, client: anthropic.Anthropic, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = [text(new_text(), cache_control=EPHEMERAL)]
    ask(client, system=system)
    (pin,) = pins(served)

    def by_hand(core: EngineCore) -> None:
        held = core.cache._pins.get(pin.handle)
        assert held is not None
        held.name, held.ttl_s = "mine", None

    served.service.prefixes.engine.call(by_hand).result()
    monkeypatch.setattr(marks, "MAX_MARKS_PER_TENANT", 1)
    for _ in range(2):
        ask(client, system=system)
        ask(client, system=[text(new_text(5), cache_control=EPHEMERAL)])

    assert ("mine", None) in [(one.name, one.ttl_s) for one in pins(served)]


def test_counting_tokens_keeps_nothing(served: Served, client: anthropic.Anthropic) -> None:
    system = [text(new_text(), cache_control=HOUR)]
    counted = client.messages.count_tokens(
        model="scripted", messages=[user("hello")], system=system
    )

    assert pins(served) == []
    assert counted.input_tokens == sum(counts(ask(client, system=system).usage))
