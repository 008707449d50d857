"""A team that is ready to run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agentkit.context import Context
from agentkit.errors import ConfigurationError
from agentkit.finding import CALL_FOUND_TOOL, FIND_TOOLS, found_names
from agentkit.models import Model, ModelRequest, Reuse, ToolChoice, ToolName
from agentkit.models.base import takes_tools
from agentkit.models.prices import prices_of
from agentkit.output import OutputSpec
from agentkit.toolset import Tool, Toolset

if TYPE_CHECKING:
    from agentkit.state import RunState
    from agentkit.team.front import FrontBuilder
    from agentkit.team.known import KnownDocuments
    from agentkit.team.plan import AnyAgent
    from agentkit.team.served import ServedTools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Member:
    """One agent of a team."""

    agent: AnyAgent
    name: str
    model: Model
    output: OutputSpec[Any]
    toolset: Toolset
    """The team's superset: the same bytes for all. Under a shared name its own tool answers."""
    own_tools: frozenset[str]
    """The mask: what this agent may call of the toolset."""
    front: Context
    """Rules, toolset, role, examples and knowledge: what its contexts start with."""
    children: Mapping[str, Member]
    tenant: str = ""
    """The root agent's; caches of tenants are kept apart."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Digest of a front's segment -> the source line that supplied it."""
    known: KnownDocuments | None = None
    """Its documents, if they may change."""
    builder: FrontBuilder | None = None
    """Builds its front anew when they have changed."""
    forked: frozenset[str] = frozenset()
    """Names of the children whose runs begin from this agent's conversation."""
    desk: Mapping[str, Member] = field(default_factory=dict, repr=False)
    """All that its conversations may be handed to, itself among them; empty without handoffs."""
    role_text: str | None = None
    """What tells it its role, in a conversation whose front is another's."""
    deferred: Mapping[str, Tool] = field(default_factory=dict)
    """Functions of its own that are shown only when they are found, by name."""
    served: ServedTools | None = field(default=None, repr=False)
    """The team's MCP servers, while they are connected."""
    aliases: frozenset[str] = frozenset()
    """Of the servers whose tools this agent may call, also those that come later."""

    @property
    def others(self) -> tuple[Member, ...]:
        """Whom its conversations may be handed to."""
        return tuple(member for name, member in self.desk.items() if name != self.name)

    @property
    def tools_may_come(self) -> bool:
        """Whether conversations of the team with this model may get tools behind what was sent."""
        adds = self.served is not None and self.served.adds_tools
        return (adds or FIND_TOOLS in self.toolset) and takes_tools(self.model)

    def begun(self) -> Begun:
        """Return what a new run begins with. It may have newer documents than the team's front."""
        if self.known is None or self.builder is None:
            return Begun(member=self)
        edition = self.known.begin(self.builder.front, prices_of(self.model))
        front = self.builder.front(edition)
        return Begun(member=self.behind(front), version=edition.version, epoch=edition.epoch)

    def behind(self, front: Context) -> Member:
        """Return the member whose contexts start with another front: one with other documents."""
        if front == self.front:
            return self
        sources = self.sources if self.builder is None else self.builder.sources(front)
        return replace(self, front=front, sources=sources)

    def request(self, run: RunState, turn: int, attempt: int) -> ModelRequest:
        """Return what to ask the model in a turn.

        Raises:
            ConfigurationError: a hook of the agent asks for tools that it does not have.
        """
        own_turn = run.own_turn
        own = run.own_tools
        allowed = self._allowed(run, own_turn, own)
        choice = self.agent.tool_choice(own_turn)
        self._check_choice(choice, allowed, own_turn)
        return ModelRequest(
            context=run.context.with_volatile(self.agent.volatile(own_turn)),
            toolset=self.toolset,
            allowed_tools=None if allowed == frozenset(run.toolset.names) else allowed,
            tool_choice=choice,
            output_schema=self.output.schema,
            settings=self.agent.settings,
            agent=self.name,
            run_id=run.run_id,
            request_id=f"{run.run_id}-{turn}-{attempt}",
            session=run.session,
            tenant=self.tenant,
            epoch=run.epoch,
            reuse=self._reuse(run, own_turn, allowed, choice),
            sources=self.sources,
            tools_may_come=self.tools_may_come,
        )

    def _reuse(
        self, run: RunState, turn: int, allowed: frozenset[str], choice: ToolChoice
    ) -> Reuse:
        """What is known of the requests that will follow this one."""
        may_call = bool(allowed) and choice != "none"
        # A subagent's conversation ends with its answer; a user may go on with the root's.
        return Reuse(
            turns_left=self.agent.max_turns - turn - 1 if run.is_below else None,
            again=may_call or not run.is_below,
        )

    def _allowed(self, run: RunState, turn: int, own: frozenset[str]) -> frozenset[str]:
        given = self.agent.allowed_tools(turn)
        if given is None:
            return own
        wanted = frozenset(given)
        if unknown := wanted - own:
            raise ConfigurationError(
                f"{self.name}.allowed_tools({turn}) names {sorted(unknown)!r}, "
                f"but the agent's tools are {sorted(own)!r}"
            )
        if wanted.isdisjoint((FIND_TOOLS, CALL_FOUND_TOOL)):
            return wanted
        return wanted | (found_names(run) & own)  # whoever allows the search cannot name them

    def _check_choice(self, choice: ToolChoice, allowed: frozenset[str], turn: int) -> None:
        if isinstance(choice, ToolName) and choice.name not in allowed:
            problem = f"wants {choice.name!r}"
        elif choice == "required" and not allowed:
            problem = "wants a call"
        elif isinstance(choice, ToolName) or choice in ("auto", "none", "required"):
            return
        else:
            problem = f"is {choice!r}, and must be 'auto', 'none', 'required' or ToolName(...)"
        raise ConfigurationError(
            f"{self.name}.tool_choice({turn}) {problem}; it may call {sorted(allowed)!r} now"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Begun:
    """What a new run begins with."""

    member: Member
    """Its front is the run's context."""
    version: int | None = None
    """Of the documents in it; None: its agent has none that change."""
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Team:
    """All members, by way of the root."""

    root: Member
    latest: Callable[[], Awaitable[Team]] | None = field(default=None, repr=False)
    """Returns the team for a run that begins now, where tools may have changed since."""

    @property
    def toolset(self) -> Toolset:
        """The superset that all members show to their models."""
        return self.root.toolset
