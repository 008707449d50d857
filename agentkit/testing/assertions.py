"""Checks that nothing of a prompt changes: from build to build, and from request to request."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agentkit.models.doubles import ModelCall
from agentkit.testing.capture import Runs, SentBody, captured_of

if TYPE_CHECKING:
    from agentkit.agent import Agent

_NEAR = 60


def assert_stable_build(build: Callable[[], Agent[Any, Any]], *, other_processes: int = 0) -> None:
    """Check that an agent, built twice, begins its contexts with the same bytes. All its team too.

        assert_stable_build(lambda: Desk(deps=rates))
        assert_stable_build(Desk, other_processes=3)

    What differs would break the prefix of every run: a clock, an id, the order of a set. The order
    of a set differs between processes only, and two processes may agree by chance: use several.

    Args:
        build: makes the agent anew.
        other_processes: also build it in so many other processes, each with its own order of sets.
            `build` must then be a function or class at the top of a file.

    Raises:
        AssertionError: names the segment, the differing text, its source line and the fix.
    """
    from agentkit.context.lint_builds import compare_builds
    from agentkit.team.builds import fronts, fronts_elsewhere

    first = fronts(build())
    elsewhere = (fronts_elsewhere(build, hash_seed=seed) for seed in range(1, other_processes + 1))
    for second in itertools.chain([fronts(build())], elsewhere):
        if first.keys() != second.keys():
            raise AssertionError(
                f"the team differs from build to build: {sorted(first)} and {sorted(second)}"
            )
        for path, front in first.items():
            found = compare_builds(front.context, second[path].context, front.source_of)
            if found:
                raise AssertionError(f"agent {path!r}: " + "\n".join(map(str, found)))


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


def assert_prefix_stable(runs: Runs) -> None:
    """Check that in each run every request extends the one before, and shows the same tools.

    Of hosted models that holds for the bytes on the wire, too, in the order in which the provider's
    cache reads them. Where a run has begun a new epoch on purpose, its requests are compared from
    there on.

    Args:
        runs: a result, record or stream, or several, with all runs below them; what `capture`
            gave; or `ScriptedModel.calls`. Calls of several runs may be mixed.

    Raises:
        AssertionError: shows where two requests of a run part; or nothing was captured.
    """
    calls, sent = captured_of(runs)
    last: dict[tuple[str, int], ModelCall] = {}
    for call in calls:
        epoch = (call.request.run_id, call.request.epoch)
        before = last.get(epoch)
        if before is not None:
            assert_extends(before.wire, call.wire)
        last[epoch] = call
    _assert_wire_stable(sent)


def _assert_wire_stable(sent: Sequence[SentBody]) -> None:
    last: dict[tuple[str, int], SentBody] = {}
    for body in sent:
        at = 0
        for piece in body.stable:
            found = body.body.find(piece[:-1], at)  # a mark may stand before its last byte
            assert found >= 0, f"a piece of the prompt is not on the wire: {piece[:_NEAR]!r}"
            at = found
        epoch = (body.request.run_id, body.request.epoch)
        before = last.get(epoch)
        if before is not None:
            assert_extends(b"\n".join(before.stable), b"\n".join(body.stable))
        last[epoch] = body
