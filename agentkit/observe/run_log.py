"""A log record for each run, request and tool call, when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing
from typing import TYPE_CHECKING

from agentkit.blocks import ToolCall
from agentkit.caching.ledger.amounts import AtLeast
from agentkit.events import (
    CacheEvent,
    Event,
    ModelEnd,
    ModelEvent,
    RunEnd,
    RunPaused,
    UsageEvent,
)
from agentkit.finding import is_known
from agentkit.models.base import ModelRequest
from agentkit.observe.logs import FIELDS, current_run
from agentkit.observe.within import within
from agentkit.toolset import Suspended, ToolOutput
from agentkit.usage import Timing, Usage

if TYPE_CHECKING:
    from agentkit.caching.verdict import Verdict
    from agentkit.state import RunState
    from agentkit.telemetry import CallSpan

_LOGGER = logging.getLogger("agentkit.run")


class RunLog:
    """Implements `agentkit.telemetry.Telemetry`: logs runs, requests and calls when they end.

    Args:
        logger: where to; by default `agentkit.run`. What failed, or lost a cache, is a warning.
    """

    def __init__(self, logger: logging.Logger = _LOGGER) -> None:
        self._logger = logger

    async def run(
        self, run: RunState, events: AsyncGenerator[Event, None]
    ) -> AsyncGenerator[Event, None]:
        """Log how a run ended, and what it used."""
        fields, status = _fields_of(run), "left"
        began_s = time.perf_counter()
        try:
            async with aclosing(within(_surround(fields), events)) as inside:
                async for event in inside:
                    if isinstance(event, RunEnd | RunPaused):
                        status = "done" if isinstance(event, RunEnd) else "paused"
                    yield event
        except asyncio.CancelledError:
            status = "cancelled"
            raise
        except Exception as error:
            fields = {**fields, "error_type": type(error).__qualname__}
            status = "failed"
            raise
        finally:
            record = run.record()
            used = {
                "requests": len(record.requests),
                **_usage_fields(record.usage),
                **cost_fields(record.cost),
                "seconds": round(time.perf_counter() - began_s, 3),
            }
            level = logging.WARNING if status == "failed" else logging.INFO
            self._log(level, f"run {status}", {**fields, "status": status, **used})

    async def request(
        self, run: RunState, request: ModelRequest, events: AsyncGenerator[ModelEvent, None]
    ) -> AsyncGenerator[ModelEvent, None]:
        """Log what a request used, what the cache did, and why it was not more."""
        usage, timing, verdict, finish = Usage(), Timing(), None, None
        fields = {**_fields_of(run), "request_id": request.request_id}
        fields["model"] = run.member.model.label
        began_s = time.perf_counter()
        try:
            async with aclosing(within(_surround(fields), events)) as inside:
                async for event in inside:
                    match event:
                        case UsageEvent():
                            usage = usage.merge(event.usage)
                            timing = timing.merge(event.timing)
                        case CacheEvent():
                            verdict = event.verdict
                        case ModelEnd():
                            finish = event.finish
                        case _:
                            pass
                    yield event
        except Exception as error:
            fields["error_type"] = type(error).__qualname__
            raise
        finally:
            lost = (
                0
                if verdict is None or verdict.shortfall is None
                else (verdict.shortfall.lost_tokens)
            )
            level = logging.WARNING if lost or "error_type" in fields else logging.INFO
            told = {
                "finish": finish,
                **_usage_fields(usage),
                "ttft_s": timing.ttft_s,
                "seconds": round(time.perf_counter() - began_s, 3),
                **_verdict_fields(verdict),
            }
            self._log(level, "request ended" if finish else "request broke off", fields | told)

    def call(self, run: RunState, call: ToolCall) -> AbstractAsyncContextManager[CallSpan]:
        """Log how a tool call ended."""
        return self._call(run, call)

    @contextlib.asynccontextmanager
    async def _call(self, run: RunState, call: ToolCall) -> AsyncIterator[CallSpan]:
        # A model may call a tool that does not exist, by a name that is what it wants to say.
        name = call.name if is_known(run, call.name) else "unknown"
        fields = {**_fields_of(run), "tool": name, "call_id": call.id}
        logged, began_s = _LoggedCall(), time.perf_counter()
        try:
            with _logging_in(fields):
                yield logged
        except Suspended:
            logged.outcome = "waits"
            raise
        finally:
            level = logging.WARNING if logged.outcome == "failed" else logging.INFO
            passed = {"seconds": round(time.perf_counter() - began_s, 3)}
            self._log(level, f"tool call {logged.outcome}", fields | passed)

    def _log(self, level: int, message: str, fields: Mapping[str, object]) -> None:
        self._logger.log(level, message, extra={FIELDS: fields})


class _LoggedCall:
    def __init__(self) -> None:
        self.outcome = "cancelled"

    def ended(self, output: ToolOutput) -> None:
        """Say how it ended; what it answered is not logged."""
        self.outcome = "failed" if output.is_error else "done"


def _fields_of(run: RunState) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "session": run.session,
        "path": "/".join(run.path),
        "agent": run.member.name,
    }


def _usage_fields(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.input_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "hit_ratio": usage.hit_ratio,
    }


def _verdict_fields(verdict: Verdict | None) -> dict[str, object]:
    if verdict is None:
        return {}
    shortfall = verdict.shortfall
    cost = cost_fields(AtLeast.of([None if verdict.cost is None else verdict.cost.total]))
    if shortfall is None:
        return cost
    cause = {"cause": shortfall.cause.value, "lost_tokens": shortfall.lost_tokens}
    difference = shortfall.difference
    place = None if difference is None else f"{difference.segment}, byte {difference.byte}"
    return {**cost, **cause, "place": place}


def cost_fields(cost: AtLeast | None) -> dict[str, object]:
    """Return what is known of a cost as a number, and of how many requests nothing is known.

    Null: nothing was asked that costs money, or no cost is known.
    """
    if cost is None:
        return {"cost_usd": None, "cost_unknown": 0}
    is_known = cost.known or not cost.unknown
    return {"cost_usd": float(cost.known) if is_known else None, "cost_unknown": cost.unknown}


def _surround(fields: Mapping[str, object]) -> Callable[[], AbstractContextManager[None]]:
    return functools.partial(_logging_in, fields)


@contextlib.contextmanager
def _logging_in(fields: Mapping[str, object]) -> Iterator[None]:
    """What is logged inside is of this run."""
    token = current_run.set(fields)
    try:
        yield
    finally:
        current_run.reset(token)
