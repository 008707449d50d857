"""What models were asked while a test ran, whichever agents asked, and what went over the wire."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from agentkit.models.base import ModelRequest
from agentkit.models.doubles import ModelCall
from agentkit.models.wiretap import listeners, listening
from agentkit.result import Failed, RunRecord
from agentkit.stream import RunStream


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBody:
    """A request of a hosted model, as it was sent."""

    request: ModelRequest
    stable: tuple[bytes, ...]
    """The pieces, without the provider's cache marks, that the run's next request begins with."""
    body: bytes
    """The body on the wire."""


class Capture:
    """What was asked inside `capture()`, oldest first. It can be read at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[ModelCall] = []
        self._sent: list[SentBody] = []

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The requests of all models, again for each attempt."""
        return tuple(self._calls)

    @property
    def sent(self) -> tuple[SentBody, ...]:
        """What hosted models have sent."""
        return tuple(self._sent)

    def asked(self, request: ModelRequest) -> None:
        """Hear of a request."""
        with self._lock:
            self._calls.append(ModelCall(request=request))

    def sent_body(self, request: ModelRequest, stable: tuple[bytes, ...], body: bytes) -> None:
        """Hear of a body."""
        with self._lock:
            self._sent.append(SentBody(request=request, stable=stable, body=body))

    def __repr__(self) -> str:
        return f"<capture of {len(self._calls)} requests>"


@contextmanager
def capture() -> Iterator[Capture]:
    """Keep what models are asked inside this context, in its tasks and in its threads.

        with capture() as asked:
            agent.run_sync("...")
        assert_prefix_stable(asked)

    The pytest plugin does so around each test, so that runs can be checked without it.
    """
    captured = Capture()
    with listening(captured):
        yield captured


Run: TypeAlias = "RunRecord | RunStream[object] | Capture"
"""Something whose requests can be checked; a `RunResult` is a `RunRecord`."""
Runs: TypeAlias = "Run | Iterable[ModelCall] | Iterable[Run]"


def captured_of(runs: Runs) -> tuple[tuple[ModelCall, ...], tuple[SentBody, ...]]:
    """Return what was asked, and sent, by runs and all runs below them, in the order of asking.

    Raises:
        AssertionError: nothing was captured while they ran.
    """
    if isinstance(runs, Capture):
        return runs.calls, runs.sent
    given = [runs] if isinstance(runs, RunRecord | RunStream) else list(runs)
    if not given:
        raise AssertionError("there is no run to look at: the list is empty")
    if all(isinstance(each, ModelCall) for each in given):
        return tuple(each for each in given if isinstance(each, ModelCall)), ()
    ids: set[str] = set()
    for each in given:
        ids |= _ids(each)
    found = [each for each in listeners() if isinstance(each, Capture)]
    # The outermost heard all that those inside it have heard.
    calls = [call for each in found[:1] for call in each.calls if call.request.run_id in ids]
    if not calls:
        raise AssertionError(
            f"no request of the runs {sorted(ids)} was captured; run the agent inside "
            "`with capture():`, and check it there, or load the pytest plugin (is it off, by "
            "`-p no:agentkit`?)"
        )
    sent = [body for each in found[:1] for body in each.sent if body.request.run_id in ids]
    return tuple(calls), tuple(sent)


def _ids(run: object) -> set[str]:
    if isinstance(run, RunStream):
        run = run.record
    if isinstance(run, RunRecord):
        below = (each.record if isinstance(each, Failed) else each.result for each in run.children)
        return {run.run_id}.union(*(_ids(each) for each in below))
    if run is None:
        raise AssertionError("the run has not begun: read its stream first")
    raise TypeError(
        "what is checked is a RunResult, a RunRecord, a stream, a Capture, or ScriptedModel.calls; "
        f"got {run!r:.200}"
    )
