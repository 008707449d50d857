"""A conversation goes on under other rules only where somebody says so."""

from __future__ import annotations

import asyncio

import pytest

from agentkit import Agent, Context
from agentkit.blocks import AssistantMessage, Text, Thinking, ToolCall, UserMessage
from agentkit.errors import ContextError, ContextMismatch
from agentkit.team import begin_epoch
from agentkit.testing import ScriptedModel


def agent(role: str) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(lambda _: "ok")
    return Agent(model=model, name="a", instructions=role), model


def test_a_changed_role_needs_a_new_epoch_and_keeps_the_history() -> None:
    old, _ = agent("You are old.")
    begun = old.run_sync("x").context
    new, model = agent("You are new.")

    with pytest.raises(ContextMismatch, match=r"begin_epoch\(agent, context\)"):
        new.run_sync("y", context=begun)
    anew = asyncio.run(begin_epoch(new, begun))
    assert anew.messages == begun.messages
    result = new.run_sync("y", context=anew)
    assert model.calls[0].wire.startswith(anew.dump())
    assert result.context.starts_with(anew)
    assert begun.front != anew.front


def test_thinking_is_left_behind_and_open_calls_are_refused() -> None:
    new, _ = agent("You are new.")
    thought = AssistantMessage((Thinking("hm", signature="s"), Text("ok")))
    context = Context(UserMessage.of("x"), thought, UserMessage.of("told"))

    anew = asyncio.run(begin_epoch(new, context, without=[UserMessage.of("told")]))
    assert anew.messages == (UserMessage.of("x"), AssistantMessage((Text("ok"),)))
    opened = context.append(AssistantMessage((ToolCall(id="o", name="f", arguments="{}"),)))
    with pytest.raises(ContextError, match="no result yet"):
        asyncio.run(begin_epoch(new, opened))
