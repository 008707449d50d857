"""What the next turn loses of the cache is measured while the service runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentkit_runtime.chat import (
    ChatMessage,
    ChatRequest,
    ChatTool,
    ChatToolCall,
    ContentDelta,
)
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.turn_losses import LossStats, Reply, TurnLosses, n_lost
from tests.runtime.service.scripted import Script, scripted_model
from tests.runtime.text.rewriting import QWEN3

Text = tuple[Tokenizer, ChatTemplate]

THOUGHT = "<think>\nI know this.\n</think>\n\nIt is here."
CALL = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
ANSWERS = {"where": THOUGHT, "plain": "Just so.", "look": CALL, "found": "There it is."}
LOOK = ChatTool(
    name="look",
    description="",
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
)


@contextmanager
def serving(text: Text, source: str | None) -> Iterator[ChatService]:
    tokenizer, bundled = text
    template = bundled if source is None else ChatTemplate(source)
    with scripted_model(tokenizer, template, Script(tokenizer, ANSWERS)) as loaded:
        yield ChatService(loaded)


async def say(
    service: ChatService, *messages: ChatMessage, tools: tuple[ChatTool, ...] = ()
) -> str:
    request = ChatRequest(messages=messages, tools=tools)
    events = [event async for event in service.stream(request)]
    return "".join(event.text for event in events if isinstance(event, ContentDelta))


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def assistant(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", content=text)


@pytest.mark.parametrize(("source", "rewritten"), [(None, 0), (QWEN3, 1)])
async def test_dropped_thinking_is_counted_where_it_is_dropped(
    smollm2_text: Text, source: str | None, rewritten: int
) -> None:
    with serving(smollm2_text, source) as service:
        said = await say(service, user("where?"))
        await say(service, user("where?"), assistant(said), user("plain"))
        report = service.template_report()

    losses = report.losses
    assert said == THOUGHT
    assert (losses.turns, losses.rewritten) == (1, rewritten)
    n_thought = len(smollm2_text[0].encode(THOUGHT))
    assert losses.lost_tokens == (pytest.approx(n_thought, abs=2) if rewritten else 0)
    assert [rewrite.kind for rewrite in report.rewrites] == ["thinking"] * rewritten


async def test_a_turn_with_a_tool_call_is_looked_at_too(smollm2_text: Text) -> None:
    call = ChatToolCall(id="x", name="look", arguments="{}")
    with serving(smollm2_text, None) as service:
        await say(service, user("look"), tools=(LOOK,))
        await say(
            service,
            user("look"),
            ChatMessage(role="assistant", tool_calls=(call,)),
            ChatMessage(role="tool", content="found", tool_call_id="x"),
            tools=(LOOK,),
        )
        losses = service.template_report().losses

    assert losses == LossStats(turns=1, rewritten=0, lost_tokens=0)


async def test_an_edited_reply_is_not_the_templates_doing(smollm2_text: Text) -> None:
    with serving(smollm2_text, QWEN3) as service:
        await say(service, user("where?"))
        await say(service, user("where?"), assistant("Somewhere else."), user("plain"))

        assert service.template_report().losses == LossStats()


def test_tokens_that_the_next_prompt_does_not_begin_with_are_lost() -> None:
    assert n_lost((1, 2, 3), (1, 2, 3, 4)) == 0
    assert n_lost((1, 2, 3), (1, 2, 9, 4)) == 1
    assert n_lost((1, 2, 3), (9,)) == 3
    assert n_lost((1, 2, 3), ()) == 3
    assert n_lost((1, 2, 3), (1, 2)) == 1


def test_replies_of_other_prompts_are_not_compared() -> None:
    losses = TurnLosses()
    losses.answered(7, (1, 2), Reply(content="a", calls=(), ids=(3,)))

    losses.look([0, 8, 9], [user("q"), assistant("a"), user("r")], (5,))
    assert losses.stats == LossStats()
    losses.look([0, 7, 9], [user("q"), assistant("a"), user("r")], (1, 2, 4))

    assert losses.stats == LossStats(turns=1, rewritten=1, lost_tokens=1)
