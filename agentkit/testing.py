"""For tests of agents: a scripted model, and assertions about the cached prefix."""

from __future__ import annotations

from collections.abc import Iterable

from agentkit.models.scripted import (
    Call,
    ModelCall,
    Reply,
    Say,
    ScriptedModel,
    Step,
    UnconsumedSteps,
    UnexpectedCall,
)

__all__ = [
    "Call",
    "ModelCall",
    "Reply",
    "Say",
    "ScriptedModel",
    "Step",
    "UnconsumedSteps",
    "UnexpectedCall",
    "assert_extends",
    "assert_prefix_stable",
]

_NEAR = 60


def assert_extends(earlier: bytes, later: bytes) -> None:
    """Check that `later` starts with `earlier`: nothing that was sent has changed.

    Raises:
        AssertionError: shows where the two part.
    """
    if later.startswith(earlier):
        return
    pairs = zip(earlier, later, strict=False)
    shorter = min(len(earlier), len(later))
    at = next((index for index, (a, b) in enumerate(pairs) if a != b), shorter)
    line = earlier.count(b"\n", 0, at) + 1
    start = max(0, at - _NEAR)
    raise AssertionError(
        f"the prefix changed at byte {at} (line {line}):\n"
        f"  earlier: {earlier[start : at + _NEAR]!r}\n"
        f"  later:   {later[start : at + _NEAR]!r}"
    )


def assert_prefix_stable(calls: Iterable[ModelCall]) -> None:
    """Check that in each run every request extends the one before, and shows the same tools.

    Give it `ScriptedModel.calls`; calls of several runs may be mixed.

    Raises:
        AssertionError: shows where two requests of a run part.
    """
    last: dict[str, ModelCall] = {}
    for call in calls:
        before = last.get(call.request.run_id)
        if before is not None:
            assert_extends(before.wire, call.wire)
        last[call.request.run_id] = call
