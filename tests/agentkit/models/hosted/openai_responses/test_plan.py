"""What the planner says about our layouts can always be written on the wire."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta

import pytest

from agentkit.blocks import Image, Text, ToolMessage, ToolResult, UserMessage
from agentkit.caching.plan.draft import Draft, LiveEntry, Written
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import OpenAiMarkPolicy, Provider, Ttl, policy_for
from agentkit.caching.simulate import ManualClock, Served, SimulatedOpenAi
from agentkit.context import Context
from agentkit.models.hosted.openai_responses.layout import ResponsesLayout
from tests.agentkit.models.hosted.openai_responses.talk import CALLS, FOLLOW_UP, QUESTION, adapter
from tests.agentkit.models.hosted.weather import ANSWER, FRONT, RULES, request

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
FILLER = "All work and no play makes Jack a dull boy. " * 150
PICTURE = ToolMessage(
    (
        ToolResult(call_id="call_1", name="weather", content=FILLER),
        ToolResult(
            call_id="call_2",
            name="lookup",
            content="",
            attachments=(Image.of_bytes(b"x", "image/png"),),
        ),
    )
)
FRONT_OF_AGENT = Context(dataclasses.replace(RULES, text=FILLER), *FRONT[1:])
CONTEXTS = [
    FRONT_OF_AGENT.append(QUESTION),
    FRONT_OF_AGENT.append(QUESTION, CALLS, PICTURE),
    FRONT_OF_AGENT.append(QUESTION, CALLS, PICTURE, ANSWER, FOLLOW_UP),
]


def draft_of(layout: ResponsesLayout) -> Draft:
    return Draft(request=layout.cache_request, shared=layout.shared, n_volatile=layout.n_volatile)


@pytest.mark.parametrize("model", ["gpt-6-sol", "gpt-6.2-sol", "gpt-5.5", "gpt-4.1"])
@pytest.mark.parametrize("volatile", [None, "noon"])
@pytest.mark.parametrize("n", range(len(CONTEXTS)))
def test_planned_marks_lie_on_parts_and_never_exceed_the_budget(
    n: int, volatile: str | None, model: str
) -> None:
    api, made = adapter(model), request(CONTEXTS[n].with_volatile(volatile))
    layout = api.layout(made)

    planned = plan(draft_of(layout), policy_for(Provider.OPENAI, model, NOW.date()), Written(), NOW)
    wire = json.loads(api.body(layout, planned, made).data)

    n_marks = json.dumps(wire).count('"prompt_cache_breakpoint"')
    assert n_marks == len(planned.marks) <= 4
    marked_options = wire.get("prompt_cache_options", {}).get("mode") == "explicit"
    assert marked_options == (n_marks > 0)


def test_a_users_mark_is_kept_by_the_planner_and_reaches_the_wire() -> None:
    marked = UserMessage.of(Text("Keep this.", "12h"), "and not this")
    api, made = adapter(), request(FRONT_OF_AGENT.append(marked))
    layout = api.layout(made)
    policy = policy_for(Provider.OPENAI, "gpt-6-sol", NOW.date())

    planned = plan(draft_of(layout), policy, Written(), NOW)
    wire = json.loads(api.body(layout, planned, made).data)

    assert [mark.ttl for mark in planned.marks if mark.by_user] == [Ttl.TWELVE_HOURS]
    assert wire["input"][-1]["content"][0]["prompt_cache_breakpoint"] == {
        "mode": "explicit",
        "ttl": "12h",
    }


def test_a_planned_run_pays_for_each_stable_token_once() -> None:
    """Every request reads what the one before it sent; only volatile text is plain input."""
    policy = policy_for(Provider.OPENAI, "gpt-6-sol", NOW.date())
    assert isinstance(policy, OpenAiMarkPolicy)
    cache, written = SimulatedOpenAi(clock=ManualClock(NOW)), 0
    last: ResponsesLayout | None = None
    for number, context in enumerate(CONTEXTS):
        layout = adapter().layout(request(context.with_volatile(f"turn {number}")))
        planned = plan(draft_of(layout), policy, entries(last, layout), NOW)

        served = cache.request(planned.applied(layout.cache_request))

        assert isinstance(served, Served)
        assert served.split.read == written == planned.predicted.split.read
        assert served.split == planned.predicted.split
        written = served.split.total - layout.blocks[-1].block.n_tokens
        last = layout


def entries(last: ResponsesLayout | None, layout: ResponsesLayout) -> Written:
    """What a tracker would say: an entry ends where the last request's stable part ended."""
    found: list[LiveEntry | None] = [None] * len(layout.blocks)
    if last is not None:
        later = NOW + timedelta(minutes=30)
        found[last.shared[-1].end - 1] = LiveEntry(
            ttl=Ttl.THIRTY_MINUTES,
            expires_s=later.timestamp(),
            readable_s=NOW.timestamp(),
        )
    return Written(entries=tuple(found))
