"""What a tenant may do. Kept in the key store as JSON; a change counts for the next request."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from agentkit_runtime.sched.options import LEAST_WEIGHT
from agentkit_runtime.types import Priority

_TENANT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")

OPERATOR = "(operator)"
"""Whose a request of an admin key without a tenant is. No key can name it: it is no valid name."""

Count = Annotated[int, Field(ge=1, le=10**15)]
"""The bound is beyond every use, and within what can be divided as a float."""
PriorityName = Literal["batch", "normal", "interactive"]


class Terms(BaseModel):
    """Limits of one tenant, all its keys together; None is no limit.

    Tokens are those that the model computed for it: prompt tokens that were not cached, and
    generated ones. What the cache answers is free, as it costs the server next to nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    tokens_per_month: Count | None = None
    """By the calendar month in UTC."""
    concurrent_requests: Count | None = None
    """Answers at a time; a request with `n` counts n times."""
    max_tokens: Count | None = None
    """Most generated tokens of an answer; longer ones end there."""
    pinned_tokens: Annotated[int, Field(ge=0)] | None = None
    """Most tokens in pins; None is the server's own quota for each tenant."""
    weight: Annotated[float, Field(ge=LEAST_WEIGHT, le=1e6, allow_inf_nan=False)] = 1.0
    """Share of computed tokens when several tenants wait, relative to the others'."""
    max_priority: PriorityName = "interactive"
    """The highest class that its requests may have."""

    @property
    def priority(self) -> Priority:
        """`max_priority`, as the scheduler calls it."""
        return Priority[self.max_priority.upper()]


UNLIMITED = Terms()
"""The terms of a tenant for which nobody has set any."""


def require_tenant_name(name: str) -> str:
    """`name`, if a tenant may be called so; else ValueError."""
    if not _TENANT_NAME.fullmatch(name):
        raise ValueError(
            "a tenant's name has 1 to 64 letters, digits and . _ @ - and begins with a letter or "
            f"digit, got {name!r}"
        )
    return name
