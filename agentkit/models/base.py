"""The seam between the loop and a model."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeGuard, runtime_checkable

from agentkit.context import Context
from agentkit.errors import ConfigurationError
from agentkit.events import ModelEvent
from agentkit.toolset import Toolset, ToolSpec
from agentkit.toolset.later import later_specs
from agentkit.usage import Timing, Usage

if TYPE_CHECKING:
    from agentkit.caching.policy.edits import ContextEdit
    from agentkit.caching.verdict import Verdict
    from agentkit.context.prices import Prices


@dataclass(frozen=True, slots=True)
class ToolName:
    """A tool choice: this tool must be called."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | ToolName
"""Whether the model may, must not or must call a tool, or one tool.

It never changes the prompt's bytes. At Anthropic a change of it loses the cached messages, though
not the tools and the system text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a model generates. None leaves it to the model's default. Never changes the prefix."""

    temperature: float | None = None
    """0 is greedy."""
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    """Bound on the tokens of one turn."""
    stop: tuple[str, ...] = ()
    """The answer ends before any of these strings."""

    # With "not (good)" and not "bad": each comparison with NaN is false.
    def __post_init__(self) -> None:
        if not isinstance(self.stop, tuple | list) or not all(
            isinstance(text, str) and text for text in self.stop
        ):
            raise ConfigurationError(
                f"stop must be a tuple of strings that are not empty, got {self.stop!r}"
            )
        if not (self.temperature is None or _is_not_negative(self.temperature)):
            raise ConfigurationError(
                f"temperature must be a finite number of at least 0, got {self.temperature!r}"
            )
        if not (self.top_p is None or (_is_not_negative(self.top_p) and 0 < self.top_p <= 1)):
            raise ConfigurationError(f"top_p must be in (0, 1], got {self.top_p!r}")
        if not (self.top_k is None or is_whole(self.top_k, 1)):
            raise ConfigurationError(
                f"top_k must be an int of at least 1, got {self.top_k!r}; None is off"
            )
        if not (self.max_tokens is None or is_whole(self.max_tokens, 1)):
            raise ConfigurationError(
                f"max_tokens must be an int of at least 1, got {self.max_tokens!r}"
            )
        if not (self.seed is None or is_whole(self.seed)):
            raise ConfigurationError(f"seed must be an int, got {self.seed!r}")


def is_whole(value: object, least: int | None = None) -> bool:
    """Whether a value is an int (and no bool) of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return least is None or value >= least


def _is_not_negative(value: object) -> bool:
    """Whether a value is a finite number (and no bool) of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """What is known about the requests that will follow. It only decides what to pay for."""

    turns_left: int | None = None
    """Requests that this run may still make after this one; 0: the last. None: not known."""
    again: bool = True
    """Whether anything will ask for this request's own tail again. False for side calls."""
    front_again: bool = True
    """Whether other runs will send the same front within its life in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a model.

    `context` and `toolset` are the prefix: from one request of a run to the next they only grow at
    the end. Everything else steers this one answer, and no adapter lets it touch the prefix.
    """

    context: Context
    toolset: Toolset
    """The tools that the prompt begins with; its bytes are the context's TOOLS segment."""
    allowed_tools: frozenset[str] | None = None
    """A mask: the tools that may be called now. None allows all."""
    tool_choice: ToolChoice = "auto"
    output_schema: Mapping[str, object] | None = None
    """JSON schema of the final answer; None is free text."""
    settings: Settings = field(default_factory=Settings)
    agent: str
    """Name of the agent that asks."""
    run_id: str
    request_id: str
    """Unique for each attempt."""
    session: str = ""
    """One conversation over many runs, also after a restart; empty: the run's own id."""
    tenant: str = ""
    """Caches of tenants are kept apart."""
    epoch: int = 0
    """How often the context was begun anew on purpose (compaction, new knowledge)."""
    reuse: Reuse = field(default_factory=Reuse)
    sources: Mapping[str, str] = field(default_factory=dict)
    """Digest of a segment -> the source line that supplied it, e.g. `app.py:12`."""
    tools_may_come: bool = False
    """Whether the conversation may yet get tools (`ToolsMessage`). What a provider wants to be told
    of that is said from the first request on then, where saying it later would lose what is cached.
    """

    @property
    def later_tools(self) -> tuple[ToolSpec, ...]:
        """The tools that came behind the front (`ToolsMessage`), oldest first."""
        return later_specs(self.context.later_tools)

    @property
    def shown_tools(self) -> tuple[ToolSpec, ...]:
        """All tools that the prompt shows: those of the toolset, then those that came later."""
        return self.toolset.specs + self.later_tools

    @property
    def shown_names(self) -> tuple[str, ...]:
        """Their names, in the same order."""
        return self.toolset.names + tuple(spec.name for spec in self.later_tools)

    @property
    def callable_tools(self) -> frozenset[str] | None:
        """The tools whose calls are run: what the mask and the choice leave. None is all."""
        match self.tool_choice:
            case "none":
                return frozenset()
            case ToolName(name):
                return frozenset((name,))
            case _:
                return self.allowed_tools

    @property
    def wire(self) -> bytes:
        """The prefix in our own neutral form: JSON Lines, without volatile text and steering.

        The wire of a later request of the same run starts with these bytes.
        """
        return self.context.dump()


@runtime_checkable
class KeepsAlive(Protocol):
    """A model that can keep a prefix in its cache while nothing is asked of it."""

    def kept_alive(
        self, request: ModelRequest, on_ping: Callable[[Usage, Timing, Verdict], None]
    ) -> AbstractAsyncContextManager[None]:
        """Keep the request's prefix alive inside the context; tell what each ping cost."""
        ...


@runtime_checkable
class HasPrices(Protocol):
    """A model for which it is known what tokens cost."""

    def prices(self) -> Prices:
        """Return today's prices, for decisions about a context."""
        ...

    def context_edits(self) -> tuple[ContextEdit, ...]:
        """Return how the provider itself can shorten a conversation."""
        ...


def keeps_alive(model: Model) -> TypeGuard[KeepsAlive]:
    """Whether a model is a `KeepsAlive`: asked in each turn, where `isinstance` takes long."""
    return hasattr(model, "kept_alive")


def has_prices(model: Model) -> TypeGuard[HasPrices]:
    """Whether a model is a `HasPrices`, see `keeps_alive`."""
    return hasattr(model, "prices") and hasattr(model, "context_edits")


def has_window(model: Model) -> TypeGuard[HasWindow]:
    """Whether a model is a `HasWindow`, see `keeps_alive`."""
    return hasattr(model, "context_tokens")


@runtime_checkable
class CostsNothing(Protocol):
    """A model for which it is known that nobody sends a bill, such as one of this machine."""

    @property
    def costs_nothing(self) -> bool:
        """Whether its requests cost no money."""
        ...


@runtime_checkable
class HasWindow(Protocol):
    """A model that says how long its prompts may be."""

    @property
    def context_tokens(self) -> int | None:
        """The most tokens of a prompt and its answer; None: not known."""
        ...


@runtime_checkable
class TakesTools(Protocol):
    """A model that can be given tools in the middle of a conversation, behind what was sent."""

    @property
    def takes_tools(self) -> bool:
        """Whether it shows a `ToolsMessage` where it stands.

        At any other model those tools are the last of the request's tools, in front of the history.
        """
        ...


def takes_tools(model: object) -> bool:
    """Whether a model, or an adapter of one, says so by `TakesTools`."""
    return getattr(model, "takes_tools", False) is True


@runtime_checkable
class TakesHints(Protocol):
    """A model whose cache can be told what will be asked, and what never again.

    Hints are advice: they cost nothing, change no answer and never fail.
    """

    def likely_next(self, agents: frozenset[str], tenant: str) -> None:
        """Runs of agents with these names may begin soon."""
        ...

    def conversation_ended(self, request: ModelRequest) -> None:
        """Nobody will go on behind this request; others may begin with its front."""
        ...


@runtime_checkable
class Warms(Protocol):
    """A model that can fill its cache without answering."""

    async def warm(self, request: ModelRequest, *, keep_s: float | None) -> Usage:
        """Compute what requests that begin with this one's context will share.

        Args:
            request: its context is a front, without messages.
            keep_s: keep it in the cache for so long after each use; None: as long as there is room.

        Raises:
            ModelError: the model failed, or keeps as much as it can already.
        """
        ...


@runtime_checkable
class Model(Protocol):
    """Something that continues a context."""

    @property
    def label(self) -> str:
        """What reports call the model, e.g. `local:smollm2`."""
        ...

    @property
    def siblings_start_together(self) -> bool:
        """Whether requests that share a prefix nobody has cached may start at once.

        True where the model computes shared work once by itself. Otherwise a fan-out lets one go
        ahead until its answer begins, and then starts the others.
        """
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model. Closing the generator aborts the request and frees what it held.

        Raises:
            RequestRefused: the model can never serve this request.
            ModelError: the model failed; `retryable` says whether it is worth asking again.
        """
        ...
