"""A model that is a function: what it is told, what it may answer, and what is added to that."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agentkit import Agent, ModelError
from agentkit.blocks import Message, ToolMessage, UserMessage
from agentkit.events import ModelEvent, TextDelta, ToolCallArguments, ToolCallStarted
from agentkit.models.base import Model
from agentkit.testing import AskInfo, Call, FunctionModel, Reply, Say
from agentkit.testing.function_model import Spoken
from agentkit.usage import Usage


def look(at: str) -> str:
    """Look."""
    return f"{at} is blue"


def agent(model: FunctionModel) -> Agent:
    return Agent(model=model, name="eye", instructions="You look.", tools=[look])


def looks_first(messages: tuple[Message, ...], info: AskInfo) -> Spoken:
    match messages[-1]:
        case UserMessage():
            return [Say("I look."), Call("look", {"at": "sky"})]
        case ToolMessage(results):
            return results[0].content
        case _:
            raise AssertionError(messages)


def test_a_function_sees_the_conversation_and_answers() -> None:
    model = FunctionModel(looks_first)

    result = agent(model).run_sync("Which colour?")

    assert result.output == "sky is blue"
    assert len(model.calls) == 2
    assert result.usage.cache_read_tokens == result.requests[0].usage.input_tokens
    assert isinstance(model, Model)


def test_a_function_is_told_who_asks_and_what_may_be_called() -> None:
    seen: list[AskInfo] = []

    async def answers(messages: tuple[Message, ...], info: AskInfo) -> Spoken:
        seen.append(info)
        return Reply(parts=(Say("3"),), usage=Usage(input_tokens=7))

    class Counter(Agent[None, int]):
        """You count."""

        tools = (look,)

        def tool_choice(self, turn: int) -> str:  # type: ignore[override]
            return "none"

    result = Counter(model=FunctionModel(answers)).run_sync("How many?")

    (info,) = seen
    assert result.output == 3
    assert result.usage.input_tokens == 7
    assert (info.agent, info.tool_choice, info.tools) == ("counter", "none", ())
    assert "You count." in info.system
    assert info.output_schema is not None
    assert info.settings == info.request.settings


def test_what_is_streamed_arrives_as_it_is_yielded() -> None:
    async def streams(
        messages: tuple[Message, ...], info: AskInfo
    ) -> AsyncIterator[ModelEvent | str]:
        if len(messages) == 1:
            assert [spec.name for spec in info.tools] == ["look"]
            yield ToolCallStarted(index=0, id="mine", name="look")
            yield ToolCallArguments(index=0, text='{"at": "s')
            yield ToolCallArguments(index=0, text='ea"}')
        else:
            yield "It "
            yield TextDelta("is.")

    result = agent(FunctionModel(streams)).run_sync("Which?")

    assert result.output == "It is."
    assert result.requests[-1].usage.output_tokens == 2
    assert [call.id for call in result.messages[1].calls] == ["mine"]  # type: ignore[union-attr]


def test_a_failure_of_the_function_is_the_models() -> None:
    tries: list[int] = []

    def fails_once(messages: tuple[Message, ...], info: AskInfo) -> Spoken:
        tries.append(1)
        if len(tries) == 1:
            raise ModelError("busy", retryable=True, retry_after_s=0.0)
        return "ok"

    assert agent(FunctionModel(fails_once)).run_sync("?").output == "ok"


@pytest.mark.parametrize("answer", [None, 3, [], [Say("a"), 3]])
def test_an_answer_that_is_no_turn_is_a_mistake_of_the_test(answer: object) -> None:
    model = FunctionModel(lambda messages, info: answer)  # type: ignore[arg-type, return-value]

    with pytest.raises(TypeError, match="must answer with text, Say, Call"):
        agent(model).run_sync("?")


def test_what_is_no_function_is_told_at_once() -> None:
    with pytest.raises(TypeError, match="a function"):
        FunctionModel("ok")  # type: ignore[arg-type]
