"""Faults that a small change of the code could bring back without any other test failing."""

from __future__ import annotations

import datetime as clock_module
import sys
import time

import pytest

from agentkit.caching.simulate import ManualClock, SimulatedAnthropic
from agentkit.context import Context, SystemPart, SystemText
from agentkit.knowledge import Knowledge
from tests.agentkit.caching.plan.planning import (
    CLAUDE,
    assistant,
    block,
    draft_of,
    policy_of,
    request,
    send,
    user,
    with_user_marks,
)

LATER_S = 120


class _Later(clock_module.datetime):
    @classmethod
    def now(cls, tz: clock_module.tzinfo | None = None) -> _Later:
        moved = super().now(tz) + clock_module.timedelta(seconds=LATER_S)
        return cls.fromtimestamp(moved.timestamp(), tz)


def _two_minutes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever agentkit reads the time with says that two minutes have passed."""
    seconds, nanoseconds = time.time(), time.time_ns()
    monkeypatch.setattr(time, "time", lambda: seconds + LATER_S)
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds + LATER_S * 10**9)
    ours = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("agentkit.")
        and getattr(module, "datetime", None) is clock_module.datetime
    ]
    for module in ours:
        monkeypatch.setattr(module, "datetime", _Later)
    monkeypatch.setattr(clock_module, "datetime", _Later)


def _shown(knowledge: Knowledge) -> tuple[bytes, ...]:
    """All that a model can be shown of some knowledge: chosen, whole, found and changed."""
    rules = SystemText(SystemPart.RULES, "Be brief.")
    chosen = Context(rules, *knowledge.select("euro"))
    whole = Context(rules, *knowledge.snapshot().documents)
    found = [chunk.document.text.encode() for chunk in knowledge.snapshot().search("euro")]
    return (chosen.dump(), whole.dump(), *found, repr(knowledge.changes(1)).encode())


def test_knowledge_that_is_shown_two_minutes_later_has_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C17: "age" labels were computed from the clock when the snapshot was *shown*."""
    knowledge = Knowledge()
    knowledge.put_all({"a": "the euro and the dollar", "b": "euro notes"})
    knowledge.put("b", "new euro notes")
    first = _shown(knowledge)

    _two_minutes_later(monkeypatch)

    assert _shown(knowledge) == first
    assert len(first) > 3


@pytest.mark.parametrize("n_calls", [4, 12])
@pytest.mark.parametrize("marked", [[], [4], [3, 4]])
def test_marks_on_the_system_prompt_take_nothing_from_wide_turns(
    marked: list[int], n_calls: int
) -> None:
    """C41: with 24 blocks a turn the mark at the end does not find the entry before it by itself;
    the place that leads to it must not go to a second mark on the system prompt."""
    clock = ManualClock()
    cache, policy = SimulatedAnthropic(clock=clock), policy_of("anthropic", CLAUDE)
    tools = [block(f"tool{n}", 400) for n in range(3)]
    system = [block("rules"), block("role")]
    messages, written = [user(block("question"))], 0
    for step in range(6):
        asked = with_user_marks(request(messages, tools=tools, system=system), marked, None)

        served = send(cache, clock, draft_of(asked), policy).served

        assert served.read == written
        written += served.split.written
        clock.advance(20)
        calls = [block(f"call{step}.{n}", 60) for n in range(n_calls)]
        texts = [block(f"answer{step}.{n}", 500) for n in range(n_calls)]
        messages = [*messages, assistant(*calls), user(*texts)]
