"""Agent: what a user of the framework writes. Read this first."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, cast, get_args

from typing_extensions import TypeVar

from agentkit.blocks import ToolCall
from agentkit.checks import check_configuration, check_keywords
from agentkit.context import Document
from agentkit.context.compaction_rule import CompactionRule
from agentkit.declared import declared_name, declared_output, declared_role
from agentkit.errors import ConfigurationError
from agentkit.hooks import Hooks
from agentkit.journal import Journal
from agentkit.knowledge import Knowledge
from agentkit.limits import Limits
from agentkit.methods import check_method_tools, method_tools
from agentkit.models.base import Model, Settings, ToolChoice
from agentkit.output import OutputType
from agentkit.running import Running
from agentkit.saved import Answered, Approve, Deny
from agentkit.spelling import check_settings
from agentkit.team.desk import Desk, desk_of
from agentkit.team.members import Team
from agentkit.team.opening import build_team, open_team
from agentkit.team.plan import Plan, plan_team
from agentkit.team.subagent import Employed, agent_of
from agentkit.telemetry import Telemetry
from agentkit.toolset import Tool, ToolContext
from agentkit.toolset.caller import Accept, Question, SamplingRequest
from agentkit.toolset.mcp import McpConnection, McpServer
from agentkit.warn import users_line

Deps = TypeVar("Deps", default=None)
Output = TypeVar("Output", default=str)

_OF_CLASS: Any = object()
"""Not given, where None has a meaning of its own."""


ToolSource: TypeAlias = Tool | McpServer | Callable[..., object]
"""What an agent's `tools` may hold: a tool, a server of tools, or a plain function."""
Subagent: TypeAlias = "Agent[Any, Any] | type[Agent[Any, Any]] | Employed"
"""An agent that another may delegate to. A class is made with the parent's `deps`."""


class Agent(Running[Output], Generic[Deps, Output]):
    """An agent: a role, a model, tools, and subagents.

    Subclass it, and the docstring is the agent's role; or make an instance of it with keywords:

        class Desk(Agent):
            '''You answer currency questions. Use the tools; never guess a rate.'''
            model = "local:smollm2"

            @tool
            def convert(self, usd: float, currency: str) -> float: ...

        clerk = Agent(model="local:smollm2", instructions="You are brief.", name="clerk")

    Keywords override what the class says. The first type argument is that of `deps`, the second
    that of the answer: `class Reader(Agent[None, Finding])`. One agent may serve many runs at once.
    After its first use its configuration is fixed, because the model's cache was built on it.
    """

    model: str | Model | None = None
    """A model string such as `local:smollm2`, or a model. Subagents may use their parent's."""
    name: str = ""
    """How tools, events and reports call it. By default made from the class's name."""
    instructions: str = ""
    """The role, if not the class's docstring."""
    rules: str = ""
    """The organisation's rules: they lead the prompt of every agent of the team."""
    examples: str = ""
    """Fixed examples of good answers."""
    knowledge: Sequence[Document] | Knowledge = ()
    """Documents that the agent always has; shown in the order of their URIs.

    With a `Knowledge` they may change: new runs begin with the latest, and conversations are told
    what has changed of the documents that they were shown, between two turns: by a message, or by
    beginning anew with the newest in front, whichever costs less.
    """
    knowledge_tokens: int = 20_000
    """Up to how many tokens a `Knowledge` lies in the prompt, by estimate.

    Where it has more at the agent's first use, none of it does. The agent always has a tool
    `search_knowledge`; it finds also what came later and did not fit any more.
    """
    tools: Sequence[ToolSource] = ()
    """Tools besides the `@tool` methods. Their order does not matter."""
    subagents: Sequence[Subagent] = ()
    """Agents to delegate to, each a tool `delegate_to_<name>`. Classes or instances.

    `subagent(Reader, context="fork")` has one begin from what its parent was told and has said.
    """
    handoffs: Sequence[Agent[Any, Any] | type[Agent[Any, Any]] | str] = ()
    """Agents that the conversation may be handed to, each a tool `handoff_to_<name>`.

    The other goes on with it in this one's place: behind the same prefix, with its own tools,
    output type, hooks, limits and turns. Classes, instances, or the names of agents of the same
    desk: those that are reached by handoffs from who begins. A class that is there already means
    that agent. Where output types differ a run's output is of the type of whoever ends it, and at
    hosted providers less is read from the cache: most key it by the form of the answer.
    """
    output_type: OutputType[Output] = cast("type[Output]", None)
    """What the answer must be: `str`, a pydantic model, a dataclass, a `TypedDict`, a list, an
    enum, a `Literal`, a number; or a list of such types, of which it must be one.

    With `str` among them, as in `[Report, str]`, the model may also answer in words.
    """
    settings: Settings = Settings()
    """How the model generates."""
    tenant: str = ""
    """Whose data the runs see: providers' caches are kept apart by it. The root agent's counts."""
    max_turns: int = 20
    """Model turns of one run."""
    max_repairs: int = 2
    """How often a run asks the model to correct an answer that does not fit the output type."""
    max_retries: int = 2
    """How often a turn is asked again after a failure that may pass."""
    max_parallel: int = 8
    """Tool calls of one turn that run at the same time."""
    max_result_chars: int | None = None
    """Longest tool result that the model reads whole, in characters. Of a longer one it sees head
    and tail; the whole is kept with the run, and read in pages with the tool `read_result`, which
    the agent then has. None: no such tool; results over 50,000 characters are cut for good.
    """
    compaction: CompactionRule | None = CompactionRule()
    """When a conversation goes on from a summary of itself; None: never.

    Its lengths are in tokens. Where a model says how long its prompts may be, they are cut to that;
    for other small models set the trigger, e.g. `CompactionRule(trigger_tokens=4_000)`.
    """
    limits: Limits | None = None
    """How much one run and everything below it may use; for a subagent, each of its runs."""
    hooks: Sequence[Hooks] = ()
    """Code of your own at fixed places of each run, in this order."""
    journal: Journal | None = None
    """Keeps each step of a run, so that it can be resumed. The root agent's counts."""
    telemetry: Telemetry | None = None
    """Traces runs. The root agent's counts."""
    on_front_change: Literal["refuse", "epoch"] = "refuse"
    """What happens to conversations and waiting runs of before, once rules, tools or role differ.

    Their requests would begin with other bytes. `"refuse"` raises `ContextMismatch`; `"epoch"` goes
    on with the front as it is now and the history as it was: a new epoch, which an event tells
    (`ContextCompacted`, with the cause "front"), and whose history is written to the cache once
    more. The root agent's counts.
    """
    deps: Deps
    """What the tools need: connections, settings, the user's identity. The model never sees it.

    A class may have a value for its instances; it counts where None is given.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        check_method_tools(cls, Agent)
        check_settings(cls, Agent, _CONFIGURATION)

    if not TYPE_CHECKING:  # type checkers find such mistakes by `__init__`

        def __new__(cls, *args: object, **given: object) -> Agent[Any, Any]:
            """Refuse keywords that do not exist, with a word on what was meant."""
            if cls.__init__ is Agent.__init__:
                check_keywords(args, given, _CONFIGURATION | {"deps"})
            return super().__new__(cls)

    def __init__(
        self,
        *,
        deps: Deps = None,  # type: ignore[assignment]  # for `Agent(...)`, whose Deps is None
        model: str | Model | None = None,
        name: str | None = None,
        instructions: str | None = None,
        rules: str | None = None,
        examples: str | None = None,
        knowledge: Sequence[Document] | Knowledge | None = None,
        knowledge_tokens: int | None = None,
        tools: Sequence[ToolSource] | None = None,
        subagents: Sequence[Subagent] | None = None,
        handoffs: Sequence[Agent[Any, Any] | type[Agent[Any, Any]] | str] | None = None,
        output_type: OutputType[Output] | None = None,
        settings: Settings | None = None,
        tenant: str | None = None,
        max_turns: int | None = None,
        max_repairs: int | None = None,
        max_retries: int | None = None,
        max_parallel: int | None = None,
        max_result_chars: int | None = None,
        compaction: CompactionRule | None = _OF_CLASS,
        limits: Limits | None = None,
        hooks: Sequence[Hooks] | None = None,
        journal: Journal | None = None,
        telemetry: Telemetry | None = None,
        on_front_change: Literal["refuse", "epoch"] | None = None,
    ) -> None:
        if deps is not None or not hasattr(self, "deps"):
            self.deps = deps
        given = {key: value for key, value in locals().items() if key in _CONFIGURATION}
        for key, value in given.items():
            if value is not _OF_CLASS and (value is not None or key == "compaction"):
                setattr(self, key, value)
        self.name = self.name or declared_name(type(self))
        self._has_output_type = self.output_type is not None or type(self) is not Agent
        if self.output_type is None:
            self.output_type = declared_output(type(self), Agent)
        check_configuration(self)
        self._made_at = users_line()
        self._is_initialised = True

    # What an application calls: see also `Running`, for `run`, `stream` and `resume`.

    async def __aenter__(self) -> Agent[Deps, Output]:
        """Connect the team's MCP servers once, for many runs."""
        if self._session is not None:
            raise ConfigurationError(f"agent {self.name!r} is open already")
        stack = AsyncExitStack()
        team = await stack.enter_async_context(open_team(self._plan()))
        self._session = _Session(team, stack)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.stack.aclose()

    def mcp_connection(self, alias: str) -> McpConnection:
        """The connection to an MCP server of the team, e.g. for its resources and prompts.

        There is one inside `async with agent:`, and it ends there.

        Raises:
            ConfigurationError: the agent is not open, or its team has no server of this alias.
        """
        served = None if self._session is None else self._session.team.root.served
        if self._session is None:
            raise ConfigurationError(
                f"agent {self.name!r} is not open, so its MCP servers are not connected; "
                "use: async with agent: ..."
            )
        found = () if served is None else tuple(served.of((alias,)))
        if not found:
            known = ", ".join(map(repr, () if served is None else served.aliases)) or "none"
            raise ConfigurationError(
                f"agent {self.name!r} has no MCP server {alias!r}; there are: {known}"
            )
        return found[0]

    # What a subclass may override. None of it can change what was sent before.

    def tool_choice(self, turn: int) -> ToolChoice:
        """Return whether the model may, must not or must call a tool. `turn` counts from 0."""
        return "auto"

    def allowed_tools(self, turn: int) -> frozenset[str] | None:
        """Return which of its own tools the agent may call now; None allows all of them."""
        return None

    def volatile(self, turn: int) -> str | None:
        """Return text that is true only now, such as the time. It is shown last, and not kept."""
        return None

    async def approve(
        self, call: ToolCall, context: ToolContext[Any]
    ) -> Approve | Deny | Answered | None:
        """Answer a call whose tool requires approval; None: the run pauses until a person does."""
        return None

    async def elicit(self, question: Question, context: ToolContext[Any]) -> Accept | Deny | None:
        """Answer what an MCP server asks in the middle of a call; None: a person must.

        Then the run pauses where the server can wait: those of protocol 2026-07-28. For an older
        one the question is declined, and the model is told so.
        """
        return None

    async def approve_sampling(self, request: SamplingRequest, context: ToolContext[Any]) -> bool:
        """Whether an MCP server may have the model write something, at the run's expense."""
        return False

    async def check_output(self, output: Output) -> None:
        """Check an answer that fits the output type, with `self.deps` for example.

        Raises:
            Retry: the model reads the text and answers again, as often as `max_repairs` says.
        """

    # What the team asks an agent for.

    @property
    def role(self) -> str:
        """The instructions, or the docstring of the nearest class that has one."""
        return self.instructions or declared_role(type(self), Agent)

    @property
    def method_tools(self) -> tuple[Tool, ...]:
        """The `@tool` methods, bound to this agent, in the order of definition."""
        return method_tools(self)

    @property
    def subagent_instances(self) -> tuple[Agent[Any, Any], ...]:
        """The subagents; those given as classes are made at first use."""
        if self._subagents is None:
            self._subagents = tuple(
                self.made(part) if isinstance(part, type) else part
                for part in map(agent_of, self.subagents)
            )
        return self._subagents

    @property
    def desk(self) -> Desk:
        """This agent and those that its conversations may be handed to; made at first use."""
        if self._desk is None:
            self._desk = desk_of(self)
        return self._desk

    @property
    def made_at(self) -> tuple[str, int] | None:
        """File and line that gave the keywords; None before it is made."""
        return self._made_at

    @property
    def is_open(self) -> bool:
        """Whether it was entered (`async with agent`), and not left yet."""
        return self._session is not None

    @property
    def is_initialised(self) -> bool:
        """Whether `Agent.__init__` was called, which a subclass may have forgotten."""
        return self._is_initialised

    @property
    def is_made_by_parent(self) -> bool:
        """Whether a parent made it from its class."""
        return self._is_made_by_parent

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Team, None]:
        """The team, ready to run: that of `async with agent`, or one for this run alone."""
        session = self._session
        if session is not None and session.loop is asyncio.get_running_loop():
            latest = session.team.latest
            yield session.team if latest is None else await latest()
            return
        plan = self._plan()
        if plan.all_servers:
            async with open_team(plan) as team:
                yield team
            return
        if self._static_team is None:
            self._static_team = build_team(plan, {})
        yield self._static_team

    def __setattr__(self, name: str, value: object) -> None:
        if name in _CONFIGURATION and self._is_fixed:
            raise ConfigurationError(
                f"cannot set {name!r}: agent {self.name!r} was used already, and the model's cache "
                "is built on its configuration; make a new agent"
            )
        self._check_known(name)
        object.__setattr__(self, name, value)
        if name == "__orig_class__" and not self._has_output_type:
            # Of `Agent[None, Finding](...)`, which come after `__init__`.
            declared = get_args(value)[1:]
            if declared and not isinstance(declared[0], TypeVar):
                self.output_type = declared[0]
        if name == "deps":
            others = () if self._desk is None else self._desk.others
            for subagent in (*(self._subagents or ()), *others):
                if subagent.is_made_by_parent:
                    subagent.deps = value

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    # State of its own. Class-level defaults, for attributes that are set before super().__init__().
    _is_initialised: bool = False
    _has_output_type: bool = True
    _made_at: tuple[str, int] | None = None
    _planned: Plan | None = None
    _is_fixed: bool = False
    """Whether it is part of a planned team, its own or that of an agent above."""
    _static_team: Team | None = None
    _session: _Session | None = None
    _subagents: tuple[Agent[Any, Any], ...] | None = None
    _desk: Desk | None = None
    _is_made_by_parent: bool = False

    def _check_known(self, name: str) -> None:
        # Only here is a name surely a mistake: subclasses keep things of their own, set in
        # __init__ or later, and no rule tells those from misspelled configuration.
        if type(self) is not Agent or hasattr(Agent, name) or name in ("deps", "__orig_class__"):
            return
        near = difflib.get_close_matches(name, _CONFIGURATION, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "keep what is yours in deps"
        raise ConfigurationError(f"cannot set {name!r}: agents have no such attribute; {hint}")

    def _plan(self) -> Plan:
        if self._planned is None:
            self._planned = plan_team(self)
            for part in self._planned.everyone():
                part.agent._fix()
        return self._planned

    def _fix(self) -> None:
        """Let nothing of the configuration change any more, lists that are appended to included."""
        for plural in _PLURALS:
            value = getattr(self, plural)
            if isinstance(value, list):
                object.__setattr__(self, plural, tuple(value))
        self._is_fixed = True

    def made(self, cls: type[Agent[Any, Any]], what: str = "subagent") -> Agent[Any, Any]:
        """Return an agent of a class that was given in place of one."""
        try:
            made = cls(deps=self.deps)
        except TypeError as error:
            raise ConfigurationError(
                f"{what} {cls.__name__!r} of {self.name!r} cannot be made by "
                f"{cls.__name__}(deps=...): {error}; give an instance"
            ) from error
        made._is_made_by_parent = True
        return made


class _Session:
    """An open team, and what must be closed after it."""

    def __init__(self, team: Team, stack: AsyncExitStack) -> None:
        self.team = team
        self.stack = stack
        self.loop = asyncio.get_running_loop()


_CONFIGURATION = frozenset(
    (
        "compaction",
        "examples",
        "handoffs",
        "hooks",
        "instructions",
        "journal",
        "knowledge",
        "knowledge_tokens",
        "limits",
        "max_parallel",
        "max_repairs",
        "max_result_chars",
        "max_retries",
        "max_turns",
        "model",
        "name",
        "on_front_change",
        "output_type",
        "rules",
        "settings",
        "subagents",
        "telemetry",
        "tenant",
        "tools",
    )
)


_PLURALS = ("tools", "subagents", "handoffs", "knowledge", "hooks")
