"""Errors of the runtime.

RuntimeFault
├── ModelNotFound       the model string names nothing we can find or fetch
├── UnsupportedModel    the file is fine, but its architecture, tokenizer or tensor type is unknown
├── RequestRejected     the request can never run here (bad grammar, bad template input)
│   └── PromptTooLong   the rendered prompt leaves no room in the context; names tokens and limit
├── NotCached           a pin or a published prefix names tokens that are not all cached; fill first
├── PinRefused          the pin would exceed a quota; the message names the numbers
├── OutOfSlots          no KV slot is free or evictable right now (the scheduler preempts on it)
└── EngineStopped       the engine was closed while the request was pending
"""

from __future__ import annotations


class RuntimeFault(Exception):
    """Base class of all errors that this package raises on purpose."""


class ModelNotFound(RuntimeFault, LookupError):
    """A model could not be found or fetched. The message says what was tried and what to do."""


class UnsupportedModel(RuntimeFault, ValueError):
    """A model file uses something this runtime does not implement."""


class RequestRejected(RuntimeFault, ValueError):
    """A request can never run here; `field` names the offending part."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class PromptTooLong(RequestRejected):
    """The prompt has `n_tokens` (or `at_least` so many); up to `limit` leave room for an answer."""

    def __init__(self, n_tokens: int, limit: int, *, at_least: bool = False) -> None:
        least = "at least " if at_least else ""
        super().__init__(
            f"the prompt has {least}{n_tokens} tokens and the limit is {limit}; "
            "shorten or compact the messages",
            field="messages",
        )
        self.n_tokens = n_tokens
        self.limit = limit


class NotCached(RuntimeFault, LookupError):
    """Only part of what should be pinned is cached; the message says how much."""


class PinRefused(RuntimeFault):
    """A pin would exceed the tenant's quota or that of all tenants together."""


class OutOfSlots(RuntimeFault):
    """No KV slot is free or evictable."""


class EngineStopped(RuntimeFault):
    """The engine has been closed."""
