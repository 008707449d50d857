"""Tools that a model is not shown before it has found them: those with `defer_loading`.

Hundreds of definitions would lead every prompt, and most of them are never used. So the front of an
agent with such tools has `find_tools` in their place, which never changes. What it finds is shown

- to a model that takes tools behind what was sent, as definitions there (`ToolsMessage`): it calls
  them as any others. What a conversation gets follows from the answer of `find_tools`, so a run
  that is resumed gets the same;
- to any other model as text, in that answer. It calls them by `call_found_tool`, the second tool of
  such a front. Policies, approval, hooks and limits see the call that is meant.

Either way no search moves a byte of what was sent.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.blocks import AssistantMessage, ToolCall, ToolMessage
from agentkit.found_text import named_in, names_text, with_descriptions, with_parameters
from agentkit.kept import longest_result
from agentkit.models.base import takes_tools
from agentkit.ranking import best_tools
from agentkit.toolset import (
    Failed,
    Retry,
    Tool,
    ToolContext,
    Toolset,
    ToolSpec,
    policy_of,
    tool,
)
from agentkit.toolset.execute import parse_arguments

if TYPE_CHECKING:
    from agentkit.context import Context
    from agentkit.models import Model
    from agentkit.state import RunState

FIND_TOOLS = "find_tools"
"""Name of the tool that finds others."""
CALL_FOUND_TOOL = "call_found_tool"
"""Name of the tool by which found ones are called where definitions cannot be added."""
MOST_LATER = 128
"""Tools that one conversation takes behind what was sent."""
_MOST_FOUND = 5
_KEYS = frozenset(("name", "parameters"))


def tools_to_find(model: Model) -> tuple[Tool, ...]:
    """Return what an agent with this model has in front, in place of tools that it may find."""
    return (_finder(),) if takes_tools(model) else (_finder(), _caller())


def finding_tool(name: str) -> Tool | None:
    """Return one of these two; a conversation may have it from when its agent had another model."""
    return {FIND_TOOLS: _finder, CALL_FOUND_TOOL: _caller}.get(name, lambda: None)()


def found_specs(run: RunState) -> list[ToolSpec]:
    """Return the tools that the last turn has found, and that the conversation is not shown yet."""
    if FIND_TOOLS not in run.own_tools or not takes_tools(run.member.model):
        return []
    names = dict.fromkeys(_names_in_last_answers(run.context))
    hidden = (hidden_tool(run, name) for name in names if name not in run.toolset)
    room = max(0, MOST_LATER - len(run.context.later_tools))  # several may have searched at once
    return [each.spec for each in hidden if each is not None][:room]


def found_names(run: RunState) -> frozenset[str]:
    """Return which tools the conversation is shown because they were found."""
    front = run.member.toolset
    later = (each for each in run.toolset if each.spec.name not in front)
    return frozenset(each.spec.name for each in later if policy_of(each).defer_loading)


def is_known(run: RunState, name: str) -> bool:
    """Whether a name is that of a tool: one that is shown, or one that could be found."""
    return name in run.toolset or hidden_tool(run, name) is not None


def hidden_tool(run: RunState, name: str) -> Tool | None:
    """Return a tool that the agent could find, by its name."""
    return next((each for each in _hidden(run) if each.spec.name == name), None)


def as_meant(
    run: RunState, calls: Sequence[ToolCall], allowed: frozenset[str] | None
) -> tuple[list[ToolCall], Toolset, frozenset[str] | None]:
    """Return the calls that a turn means, all tools that they may name, and the mask for those.

    A hidden tool may also be called by its own name, by a model that knows it from before: from a
    summary, say. It runs where the agent may find tools now, or call those that it has found.
    """
    toolset = run.toolset
    may_find = allowed is None or not allowed.isdisjoint((FIND_TOOLS, CALL_FOUND_TOOL))
    if FIND_TOOLS not in run.own_tools or not may_find:
        return list(calls), toolset, allowed
    meant_calls = [meant(call) for call in calls]
    wanted = dict.fromkeys(call.name for call in meant_calls if call.name not in toolset)
    hidden = [each for name in wanted if (each := hidden_tool(run, name)) is not None]
    everything = Toolset((*toolset, *hidden)) if hidden else toolset
    understood = [
        that if _may_stand_for(everything, that.name) else call
        for call, that in zip(calls, meant_calls, strict=True)
    ]
    mask = None if allowed is None else allowed.union(each.spec.name for each in hidden)
    return understood, everything, mask


def _may_stand_for(toolset: Toolset, name: str) -> bool:
    """Whether `call_found_tool` calls this one.

    No handoff: to whom a turn hands over, the names of its results say.
    """
    from agentkit.team.handoff import Handoff

    return name in toolset and not isinstance(toolset.get(name), Handoff)


def meant(call: ToolCall) -> ToolCall:
    """Return the call that a call of `call_found_tool` stands for; any other call as it is.

    Also one that cannot be understood: the tool itself then says what is wrong.
    """
    if call.name != CALL_FOUND_TOOL:
        return call
    try:
        given = parse_arguments(call.arguments)
    except ValueError:
        return call
    name, arguments = given.get("name"), given.get("parameters", {})
    if not isinstance(name, str) or not isinstance(arguments, str | dict):
        return call
    if name == CALL_FOUND_TOOL or given.keys() - _KEYS:
        return call  # its values may be under another key, and it would run without them
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return replace(call, name=name, arguments=text)


async def _find_tools(query: str, context: ToolContext[object]) -> str:
    """Find tools that are not listed here. There are many more than you see.

    Look for one before you say that something cannot be done.

    Args:
        query: a few words that say what the tool should do, e.g. create issue
    """
    run = _run_of(context, FIND_TOOLS)
    hidden = {each.spec.name: each.spec for each in _hidden(run)}
    if not hidden:
        raise Failed(f"No tools can be found now: {_why_none(run)}.")
    found = await asyncio.to_thread(best_tools, hidden.values(), query, _MOST_FOUND)
    if not found:
        return f"No tool has any of these words. There are {len(hidden)}: {names_text(hidden)}"
    if not takes_tools(run.member.model):
        by = CALL_FOUND_TOOL if CALL_FOUND_TOOL in run.own_tools else None
        return with_parameters(found, len(hidden), by)
    new = [spec for spec in found if spec.name not in run.toolset]
    if len(run.context.later_tools) + len(new) > MOST_LATER:
        raise Failed(
            f"This conversation was given {len(run.context.later_tools)} tools, and takes no more "
            f"than {MOST_LATER}. Use those."
        )
    return with_descriptions(found, len(hidden), longest_result(run))


# In the order of their names, which is that of the schema: a grammar has the name first.
async def _call_found_tool(
    name: str, parameters: dict[str, object], context: ToolContext[object]
) -> str:
    """Call a tool that find_tools has found.

    Args:
        name: its name, as it was found
        parameters: their values, as its own schema asks for them
    """
    if name in _run_of(context, CALL_FOUND_TOOL).toolset:
        raise Retry(f"Call {name!r} by itself, and not with {CALL_FOUND_TOOL}.")
    raise Retry(f"There is no tool {name!r} to call. Find one with {FIND_TOOLS} first.")


def _run_of(context: ToolContext[object], name: str) -> RunState:
    from agentkit.state import RunContext

    if not isinstance(context, RunContext):
        raise Failed(f"{name} works only inside the run of an agent.")
    return context.run


@functools.cache
def _finder() -> Tool:
    return tool(name=FIND_TOOLS, idempotent=True)(_find_tools)


@functools.cache
def _caller() -> Tool:
    return tool(name=CALL_FOUND_TOOL)(_call_found_tool)


def _hidden(run: RunState) -> Iterator[Tool]:
    yield from run.member.deferred.values()
    if run.member.served is not None:
        yield from run.member.served.deferred(run.member.aliases)


def _names_in_last_answers(context: Context) -> Iterator[str]:
    """Yield what `find_tools` has answered behind the model's last message, in order."""
    for segment in reversed(context):
        if isinstance(segment.content, AssistantMessage):
            return
        if isinstance(segment.content, ToolMessage):
            for result in segment.content.results:
                if result.name == FIND_TOOLS and not result.is_error:
                    yield from named_in(result.content)


def _why_none(run: RunState) -> str:
    served = run.member.served
    failed = () if served is None else served.of(run.member.aliases)
    broken = [each.server.alias for each in failed if each.error is not None]
    return f"{', '.join(broken)} cannot be reached" if broken else "their servers list none"
