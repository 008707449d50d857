"""What a team's runs tell the bundled runtime of the future, end to end through agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace

import pytest

from agentkit import Agent, CompactionRule, Task, fan_out
from agentkit.models.base import TakesHints, ToolChoice, ToolName
from agentkit.models.engines import EngineRegistry, Options
from agentkit.models.local import LocalModel
from agentkit.models.waits import FIRST_GUESS_S
from agentkit_runtime import chat
from agentkit_runtime.kv.hints import Hint, LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.types import RequestStats

STATS = RequestStats(
    prompt_tokens=100, cached_tokens=80, completion_tokens=7, queue_s=0.0, ttft_s=0.1, total_s=0.2
)
READERS_NEXT = LikelyNext(frozenset({"reader"}), 60.0, "default")


class FakeRuntime:
    """Calls the tool that must be called, or answers; keeps requests and hints in their order."""

    context_tokens = 100_000

    def __init__(self) -> None:
        self.told: list[chat.ChatRequest | Hint] = []
        self.prompt_tokens = 100
        self.fails_for = ""

    @property
    def asked(self) -> list[chat.ChatRequest]:
        return [item for item in self.told if isinstance(item, chat.ChatRequest)]

    @property
    def advice(self) -> list[Hint]:
        return [item for item in self.told if not isinstance(item, chat.ChatRequest)]

    def advise(self, hint: Hint) -> None:
        self.told.append(hint)

    async def chat(self, request: chat.ChatRequest) -> AsyncGenerator[chat.ChatEvent, None]:
        self.told.append(request)
        await asyncio.sleep(0)
        if self.fails_for in request.tags:
            yield chat.ChatFinished(reason="error", stats=STATS, error="out of luck")
            return
        for event in reply(request, replace(STATS, prompt_tokens=self.prompt_tokens)):
            yield event

    def close(self) -> None: ...


def reply(request: chat.ChatRequest, stats: RequestStats) -> Iterator[chat.ChatEvent]:
    if isinstance(request.tool_choice, chat.ToolName):
        yield chat.ToolCallStart(index=0, id="c", name=request.tool_choice.name)
        yield chat.ToolCallArguments(index=0, text='{"task": "read"}')
        yield chat.ChatFinished(reason="tool_calls", stats=stats)
    else:
        yield chat.ContentDelta("Done.")
        yield chat.ChatFinished(reason="stop", stats=stats)


@pytest.fixture
def runtime() -> FakeRuntime:
    return FakeRuntime()


@pytest.fixture
def model(runtime: FakeRuntime) -> LocalModel:
    def load(spec: str, options: Options) -> FakeRuntime:
        return runtime

    return LocalModel("fake", registry=EngineRegistry(load))  # type: ignore[arg-type]


class Lister(Agent[None, str]):
    """You list."""


class Reader(Agent[None, str]):
    """You read."""

    subagents = (Lister,)
    max_retries = 0


class Lead(Agent[None, str]):
    """You lead."""

    subagents = (Reader,)

    def tool_choice(self, turn: int) -> ToolChoice:
        return ToolName("delegate_to_reader") if turn == 0 else "none"


async def loaded(model: LocalModel) -> None:
    """Hints before the first request have no engine to go to."""
    await Lister(model=model).run("Hello.")


async def test_a_run_says_who_may_follow_who_waits_and_what_is_done(
    model: LocalModel, runtime: FakeRuntime
) -> None:
    await loaded(model)
    runtime.told.clear()

    await Lead(model=model).run("Go.")

    first, child, last = runtime.asked
    assert child.session == f"{first.session}/{child.request_id[:32]}" != first.session
    assert last.session == first.session
    assert runtime.told == [
        READERS_NEXT,
        first,
        SessionWaits(str(first.session), FIRST_GUESS_S, "default"),
        LikelyNext(frozenset({"lister"}), 60.0, "default"),
        child,
        SessionDone(str(child.session), "default"),
        last,
    ], "the lead's own conversation may go on, and nobody follows a turn that calls no tool"


async def test_each_task_of_a_fan_out_is_done_by_itself(
    model: LocalModel, runtime: FakeRuntime
) -> None:
    await fan_out(Lead(model=model, tenant="acme"), [(Reader, "One."), (Reader, "Two.")])

    done = [hint for hint in runtime.advice if isinstance(hint, SessionDone)]
    assert {hint.session for hint in done} == {str(asked.session) for asked in runtime.asked}
    assert len(done) == 2
    assert {hint.tenant for hint in runtime.advice} == {"acme"}


async def test_a_subagent_that_fails_after_an_answer_is_done_too(
    model: LocalModel, runtime: FakeRuntime
) -> None:
    class Stubborn(Reader):
        """You never answer."""

        max_turns = 1

        def tool_choice(self, turn: int) -> ToolChoice:
            return ToolName("delegate_to_lister")

    class Boss(Agent[None, str]):
        """You lead."""

        subagents = (Stubborn,)

    outcome = (await fan_out(Boss(model=model), [Task(agent=Stubborn, prompt="Go.")])).outcomes[0]

    assert outcome.kind == "failed"
    asked = next(asked for asked in runtime.asked if asked.tags == {"stubborn"})
    assert SessionDone(str(asked.session), "default") in runtime.advice


async def test_a_subagent_that_was_never_answered_leaves_nothing_to_be_done_with(
    model: LocalModel, runtime: FakeRuntime
) -> None:
    await loaded(model)
    runtime.told.clear()
    runtime.fails_for = "reader"

    await Lead(model=model).run("Go.")

    assert not [hint for hint in runtime.advice if isinstance(hint, SessionDone)]


async def test_a_conversation_that_begins_anew_is_done_as_it_was_before(
    model: LocalModel, runtime: FakeRuntime
) -> None:
    class Patient(Agent[None, str]):
        """You lead."""

        subagents = (Lister,)
        compaction = CompactionRule(trigger_tokens=1_000, summary_tokens=50, keep_turns=1)

        def tool_choice(self, turn: int) -> ToolChoice:
            return ToolName("delegate_to_lister") if turn == 0 else "none"

    runtime.prompt_tokens = 4_000
    await Patient(model=model).run("word " * 4_000)

    first, _, summary, anew = runtime.asked
    assert summary.session == first.session
    assert anew.session == f"{first.session}#1"
    own = [h for h in runtime.advice if isinstance(h, SessionDone) and "/" not in h.session]
    assert own == [SessionDone(str(first.session), "default")] * 2, "the summary's, and the epoch's"
    assert runtime.told.index(own[0]) < runtime.told.index(anew) < len(runtime.told) - 1


def test_local_models_take_hints_without_an_engine(model: LocalModel) -> None:
    assert isinstance(model, TakesHints)
    model.likely_next(frozenset({"reader"}), "")
