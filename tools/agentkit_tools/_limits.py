"""The child's end of `_worker`: take limits, answer one request."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any


def serve(answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    """Read `{"limits": ..., "request": ...}` from stdin, write the answer to stdout, as JSON.

    Out of memory, nothing is written: that is the failure which the parent tells.
    """
    sent = json.loads(sys.stdin.readline())
    take(**sent["limits"])
    reply = json.dumps(answer(sent["request"]), ensure_ascii=True)
    sys.stdout.write(reply)
    sys.stdout.flush()


def take(*, timeout_s: float, max_memory_bytes: int, max_file_bytes: int) -> None:
    """Bound this process for good, where the system can; its parent has other means, too."""
    try:
        import resource
    except ImportError:
        return
    cpu_s = int(timeout_s) + 2
    _lower(resource.RLIMIT_CPU, cpu_s)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, max_file_bytes)
    _lower(resource.RLIMIT_AS, max_memory_bytes)


def _lower(which: int, limit: int) -> None:
    import contextlib
    import resource

    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    # macOS refuses limits of address space.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(which, (limit, limit))
