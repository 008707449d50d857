"""One HTTP request and its answer, while they are under way."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field

from agentkit_runtime.watching.record import RequestRecord

REQUEST_ID_HEADER = "x-request-id"

_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


@dataclass(slots=True, kw_only=True, eq=False)
class Exchange:
    """What is found out about an HTTP request on its way."""

    request_id: str
    method: str
    began_s: float
    """On a monotonic clock."""
    status: int = 0
    """Of the answer; 0 until it has begun."""
    records: list[RequestRecord] = field(default_factory=list)
    """What it asked of the model: usually one."""
    trace_id: str | None = None


current_exchange: ContextVar[Exchange | None] = ContextVar("agentkit_exchange", default=None)
"""The HTTP request that the current task answers; set by `Around`."""


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The id that the client gave, if it can be one, else a new one."""
    for name, value in headers:
        if name == REQUEST_ID_HEADER.encode():
            text = value.decode("latin-1")
            if _SANE_ID.fullmatch(text):
                return text
    return f"req_{uuid.uuid4().hex}"
