"""Finds mistakes in how an agent is put together and asked, and says what to write instead.

What a type checker would find is checked here too: who begins has none, and a raw TypeError from
deep inside says nothing about the line that is wrong.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from agentkit.blocks import UserMessage
from agentkit.context import Context, Document
from agentkit.context.compaction_rule import CompactionRule
from agentkit.errors import ConfigurationError
from agentkit.hooks import Hooks
from agentkit.journal import Journal
from agentkit.knowledge import Knowledge
from agentkit.limits import Limits
from agentkit.models.base import Settings, is_whole
from agentkit.toolset.policy import LEAST_RESULT_CHARS

if TYPE_CHECKING:
    from agentkit.agent import Agent

_TEXTS = ("name", "instructions", "rules", "examples", "tenant")
_ELSEWHERE = {
    "system_prompt": "instructions",
    "prompt": "instructions",
    "description": "instructions",
    "result_type": "output_type",
    "response_format": "output_type",
    "model_settings": "settings",
    "deps_type": "deps",
    "agents": "subagents",
    "mcp": "tools",
    "mcp_servers": "tools",
    "toolsets": "tools",
}
"""What it is called by others."""
_LISTS = ("tools", "subagents", "handoffs", "hooks")
_LIMITS = {
    "max_turns": 1,
    "max_repairs": 0,
    "max_retries": 0,
    "max_parallel": 1,
    "knowledge_tokens": 0,
}
_HOOKS = ("tool_choice", "allowed_tools", "volatile")
_AWAITED = {
    "approve": "self, call, context",
    "approve_sampling": "self, request, context",
    "check_output": "self, output",
    "elicit": "self, question, context",
}


def check_configuration(agent: Agent[Any, Any]) -> None:
    """Check the types and ranges of what an agent was given; tools are checked one by one later.

    Raises:
        ConfigurationError: a value is of no use where it is.
    """
    for text in _TEXTS:
        if not isinstance(getattr(agent, text), str):
            raise _wrong(agent, text, "must be a str")
    for plural in _LISTS:
        value = getattr(agent, plural)
        if not isinstance(value, Collection) or isinstance(value, str | bytes):
            raise _wrong(agent, plural, f"must be a list: {plural}=[{_written(value)}]")
    _check_knowledge(agent)
    _check_others(agent)
    if not isinstance(agent.settings, Settings):
        raise _wrong(agent, "settings", "must be Settings(...)")
    _check_control(agent)
    if agent.on_front_change not in ("refuse", "epoch"):
        raise _wrong(agent, "on_front_change", 'must be "refuse" or "epoch"')
    if not isinstance(agent.compaction, CompactionRule | None):
        raise _wrong(agent, "compaction", "must be CompactionRule(...), or None for never")
    for limit, least in _LIMITS.items():
        value = getattr(agent, limit)
        if not is_whole(value, least):
            raise ConfigurationError(f"{limit} must be an int of at least {least}, got {value!r}")
    if not (agent.max_result_chars is None or is_whole(agent.max_result_chars, LEAST_RESULT_CHARS)):
        raise _wrong(
            agent, "max_result_chars", f"must be an int of at least {LEAST_RESULT_CHARS}, or None"
        )


def _check_control(agent: Agent[Any, Any]) -> None:
    for hooks in agent.hooks:
        if not isinstance(hooks, Hooks):
            raise ConfigurationError(
                f"agent {agent.name!r}: {hooks!r} is no Hooks object; subclass agentkit.Hooks"
            )
    if not isinstance(agent.limits, Limits | None):
        raise _wrong(agent, "limits", "must be Limits(...), or None for none")
    if not isinstance(agent.journal, Journal | None):
        raise _wrong(agent, "journal", "must be a Journal, e.g. agentkit.store.open_journal(url)")


def check_keywords(args: Sequence[object], given: Iterable[str], known: Collection[str]) -> None:
    """Check what an agent is made of by its names.

    Raises:
        ConfigurationError: it is given by place, or there is no such keyword.
    """
    if args:
        raise ConfigurationError(f"an agent takes keywords only, e.g. model=...; got {args[0]!r}")
    for name in given:
        if name in known:
            continue
        if name in Settings.__dataclass_fields__:
            hint = f"write settings=Settings({name}=...)"
        else:
            near = difflib.get_close_matches(name, known, n=1)
            meant = _ELSEWHERE.get(name) or (near[0] if near else None)
            hint = f"did you mean {meant}=...?" if meant else "keep what is yours in deps"
        raise ConfigurationError(f"an agent has no {name!r}; {hint}")


def check_initialised(agent: Agent[Any, Any]) -> None:
    """Check that a subclass with an `__init__` of its own has called that of `Agent`.

    Raises:
        ConfigurationError: it has not.
    """
    if agent.is_initialised:
        return
    cls = type(agent)
    maker = next(each for each in cls.__mro__ if "__init__" in vars(each))
    is_generated = "__dataclass_fields__" in vars(maker)
    where = "__post_init__ of the dataclass" if is_generated else "__init__ of"
    raise ConfigurationError(
        f"an agent of the class {cls.__name__!r} was not set up: call super().__init__() in the "
        f"{where} {maker.__name__!r}"
    )


def check_hooks(agent: Agent[Any, Any]) -> None:
    """Check that the methods which a subclass overrides can be called as the loop calls them.

    Raises:
        ConfigurationError: one does not take the turn, is asynchronous, or is no method.
    """
    for hook in _HOOKS:
        method = getattr(agent, hook)
        where = f"{type(agent).__name__}.{hook}"
        if not callable(method):
            raise ConfigurationError(
                f"{where} must be a method, got {method!r}; write: def {hook}(self, turn: int)"
            )
        if inspect.iscoroutinefunction(method):
            raise ConfigurationError(
                f"{where} is asynchronous, but is called without await; "
                f"write: def {hook}(self, turn: int)"
            )
        if not _takes(method, 1):
            raise ConfigurationError(
                f"{where}{inspect.signature(method)} cannot take the number of the turn; "
                f"write: def {hook}(self, turn: int)"
            )
    _check_awaited(agent)


def message_of(prompt: object, context: object) -> UserMessage | None:
    """Return what is said to the agent; None goes on with the context as it is.

    Raises:
        ConfigurationError: the prompt or the context is of no use.
    """
    if context is not None and not isinstance(context, Context):
        inner = getattr(context, "context", None)
        fix = "; use context=result.context" if isinstance(inner, Context) else ""
        raise ConfigurationError(
            f"context must be a Context, got the {type(context).__name__} {context!r:.80}{fix}"
        )
    if prompt is None:
        if context is None:
            raise ConfigurationError(
                "prompt is None: without a context there is nothing to go on with"
            )
        return None
    message = UserMessage.of(prompt) if isinstance(prompt, str) else prompt
    if not isinstance(message, UserMessage):
        is_text = isinstance(getattr(prompt, "text", None), str)  # a prompt of an MCP server, say
        hint = (
            f"use the text of this {type(prompt).__name__}: agent.run(prompt.text)"
            if is_text
            else 'to go on with a conversation use: agent.run("...", context=result.context)'
        )
        raise ConfigurationError(
            f"prompt must be a str or a UserMessage, got {prompt!r:.200}; {hint}"
        )
    if not message.text.strip():
        raise ConfigurationError(f"the prompt is empty: {message.text!r}")
    return message


def _check_knowledge(agent: Agent[Any, Any]) -> None:
    given = agent.knowledge
    if isinstance(given, Knowledge):
        return
    if not isinstance(given, Collection) or isinstance(given, str | bytes):
        raise _wrong(
            agent, "knowledge", f"must be a list or a Knowledge: knowledge=[{_written(given)}]"
        )
    for document in given:
        if not isinstance(document, Document):
            raise ConfigurationError(
                f"agent {agent.name!r}: {document!r} is no document; "
                "knowledge holds Document(uri=..., text=...)"
            )


def _check_others(agent: Agent[Any, Any]) -> None:
    from agentkit.team.subagent import agent_of

    for subagent in agent.subagents:
        _check_agent(agent, agent_of(subagent), "subagent", "give an Agent class or an instance")
    for other in agent.handoffs:
        if not isinstance(other, str):
            fix = "give an Agent class, an instance, or the name of an agent of the desk"
            _check_agent(agent, other, "agent to hand over to", fix)


def _check_agent(agent: Agent[Any, Any], given: object, what: str, fix: str) -> None:
    from agentkit.agent import Agent

    if isinstance(given, Agent) or (isinstance(given, type) and issubclass(given, Agent)):
        return
    raise ConfigurationError(f"agent {agent.name!r}: {given!r} is no {what}; {fix}")


def _check_awaited(agent: Agent[Any, Any]) -> None:
    for name, parameters in _AWAITED.items():
        where, method = f"{type(agent).__name__}.{name}", getattr(agent, name)
        fix = f"write: async def {name}({parameters})"
        if not inspect.iscoroutinefunction(method):
            raise ConfigurationError(f"{where} must be asynchronous; {fix}")
        if not _takes(method, parameters.count(",")):
            raise ConfigurationError(
                f"{where}{inspect.signature(method)} cannot take what it is given; {fix}"
            )


def _takes(method: Any, n_given: int) -> bool:
    """Whether a bound method takes so many values, by position."""
    try:
        inspect.signature(method).bind(*range(n_given))
    except TypeError:
        return False
    except ValueError:
        return True  # Callables written in C may have no signature to look at.
    return True


def _wrong(agent: Agent[Any, Any], name: str, problem: str) -> ConfigurationError:
    value = getattr(agent, name)
    return ConfigurationError(f"agent {agent.name!r}: {name} {problem}; got {value!r:.200}")


def _written(value: object) -> str:
    """Return about what the user has written for a value."""
    return getattr(value, "__name__", None) or "..."
