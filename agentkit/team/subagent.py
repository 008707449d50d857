"""How an agent employs another: with which context its runs begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agentkit.errors import ConfigurationError

if TYPE_CHECKING:
    from agentkit.agent import Agent

    AnyAgent: TypeAlias = Agent[Any, Any]

Beginning: TypeAlias = Literal["fresh", "fork"]
"""Whether a subagent knows only its task, or also what its parent was told and has said."""


@dataclass(frozen=True, slots=True)
class Employed:
    """A subagent, and how its runs begin. Made by `subagent`."""

    agent: AnyAgent | type[AnyAgent]
    context: Beginning


def subagent(agent: AnyAgent | type[AnyAgent], *, context: Beginning = "fresh") -> Employed:
    """Say how a subagent's runs begin, for `Agent.subagents`.

        subagents = (subagent(Checker, context="fork"), Reader)

    Args:
        agent: a class or an instance.
        context: `"fresh"`: rules, tools, its role, and the task. `"fork"`: the parent's
            conversation up to the turn that calls it, then its role and the task. A fork reads all
            of that from the parent's cache, and needs no long tasks; but it carries it in each of
            its requests. Give it the parent's output type: hosted providers key entries by the form
            of the answer, so with another one less is read.

    Raises:
        ConfigurationError: the context is neither.
    """
    check_beginning(context)
    return Employed(agent, context)


def check_beginning(context: object) -> None:
    """Check a `Beginning`.

    Raises:
        ConfigurationError: it is none.
    """
    if context not in ("fresh", "fork"):
        raise ConfigurationError(f'context must be "fresh" or "fork", got {context!r:.200}')


def agent_of(given: Any) -> Any:
    """Return the class or instance that stands in `Agent.subagents`, with options or without."""
    return given.agent if isinstance(given, Employed) else given
