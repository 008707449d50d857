"""Agents over a real engine whose pool is too small: what their hints are worth."""

from __future__ import annotations

import pytest

from agentkit import Agent, tool
from agentkit.caching.report import RequestRecord
from agentkit.models.base import ToolChoice, ToolName
from agentkit.models.engines import EngineRegistry, Options
from agentkit.models.local import LocalModel
from agentkit_runtime.chat import ChatFinished, ChatMessage, ChatRequest
from agentkit_runtime.kv.hints import Hint
from agentkit_runtime.local import LocalRuntime
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.service.scripted import Script, scripted_model

Text = tuple[Tokenizer, ChatTemplate]

N_SLOTS = 1_400
DELEGATE = (
    '<tool_call>\n{"name": "delegate_to_seeker", "arguments": {"task": "seek"}}\n</tool_call>'
)
LOOK = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
ANSWERS = {"go": DELEGATE, "seek": LOOK, "seen": "found", "found": "done", "other": "no"}


class Others:
    """Another tenant, whose requests have nothing in common with anybody's."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime
        self._n = 0

    async def ask(self, times: int) -> None:
        for _ in range(times):
            self._n += 1
            text = f"{self._n} other {self._n} " * 20
            message = ChatMessage(role="user", content=text)
            events = [
                event
                async for event in self._runtime.chat(
                    ChatRequest(messages=(message,), tenant="others")
                )
            ]
            assert isinstance(events[-1], ChatFinished)


class Seeker(Agent[Others, str]):
    """You seek."""

    def tool_choice(self, turn: int) -> ToolChoice:
        return ToolName("look") if turn == 0 else "auto"

    @tool
    async def look(self) -> str:
        """Look."""
        await self.deps.ask(8)
        return "seen"


class Lead(Agent[Others, str]):
    """You lead."""

    rules = "Be polite. " * 30
    subagents = (Seeker,)

    def tool_choice(self, turn: int) -> ToolChoice:
        return ToolName("delegate_to_seeker") if turn == 0 else "none"


class Deaf(LocalRuntime):
    """Hears no hint: its eviction is plain LRU."""

    def advise(self, hint: Hint) -> None:
        pass


@pytest.mark.parametrize(("kind", "keeps"), [(LocalRuntime, True), (Deaf, False)])
async def test_who_waits_for_tools_keeps_its_prompt_where_plain_lru_loses_it(
    kind: type[LocalRuntime], keeps: bool, smollm2_text: Text
) -> None:
    script = Script(smollm2_text[0], ANSWERS)
    with scripted_model(*smollm2_text, script, n_slots=N_SLOTS) as loaded:
        runtime = kind(loaded)
        others = Others(runtime)
        await others.ask(12)  # the pool is full
        result = await Lead(deps=others, model=model_of(runtime)).run("go")

    assert result.output == "done"
    asked, answered, sought, found = result.requests
    assert [asked.path, sought.path] == [("lead",), ("lead", "seeker")]
    assert reads_all_of(asked, answered) == reads_all_of(sought, found) == keeps


def model_of(runtime: LocalRuntime) -> LocalModel:
    def load(spec: str, options: Options) -> LocalRuntime:
        return runtime

    return LocalModel("scripted", registry=EngineRegistry(load))


def reads_all_of(first: RequestRecord, second: RequestRecord) -> bool:
    """Whether the second request of a run computes only what is new in it."""
    return (second.usage.cache_read_tokens or 0) >= (first.usage.input_tokens or 0) - 1
