"""Calls of the modern protocol that take several rounds: the server asks in place of answering.

Its answer is then `{"resultType": "input_required", "inputRequests": ..., "requestState": ...}`.
The call is made again with what it asked for and with its state, which is its own and goes back as
it came. Where a person has to answer and nobody does now, all of this is kept as a text, and the
call goes on from there, also in another process.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from agentkit.toolset.caller import TakenUp
from agentkit.toolset.mcp.calls.asking import Asking, Refused

_MOST_ROUNDS = 10
_MOST_KEPT_CHARS = 1_000_000
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 0.25
"""Before a server that only wants to be called again is."""

Send = Callable[[Mapping[str, object]], Awaitable[Mapping[str, object]]]
"""Makes the call with further parameters, and returns its raw result."""


@dataclass(slots=True)
class _Round:
    """What a server wants to know before it goes on, and what is known of that."""

    number: int
    requests: Mapping[str, object] = field(default_factory=dict)
    state: str | None = None
    responses: dict[str, object] = field(default_factory=dict)
    may_be_kept: bool = True
    """Whether it is short enough; its answers count, too."""

    @property
    def params(self) -> dict[str, object]:
        """What the call is made with, beside its name and arguments."""
        given: dict[str, object] = {}
        if self.responses:
            given["inputResponses"] = self.responses
        if self.state is not None:
            given["requestState"] = self.state
        return given

    @property
    def by_request(self) -> dict[str, object]:
        """The answers by what was asked."""
        return {_text(self.requests[key]): answer for key, answer in self.responses.items()}

    def kept(self, key: str) -> str | None:
        """Return it as text for when `key` is answered; None: it is too long to be kept."""
        if not self.may_be_kept:
            return None
        text = json.dumps(
            {
                "number": self.number,
                "requests": self.requests,
                "state": self.state,
                "responses": self.responses,
                "waits_for": key,
            }
        )
        return text if len(text) <= _MOST_KEPT_CHARS else None


async def with_answers(
    send: Send, asking: Asking, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Mapping[str, object]:
    """Make a call, and make it again with answers as long as its server asks. Returns the result.

    Raises:
        Refused: it asks for what it cannot have, or too often.
        Suspended: a person must answer first.
    """
    taken = asking.caller.take_up()
    now = _Round(0) if taken is None else _taken_up(taken, asking)
    known: dict[str, object] = {}
    while True:
        await _answer_all(now, asking, known)
        if now.number and not now.requests:
            await sleep(min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** (now.number - 1)))
        try:
            result = await send(now.params)
        except Exception as error:
            if taken is None or not _is_forgotten(error):
                raise
            # It knows its own state no more: it was started again, or the answer came late. So
            # nothing was done, and it asks again what is known by now.
            known, now, taken = now.by_request, _Round(0), None
            continue
        taken = None
        if result.get("resultType") != "input_required":
            return result
        now = _next(now, result)


async def _answer_all(now: _Round, asking: Asking, known: Mapping[str, object]) -> None:
    """Answer one request after the other: several questions at once would be several pauses."""
    for key, request in now.requests.items():
        if key in now.responses:
            continue
        if (answer := known.get(_text(request))) is None:
            method, params = _parts(request)
            answer = await asking.answer(method, params, kept=now.kept(key))
        now.responses[key] = answer


def _next(now: _Round, result: Mapping[str, object]) -> _Round:
    requests, state = result.get("inputRequests"), result.get("requestState")
    if now.number >= _MOST_ROUNDS:
        raise Refused(f"the tool asked for input {_MOST_ROUNDS} times, and still has no result")
    if not isinstance(requests, Mapping):
        requests = {}
    if not requests and not isinstance(state, str):
        raise Refused("the tool asks for input from a person, and does not say for what")
    asked = _Round(now.number + 1, requests, state if isinstance(state, str) else None)
    # Once: with many requests to answer each look at all of them would hold up the event loop.
    asked.may_be_kept = len(json.dumps([asked.requests, asked.state])) <= _MOST_KEPT_CHARS
    return asked


def _taken_up(taken: TakenUp, asking: Asking) -> _Round:
    kept = json.loads(taken.kept)
    now = _Round(kept["number"], kept["requests"], kept["state"], kept["responses"])
    _, params = _parts(now.requests[kept["waits_for"]])
    now.responses[kept["waits_for"]] = asking.elicited(params, taken.answer)
    return now


def _parts(request: object) -> tuple[object, Mapping[str, object]]:
    if not isinstance(request, Mapping):
        return None, {}
    params = request.get("params")
    return request.get("method"), params if isinstance(params, Mapping) else {}


def _is_forgotten(error: Exception) -> bool:
    from mcp import MCPError
    from mcp_types import INVALID_PARAMS

    return isinstance(error, MCPError) and error.code == INVALID_PARAMS


def _text(request: object) -> str:
    return json.dumps(request, sort_keys=True)
