"""What belongs to a team: its agents, their own tools, and the servers they use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeAlias

from agentkit.checks import check_configuration, check_hooks, check_initialised
from agentkit.context import Document
from agentkit.errors import ConfigurationError
from agentkit.finding import tools_to_find
from agentkit.kept import reader_for
from agentkit.knowledge import Knowledge
from agentkit.models import Model, resolve_model
from agentkit.output import OutputSpec, output_spec
from agentkit.team.delegate import Delegate
from agentkit.team.desk import Desk
from agentkit.team.handoff import Handoff
from agentkit.team.known import KnownDocuments
from agentkit.team.subagent import Employed
from agentkit.toolset import FunctionTool, Tool, policy_of
from agentkit.toolset.mcp import McpServer
from agentkit.toolset.sources import tools_from
from agentkit.warn import MissingDescriptionWarning, warn_user

if TYPE_CHECKING:
    from agentkit.agent import Agent

    AnyAgent: TypeAlias = Agent[Any, Any]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,52}")
"""`delegate_to_` and a name must be a legal tool name together."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """One agent of a team, checked, with those below it. Nothing is connected or loaded yet."""

    agent: AnyAgent
    name: str
    rules: str
    role: str
    examples: str
    knowledge: tuple[Document, ...]
    """In the order of their URIs. A copy: a list that grows later must not change the prefix."""
    known: KnownDocuments | None
    """Instead of `knowledge`, where documents may change."""
    model: Model
    output: OutputSpec[Any]
    tools: tuple[Tool, ...]
    """Its functions and methods, and one tool for each subagent and for each handoff."""
    deferred: tuple[Tool, ...]
    """Those of its functions that are shown only when they are found."""
    servers: tuple[McpServer, ...]
    children: tuple[Plan, ...]
    forked: frozenset[str]
    """Names of the children whose runs begin from the agent's conversation."""
    tenant: str
    """The root agent's."""
    others: tuple[Plan, ...] = ()
    """The rest of its desk: whom its conversations may be handed to. Those have none of their own.
    """

    def everyone(self) -> Iterator[Plan]:
        """All agents of the team, this one first."""
        yield self
        for part in (*self.children, *self.others):
            yield from part.everyone()

    @property
    def all_servers(self) -> tuple[McpServer, ...]:
        """The servers of the whole team; agents that name an equal server share it."""
        return tuple(dict.fromkeys(server for plan in self.everyone() for server in plan.servers))


def plan_team(root: AnyAgent) -> Plan:
    """Check a team and return what belongs to it. Warns of tools and subagents not described.

    Raises:
        ConfigurationError: something does not fit together.
    """
    check_initialised(root)
    if root.model is None:
        raise ConfigurationError(
            f'agent {root.name!r} has no model; set for example model = "local:smollm2"'
        )
    plan = _plan(root, root.rules, resolve_model(root.model), ())
    for problem in dict.fromkeys(_undescribed(plan)):
        warn_user(problem, MissingDescriptionWarning)
    return plan


def _plan(head: AnyAgent, rules: str, model: Model, above: tuple[AnyAgent, ...]) -> Plan:
    """Plan an agent that conversations begin with, and its desk."""
    check_initialised(head)
    check_configuration(head)
    desk = head.desk
    first, *others = (
        _part(
            agent,
            desk,
            rules,
            resolve_model(agent.model) if agent.model else model,
            above if agent is head else (*above, head),
        )
        for agent in desk.agents
    )
    return replace(first, others=tuple(others))


def _part(
    agent: AnyAgent, desk: Desk, rules: str, model: Model, above: tuple[AnyAgent, ...]
) -> Plan:
    # Again, since attributes may have been set after the agent was made.
    check_initialised(agent)
    check_configuration(agent)
    check_hooks(agent)
    name = agent.name
    _check_name(name)
    _check_recursion(agent, above)
    if agent.rules and agent.rules != rules:
        raise ConfigurationError(
            f"agent {name!r} has rules of its own, {agent.rules[:60]!r}: the rules are the "
            f"organisation's, and come from the root agent {above[0].name!r}; "
            "put what only this agent must know into its instructions"
        )
    children = tuple(
        _plan(child, rules, resolve_model(child.model) if child.model else model, (*above, agent))
        for child in agent.subagent_instances
    )
    forked = (isinstance(each, Employed) and each.context == "fork" for each in agent.subagents)
    tenant = above[0].tenant if above else agent.tenant
    if agent.tenant and agent.tenant != tenant:
        raise ConfigurationError(
            f"agent {name!r} has the tenant {agent.tenant!r}, but runs for the tenant {tenant!r} "
            f"of the root agent {above[0].name!r}; set it there only"
        )
    _check_unique([child.name for child in children], name, "subagents named")
    known = _known(agent)
    given = agent.knowledge
    documents = () if isinstance(given, Knowledge) else given
    knowledge = tuple(sorted(documents, key=lambda document: document.uri))
    _check_unique([document.uri for document in knowledge], name, "documents with the URI")
    delegates = [Delegate(child.name, child.role) for child in children]
    handoffs = [Handoff(other.name, other.role) for other in desk.targets[name]]
    servers = tuple(source for source in agent.tools if isinstance(source, McpServer))
    functions = (*agent.method_tools, *_given_tools(agent))
    deferred = tuple(each for each in functions if policy_of(each).defer_loading)
    may_find = bool(deferred) or any(server.may_defer for server in servers)
    tools = (
        *(each for each in functions if not policy_of(each).defer_loading),
        *delegates,
        *handoffs,
        *(() if known is None else (known.tool,)),
        *(tools_to_find(model) if may_find else ()),
    )
    _check_same_names(name, (*tools, *deferred))
    policies = [policy_of(each) for each in (*tools, *deferred)]
    policies += [policy for server in servers for policy in server.policies.values()]
    return Plan(
        agent=agent,
        name=name,
        rules=rules,
        role=agent.role,
        examples=agent.examples,
        knowledge=knowledge,
        known=known,
        model=model,
        output=output_spec(agent.output_type),
        tools=(*tools, *reader_for(agent.max_result_chars, policies)),
        deferred=deferred,
        servers=servers,
        children=children,
        forked=frozenset(compress((child.name for child in children), forked)),
        tenant=tenant,
    )


def _known(agent: AnyAgent) -> KnownDocuments | None:
    if isinstance(agent.knowledge, Knowledge):
        return KnownDocuments(agent.knowledge, agent.knowledge_tokens)
    return None


def _undescribed(team: Plan) -> Iterator[str]:
    """Say which tools and subagents a model has to choose without knowing what they are for."""
    for plan in team.everyone():
        for each in (*plan.tools, *plan.deferred):
            if isinstance(each, FunctionTool) and not each.spec.description.strip():
                yield (
                    f"tool {each.spec.name!r} ({each.spec.source}) has no description, so the "
                    "model cannot know when to call it; give the function a docstring"
                )
        for child in plan.children:
            if not child.role.strip():
                yield (
                    f"agent {child.name!r}, a subagent of {plan.name!r}, has no description, so "
                    "its parent cannot know what to give it; give its class a docstring, or set "
                    "instructions"
                )
        for other in plan.others:
            if not other.role.strip():
                yield (
                    f"agent {other.name!r}, to which {plan.name!r} may be handed over, has no "
                    "description, so nobody can know when; give its class a docstring, or set "
                    "instructions"
                )


def _given_tools(agent: AnyAgent) -> Iterator[Tool]:
    for source in agent.tools:
        if isinstance(source, McpServer):
            continue
        found = () if _is_agent(source) else tools_from(source)
        if not found:
            fix = "subagents=[...]" if _is_agent(source) else "a function, a Tool or an McpServer"
            raise ConfigurationError(f"agent {agent.name!r}: {source!r} is no tool; give {fix}")
        for made in found:
            if isinstance(made, FunctionTool) and not made.is_bound:
                raise ConfigurationError(
                    f"agent {agent.name!r}: {made!r} is a method taken from its class; "
                    "take it from an instance"
                )
            yield made


def _check_same_names(agent: str, tools: tuple[Tool, ...]) -> None:
    """Check that each of an agent's tools would be called: by one name there is one.

    In a team it is otherwise: there equal specs are one spec, behind which each agent has its own.

    Raises:
        ConfigurationError: two tools that do different things have one name.
    """
    by_name: dict[str, Tool] = {}
    for each in tools:
        first = by_name.setdefault(each.spec.name, each)
        if not _is_same(first, each):
            raise ConfigurationError(
                f"agent {agent!r} has two different tools {each.spec.name!r}, {first!r} and "
                f"{each!r}, of which only the first would ever be called; give one another name: "
                'tool(name="...")'
            )


def _is_same(first: Tool, second: Tool) -> bool:
    if isinstance(first, FunctionTool) and isinstance(second, FunctionTool):
        return first.does_same(second)
    return first is second or first == second


def _is_agent(source: object) -> bool:
    from agentkit.agent import Agent

    return isinstance(source, Agent) or (isinstance(source, type) and issubclass(source, Agent))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"agent name {name!r} is not usable in tool names; "
            "use 1 to 52 of the characters a-z, A-Z, 0-9, '_' and '-'"
        )


def _check_unique(names: list[str], agent: str, what: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"agent {agent!r} has two {what} {name!r}; give one of them another"
            )


def _check_recursion(agent: AnyAgent, above: tuple[AnyAgent, ...]) -> None:
    # A subagent given as a class is made anew at each level, so its class must not come again.
    if any(
        other is agent or (agent.is_made_by_parent and type(other) is type(agent))
        for other in above
    ):
        line = " -> ".join(other.name for other in (*above, agent))
        raise ConfigurationError(f"an agent may not be its own subagent: {line}")
