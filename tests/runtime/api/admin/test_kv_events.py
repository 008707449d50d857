from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.admin.conftest import serving_operated
from tests.runtime.api.admin.operated import Operated
from tests.runtime.api.conftest import ANSWERS
from tests.runtime.service.scripted import Script, scripted_model, wait_until

Event = tuple[int, str, dict[str, object]]


@contextmanager
def following(operated: Operated, **query: str | int) -> Iterator[Iterator[Event]]:
    """The events of one stream as they come."""
    with operated.root.stream("GET", "/admin/v1/kv-events", params=query) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _events(answer.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[Event]:
    seen: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            seen[name] = value
        elif "id" in seen:
            yield int(seen["id"]), seen["event"], json.loads(seen["data"])
            seen = {}


def until(events: Iterator[Event], name: str) -> list[Event]:
    """Events up to the first of this name."""
    found = []
    for event in events:
        found.append(event)
        if event[1] == name:
            return found
    raise AssertionError(f"the stream ended without {name}")


def test_a_follower_sees_what_comes_and_goes_and_no_prompt(operated: Operated) -> None:
    with following(operated) as events:
        operated.ask(operated.ann)
        operated.flush()
        seen = until(events, "all_blocks_cleared")
    stored = [document for _, name, document in seen if name == "block_stored"]
    removed = [document for _, name, document in seen if name == "block_removed"]
    names = {name for one in stored for name in list_of(one["block_hashes"])}
    assert names == {name for one in removed for name in list_of(one["block_hashes"])}
    assert len(names) >= 2
    assert {one["medium"] for one in stored} == {"GPU"}
    assert not any("token_ids" in one for one in stored)
    assert sum(one["block_size"] == BLOCK_TOKENS for one in stored) == len(stored)
    numbers = [number for number, _, _ in seen]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_follower_that_comes_back_goes_on_where_it_was(operated: Operated) -> None:
    with following(operated) as events:
        operated.ask(operated.ann)
        operated.flush()
        seen = until(events, "all_blocks_cleared")
    with following(operated, since=seen[0][0]) as events:
        assert until(events, "all_blocks_cleared") == seen[1:]
    browser = {"Last-Event-ID": str(seen[1][0])}
    with operated.root.stream("GET", "/admin/v1/kv-events", headers=browser) as answer:
        assert until(_events(answer.iter_lines()), "all_blocks_cleared") == seen[2:]


def test_who_was_away_for_too_long_is_told_of_the_gap(operated: Operated) -> None:
    engine = operated.served.service.prefixes.engine
    kept = 1_000
    engine.call(lambda core: [core.cache.clear() for _ in range(kept + 10)]).result()
    with following(operated, since=0) as events:
        number, name, document = next(events)
        assert name == "gap"
        assert document == {"first_kept": number + 1}
        behind = [next(events) for _ in range(kept)]
    assert behind[0][0] == number + 1
    assert {name for _, name, _ in behind} == {"all_blocks_cleared"}


def test_a_follower_that_left_leaves_nothing_behind(operated: Operated) -> None:
    engine = operated.served.service.prefixes.engine

    def n_subscribers() -> int:
        return engine.call(lambda core: len(core.cache.events._subscribers)).result()  # type: ignore[union-attr]

    with following(operated), following(operated):
        wait_until(lambda: n_subscribers() == 2)
    wait_until(lambda: n_subscribers() == 0)
    wait_until(lambda: operated.served.n_handlers == 0)


def test_without_a_log_of_events_the_reason_is_given(
    smollm2_text: tuple[Tokenizer, ChatTemplate],
) -> None:
    script = Script(smollm2_text[0], ANSWERS)
    with scripted_model(*smollm2_text, script) as loaded:
        with serving_operated(ChatService(loaded)) as operated:
            answer = operated.root.get("/admin/v1/kv-events")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "kv_events_off"


@pytest.mark.parametrize("since", ["-1", "x"])
def test_a_number_that_is_none_is_refused(operated: Operated, since: str) -> None:
    answer = operated.root.get("/admin/v1/kv-events", params={"since": since})
    assert answer.status_code == 400


@pytest.mark.parametrize("number", ["", "x", "-1", "9" * 5_000])
def test_a_last_event_that_was_never_told_is_not_looked_for(
    operated: Operated, number: str
) -> None:
    with operated.root.stream(
        "GET", "/admin/v1/kv-events", headers={"Last-Event-ID": number}
    ) as answer:
        operated.flush()
        assert next(_events(answer.iter_lines()))[1] == "all_blocks_cleared"


def list_of(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
