"""What a running call may ask of the run that makes it: to show progress, to ask, to think.

MCP servers ask in the middle of their calls; functions can show how far they are. A call outside
of a run (a test, a script) gets `NOBODY`, which answers every question with a no.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

from agentkit.blocks import AssistantMessage, UserMessage
from agentkit.errors import ConfigurationError
from agentkit.toolset.forms import problem_with


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a server wants to know from a person in the middle of a call.

    Its words are the server's: show them as such. Answers go to the server alone. They are no
    part of the conversation, unless the server says them again in its result.
    """

    server: str
    """Alias of the MCP server that asks."""
    text: str
    form: str | None = None
    """JSON text of the schema of the values that are asked for: a flat object."""
    url: str | None = None
    """Where the person is to go in place of filling in a form: nothing opens it by itself."""

    @property
    def fields(self) -> Mapping[str, Mapping[str, Any]]:
        """The schemas of the values, by name; empty where there is only a URL."""
        form = {} if self.form is None else json.loads(self.form)
        return cast("Mapping[str, Mapping[str, Any]]", form.get("properties", {}))

    @property
    def required(self) -> frozenset[str]:
        """The names of the fields that an answer must have."""
        form = {} if self.form is None else json.loads(self.form)
        names = form.get("required")
        return frozenset(map(str, names)) if isinstance(names, list) else frozenset()

    def problem_with(self, values: Mapping[str, object]) -> str | None:
        """Return why values are no answer to it; None: they are one."""
        if self.form is None:
            return "only a visit to the URL is asked for, no values" if values else None
        return problem_with(values, self.form)


@dataclass(frozen=True, slots=True, init=False)
class Accept:
    """A person answers a `Question` with these values; none, where it only has a URL."""

    values: str
    """JSON text of an object."""
    kind: Literal["accept"] = field(default="accept", init=False)

    def __init__(self, values: str | Mapping[str, object] = "{}") -> None:
        """Answer with a dict, or the JSON text of one."""
        object.__setattr__(self, "values", _object_text(values))
        object.__setattr__(self, "kind", "accept")

    def __repr__(self) -> str:
        return "Accept(...)"  # what a person said does not belong into logs

    @property
    def content(self) -> Mapping[str, object]:
        """The values by name."""
        return cast("Mapping[str, object]", json.loads(self.values))


@dataclass(frozen=True, slots=True)
class Declined:
    """There is no answer to a question or a request, and why: for the model."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRequest:
    """An MCP server wants the agent's model to write something, at the run's expense."""

    server: str
    """Alias of the server."""
    messages: tuple[UserMessage | AssistantMessage, ...]
    system: str = ""
    max_tokens: int
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What the model has written for a server."""

    text: str
    model: str
    """Label of the model."""
    is_cut: bool = False
    """Whether it ended at the token limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenUp:
    """Where a call goes on that has waited for a person."""

    kept: str
    """What it had kept for that."""
    answer: Accept | Declined


class Caller(Protocol):
    """The run behind a call, as the call sees it."""

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Show how far the call is. From any thread; never fails, never waits."""
        ...

    async def ask(self, question: Question, *, kept: str | None) -> Accept | Declined:
        """Ask a person.

        Args:
            question: what to ask.
            kept: what the call needs to go on here in another process, tomorrow; None: it cannot.

        Raises:
            Suspended: with `kept` only: nobody answers now, and the call is made again later.
        """
        ...

    async def sample(self, request: SamplingRequest) -> Sampled | Declined:
        """Have the agent's model write something, if that is allowed."""
        ...

    def take_up(self) -> TakenUp | None:
        """Return where the call goes on, once; None: it begins."""
        ...


class Nobody:
    """The caller of a call that no run makes."""

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Nobody looks."""

    async def ask(self, question: Question, *, kept: str | None) -> Accept | Declined:
        """Nobody answers."""
        return Declined("nobody can be asked here")

    async def sample(self, request: SamplingRequest) -> Sampled | Declined:
        """There is no model."""
        return Declined("there is no model here")

    def take_up(self) -> TakenUp | None:
        """Nothing was begun before."""
        return None


NOBODY = Nobody()


def _object_text(values: object) -> str:
    try:
        text = json.dumps(values) if isinstance(values, Mapping) else values
        if isinstance(text, str) and isinstance(json.loads(text), dict):
            text.encode()
            return text
    except (TypeError, ValueError, RecursionError):
        pass
    raise ConfigurationError(
        f"Accept(values) takes a dict of JSON values, or its JSON text; got a "
        f"{type(values).__name__}"
    )
