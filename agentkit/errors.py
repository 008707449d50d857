"""Errors of the framework.

AgentkitError
├── ConfigurationError      an agent, team or model is put together wrongly; raised when it is built
│   ├── UnknownModel        a model string names nothing we know
│   └── ContextMismatch     a context is continued by an agent whose front differs from its own
├── ContextError            a context was given something it can never hold
│   └── ContextFrozen       somebody tried to edit, remove or reorder what a context holds
├── FormatError             the JSON form of a run is damaged, or of another version
├── MissingExtra            an optional part of the distribution is not installed
└── RunError                a run ended without an answer; `partial` has everything up to then
    ├── ModelError          the model failed or broke its protocol
    │   └── RequestRefused  the model can never serve this request (too long, schema not supported)
    ├── LimitReached        the run tree has used up one of its `Limits`
    │   └── TurnLimitReached  `max_turns` model turns did not lead to an answer
    ├── PriceUnknown        money is limited, and a model has no known price
    ├── Blocked             a guard let the input in or the answer out not
    ├── RestoredFailure     a subagent's run had failed in another process
    ├── ApprovalRequired    calls wait for a person; `paused` has them, and is what to resume
    └── OutputError         the answers never fitted the output type; `text` is the last one

The toolset's errors are in `agentkit.toolset.errors`. What a *model* does wrong (unknown tool, bad
arguments, an answer that does not fit the output type once) is never an exception: the model is
told, and goes on. Errors of one subagent are results too, see `agentkit.team.fan_out`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentkit.result import RunRecord
    from agentkit.saved import PausedRun


class AgentkitError(Exception):
    """Base class of all errors that this package raises on purpose."""


class ConfigurationError(AgentkitError, ValueError):
    """An agent, team or model is put together wrongly. The message names the value and the fix."""


class UnknownModel(ConfigurationError):
    """A model string names nothing we know. The message lists what exists."""


class ContextMismatch(ConfigurationError):
    """A context cannot be continued by this agent, because its rules, tools or role differ."""


class ContextError(AgentkitError, ValueError):
    """A context was given something it can never hold, such as a tool result without its call."""


class ContextFrozen(ContextError, AttributeError):
    """Somebody tried to change what a context holds. The message says what to do instead."""


class FormatError(AgentkitError, ValueError):
    """The JSON form of a run is damaged, or of a format that this version does not know."""


class MissingExtra(AgentkitError, ImportError):
    """An optional part is not installed. The message has the install command."""


class RunError(AgentkitError):
    """A run ended without an answer."""

    partial: RunRecord | None = None
    """What the run had done until then, with a context that can be continued. Set by the loop."""


class ModelError(RunError):
    """The model failed, or broke its protocol."""

    def __init__(
        self, message: str, *, retryable: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        """The same request may succeed later. The loop retries such errors by itself."""
        self.retry_after_s = retry_after_s
        """How long the provider asked to wait, in seconds; None where it did not say."""
        self.response_began = False
        """Whether the provider had begun to answer, so that it wants to be paid for that."""


class RequestRefused(ModelError):
    """The model can never serve this request; sending it again will not help."""


class LimitReached(RunError):
    """The run and everything below it have used up one of their limits."""

    def __init__(self, limit: str, allowed: object, used: object, *, note: str = "") -> None:
        super().__init__(
            f"the limit {limit}={allowed} is reached: {used} used{note and f' ({note})'}; "
            "continue from error.partial.context, or raise the limit"
        )
        self.limit = limit
        """Its name in `Limits`."""
        self.allowed = allowed
        self.used = used


class TurnLimitReached(LimitReached):
    """`max_turns` model turns did not lead to an answer. `limit` is `max_turns`.

    Unlike those in `Limits` it is each agent's own: of runs below it does not count.
    """

    def __init__(self, agent: str, allowed: int) -> None:
        RunError.__init__(
            self,
            f"agent {agent!r} has no answer after max_turns={allowed!r} turns; "
            "continue from error.partial.context, or raise max_turns",
        )
        self.limit, self.allowed, self.used = "max_turns", allowed, allowed


class PriceUnknown(RunError):
    """A model without a known price was to be asked under a limit on money. Nothing was sent."""


class Blocked(RunError):
    """Raised by a guard: what the user says, or what the agent answers, must not pass."""


class RestoredFailure(RunError):
    """A run below that had failed in another process. The message is the type and text of then."""


class ApprovalRequired(RunError):
    """Calls wait for a person. Resume the run with the answers: `agent.resume(error.paused, ...)`.

    A stream does not raise it: its last event is `RunPaused`.
    """

    def __init__(self, paused: PausedRun) -> None:
        calls = ", ".join(f"{each.call.name!r} ({each.id})" for each in paused.pending)
        kinds = {
            "Accept(values)" if each.question is not None else "Approve()"
            for each in paused.pending
        }
        answers = [*sorted(kinds, reverse=True), "Deny(reason)", "Answered(content)"]
        about = "; pending.question says what a server asks" if "Accept(values)" in kinds else ""
        super().__init__(
            f"the run waits for answers to {calls}; use: agent.resume(error.paused, "
            f"{{pending.id: {' or '.join(answers)}}}){about}"
        )
        self.paused = paused


class OutputError(RunError):
    """The answers never fitted the output type."""

    def __init__(self, message: str, *, text: str) -> None:
        super().__init__(message)
        self.text = text
        """The last answer, exactly as the model gave it."""
