"""What a run lets a model's cache know of the future, where the model listens. Advice only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit.models.base import ModelRequest, TakesHints

if TYPE_CHECKING:
    from agentkit.state import RunState


def subagents_may_follow(run: RunState, request: ModelRequest) -> None:
    """Before a request whose answer may call tools: runs of the subagents may begin next."""
    if request.callable_tools == frozenset():
        return
    children = run.member.children.values()
    for model in {id(child.model): child.model for child in children}.values():
        if isinstance(model, TakesHints):
            names = frozenset(child.name for child in children if child.model is model)
            model.likely_next(names, request.tenant)


def conversation_ended(run: RunState) -> None:
    """Nobody goes on behind the last request of a run: it was a subagent's, or began anew.

    Not told of a root's conversation. Its user may go on after any time, and a cache that keeps
    what was used last drops it by itself when it has rested long enough.
    """
    if run.last_request is not None and isinstance(run.member.model, TakesHints):
        run.member.model.conversation_ended(run.last_request)
