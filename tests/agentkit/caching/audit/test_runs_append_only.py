"""Nothing that was sent changes on any provider's wire, whatever whole runs go through.

Agents with tools, images, thinking, failing tools, providers that fail or break off, runs that are
left early, paused, run out of turns, and are resumed by a new process from what was saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit import Agent, Context, RunError, asking, tool
from agentkit.blocks import Image, UserMessage
from agentkit.errors import ModelError
from agentkit.events import RunStarted
from agentkit.fake import Ask, Call, Failure, Reply
from tests.agentkit.caching.audit.worlds import (
    PROVIDERS,
    TAKES_IMAGES,
    AnyWorld,
    assert_prefix,
    stable_pieces_of,
)

NOW = "It is now "
TEXTS = st.sampled_from(["", "a", "é 語 🙂", '{"x": 1}', "line\nline\u2028", "</document>"])
CALLS = st.builds(
    Call,
    st.sampled_from(["echo", "fail", "listed", "nobody"]),
    st.sampled_from(
        [
            "{}",
            '{"text":"a"}',
            '{ "text" : "\\u00e9" }',
            '{"text": 3}',
            "{broken",
            '{"b":1,"a":[ ]}',
        ]
    ),
)
REPLIES = st.builds(
    Reply,
    text=TEXTS,
    thinking=st.sampled_from(["", "Let me see."]),
    calls=st.lists(CALLS, max_size=3).map(tuple),
    breaks_after=st.sampled_from([None, None, None, 2]),
)
STEPS = st.lists(
    REPLIES | st.just(Failure(status=529, retry_after_s=0.0)) | st.just(Failure(status=400)),
    max_size=5,
)


@dataclass(frozen=True)
class Leg:
    """One run of the conversation."""

    prompt: str
    with_image: bool
    leave_after: int | None
    """Events after which the stream is left; None: it is read to its end."""
    pause: bool
    is_new_process: bool


LEGS = st.lists(
    st.builds(
        Leg,
        prompt=st.sampled_from(["go", "Where is é?"]),
        with_image=st.booleans(),
        leave_after=st.sampled_from([None, None, 1, 3, 6]),
        pause=st.booleans(),
        is_new_process=st.booleans(),
    ),
    min_size=2,
    max_size=4,
)


class Worker(Agent):
    """You work."""

    rules = "Be honest. " * 20
    examples = "Q: 1? A: 1."
    max_turns = 4
    max_retries = 1

    def volatile(self, turn: int) -> str | None:
        return f"{NOW}{turn}." if turn % 2 else None

    @tool
    def echo(self, text: str) -> str:
        """Echo."""
        return text

    @tool
    def fail(self) -> str:
        """Fail."""
        raise RuntimeError("broken")

    @tool
    def listed(self, b: int = 1) -> dict[str, object]:
        """Return what is no text."""
        return {"z": b, "a": [1.0, None]}


class Scripted:
    """Says what it was told to say, then only that it is done."""

    def __init__(self, steps: Sequence[Reply | Failure]) -> None:
        self._steps = iter(steps)

    def __call__(self, ask: Ask) -> Reply | Failure:
        return next(self._steps, Reply(text="done"))


async def _converse(world: AnyWorld, provider: str, legs: Sequence[Leg]) -> None:
    model = world.model(provider)
    context: Context | None = None
    for leg in legs:
        if leg.is_new_process and context is not None:
            model, context = world.model(provider), Context.load(context.dump())
        prompt = UserMessage.of(leg.prompt)
        if leg.with_image and provider in TAKES_IMAGES:
            prompt = UserMessage.of(leg.prompt, Image.of_bytes(b"no PNG", "image/png"))
        stream = Worker(model=model).stream(prompt, context=context)
        try:
            async with stream:
                n_events = 0
                async for event in stream:
                    if isinstance(event, RunStarted):
                        continue  # nothing has been asked yet
                    n_events += 1
                    if leg.pause:
                        stream.pause()
                    if n_events == leg.leave_after:
                        break
        except (RunError, ModelError):
            pass  # without an answer; what was said until then is kept
        context = stream.context
        assert context is not None
        assert context.open_calls == ()


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What breaks off is asked for again at once."""
    monkeypatch.setattr(asking, "_FIRST_WAIT_S", 0.0)


@pytest.mark.parametrize("provider", PROVIDERS)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, legs=LEGS)
def test_every_request_of_a_conversation_extends_the_one_before(
    provider: str, steps: list[Reply | Failure], legs: list[Leg]
) -> None:
    world = AnyWorld(Scripted(steps))

    world.run(lambda: _converse(world, provider, legs))

    sent = [stable_pieces_of(body, NOW) for body in world.fake.requests]
    assert sent
    for earlier, later in pairwise(sent):
        assert_prefix(earlier, later)
