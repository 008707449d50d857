"""A model that replays a script and records what it was asked. For tests, yours and ours."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TypeAlias

from agentkit.events import ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.models.doubles import Call, ModelCall, PerfectCache, Reply, Say, spoken

Step: TypeAlias = "str | Say | Call | Reply | Exception | Sequence[Say | Call] | Respond"
"""One turn: text, parts, an exception that the model raises, or a function that decides."""
Respond: TypeAlias = Callable[[ModelRequest], Step]


class UnexpectedCall(AssertionError):
    """The script has no step for a request."""


class UnconsumedSteps(AssertionError):
    """The script has steps that were never asked for, or was asked for more than it has."""


class ScriptedModel:
    """Replays steps in order, one for each request.

    Usage is counted over the wire, four bytes a token, as if the model had a prefix cache that
    nothing ever leaves: tokens read = the whole segments that a request has in common with any
    earlier one. Ids of calls follow from the conversation, so that a run that is resumed in another
    process gets the same ones.

    Args:
        script: the steps; or, for a team, the steps of each agent by its name. A lone function
        answers
            every request.
        label: what reports call the model.
        chunk: characters in one delta.
        siblings_start_together: see `Model`.
        takes_tools: see `TakesTools`.

    Raises:
        TypeError: what is no step is in the script.
    """

    def __init__(
        self,
        script: Sequence[Step] | Mapping[str, Sequence[Step]] | Respond,
        *,
        label: str = "scripted",
        chunk: int = 7,
        siblings_start_together: bool = True,
        takes_tools: bool = False,
    ) -> None:
        self._script = script if callable(script) else _queues(script)
        self._label = label
        self._chunk = chunk
        self._siblings_start_together = siblings_start_together
        self._takes_tools = takes_tools
        self._lock = threading.Lock()
        self._cache = PerfectCache()
        self._unexpected: list[str] = []

    @property
    def label(self) -> str:
        """What reports call the model."""
        return self._label

    @property
    def siblings_start_together(self) -> bool:
        """As given to the constructor."""
        return self._siblings_start_together

    @property
    def takes_tools(self) -> bool:
        """As given to the constructor."""
        return self._takes_tools

    @property
    def costs_nothing(self) -> bool:
        """True: under a limit on money it may be asked."""
        return True

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """All requests so far, in order."""
        return self._cache.calls

    def calls_of(self, agent: str) -> tuple[ModelCall, ...]:
        """The requests of one agent, in order."""
        return tuple(call for call in self.calls if call.request.agent == agent)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Replay the next step.

        Raises:
            UnexpectedCall: there is none.
            Exception: the step is one.
        """
        with self._lock:
            usage = self._cache.count(request)
            step = self._next(request)
        reply = reply_of(step, request)
        async with aclosing(spoken(reply, request, usage, chunk=self._chunk)) as events:
            async for event in events:
                yield event

    def assert_consumed(self) -> None:
        """Check that every step was asked for, and nothing more.

        Raises:
            UnconsumedSteps: says which agent's script does not fit.
        """
        queues = {} if callable(self._script) else self._script
        problems = [f"{len(left)} steps left for {name}" for name, left in queues.items() if left]
        problems += self._unexpected
        if problems:
            raise UnconsumedSteps("; ".join(problems))

    def __repr__(self) -> str:
        return f"ScriptedModel({self._label!r}, {len(self.calls)} calls)"

    def _next(self, request: ModelRequest) -> Step:
        if callable(self._script):
            return self._script
        queue = self._script.get(repr(request.agent), self._script.get(_ANY))
        if queue:
            return queue.popleft()
        problem = f"call {len(self.calls)}, by agent {request.agent!r}, has no step in the script"
        if _ANY not in self._script and repr(request.agent) not in self._script:
            problem += f", which has steps for: {', '.join(self._script) or 'nobody'}"
        self._unexpected.append(problem)
        raise UnexpectedCall(f"{problem}; the context ends with {_tail(request)}")


def reply_of(step: Step, request: ModelRequest) -> Reply:
    """Return a step as a reply.

    Raises:
        Exception: the step is one.
    """
    match step:
        case Reply():
            return step
        case str():
            return Reply(parts=(Say(step),))
        case Say() | Call():
            return Reply(parts=(step,))
        case Exception():
            raise step
        case _ if callable(step):
            return reply_of(step(request), request)
        case _:
            _check_step(step)
            return Reply(parts=tuple(step))


_ANY = "any agent"


def _queues(
    script: Sequence[Step] | Mapping[str, Sequence[Step]],
) -> dict[str, deque[Step]]:
    if isinstance(script, Mapping):
        return {repr(agent): _queue(steps) for agent, steps in script.items()}
    return {_ANY: _queue(script)}


def _queue(steps: Sequence[Step]) -> deque[Step]:
    if isinstance(steps, str):
        raise TypeError(f"a script is a list of steps, got the string {steps!r}; use [{steps!r}]")
    if not isinstance(steps, Sequence):
        raise TypeError(f"a script is a list of steps, got {steps!r:.200}")
    for step in steps:
        _check_step(step)
    return deque(steps)


def _check_step(step: object) -> None:
    if isinstance(step, type):
        raise TypeError(f"a step of a script cannot be the class {step.__name__}; make one of it")
    if isinstance(step, str | Say | Call | Reply | Exception) or callable(step):
        return
    parts = step if isinstance(step, Sequence) else None
    if parts is None or not all(isinstance(part, Say | Call) for part in parts):
        raise TypeError(
            "a step of a script is a str, Say, Call, Reply, an exception, a list of Say and Call, "
            f"or a function of the request; got {step!r:.200}. An answer in JSON is given as text, "
            "e.g. json.dumps(...) or model.model_dump_json()"
        )


def _tail(request: ModelRequest) -> str:
    messages = request.context.messages
    return repr(messages[-1])[:300] if messages else "no message"
