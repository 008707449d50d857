"""One run as a span, and what its spans and metrics need to remember meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from opentelemetry.trace import Tracer

from agentkit.blocks import Message
from agentkit.caching.report import RequestRecord
from agentkit.caching.verdict import Verdict
from agentkit.events import (
    ContextCompacted,
    Event,
    HandedOff,
    RunEnd,
    RunPaused,
    TurnDropped,
    TurnEnd,
)
from agentkit.models.base import ModelRequest
from agentkit.observe import semconv
from agentkit.observe.otel_chat import usage_attributes
from agentkit.observe.otel_content import input_messages, output_messages
from agentkit.observe.otel_errors import error_type, record_error
from agentkit.observe.otel_metrics import Metrics
from agentkit.result import RunRecord

if TYPE_CHECKING:
    from agentkit.state import RunState


class TracedRun:
    """One run while it is traced."""

    def __init__(self, run: RunState, tracer: Tracer, metrics: Metrics, *, content: bool) -> None:
        self.n_calls = 0
        """Tool calls that were begun."""
        self.is_compacted = False
        """Whether the conversation goes on from a summary of itself."""
        self._run = run
        self._metrics = metrics
        self._content = content
        self._began_s = time.perf_counter()
        self._n_requests = 0
        self._status: str | None = None
        self._error_type: str | None = None
        self._n_known_before = len(_own(run.record(), run.run_id))
        self._judged: list[Verdict] = []
        self._n_shown = 0
        self._shown_epoch = -1
        self.span = tracer.start_span(
            f"{semconv.INVOKE_AGENT} {run.member.name}",
            attributes={
                semconv.OPERATION: semconv.INVOKE_AGENT,
                semconv.AGENT_NAME: run.member.name,
                **semconv.model_attributes(run.member.model.label),
                semconv.CONVERSATION_ID: run.session,
                semconv.RUN_ID: run.run_id,
                semconv.RUN_PATH: "/".join(run.path),
            },
        )

    def saw(self, event: Event) -> None:
        """Note what an event says about the run itself."""
        match event:
            case RunEnd():
                self._status = "done"
            case RunPaused():
                self._status = "paused"
                pending = () if event.paused is None else event.paused.pending
                self.span.set_attribute(semconv.PENDING_CALLS, len(pending))
            case TurnDropped():
                self.span.add_event(
                    semconv.DROPPED_EVENT,
                    {
                        semconv.ERROR_TYPE: error_type(event.error),
                        semconv.RETRY_WAIT: event.wait_s,
                    },
                )
            case ContextCompacted():
                self.is_compacted = self.is_compacted or event.cause == "length"
                self.span.add_event(
                    semconv.COMPACTED_EVENT,
                    {
                        semconv.EPOCH_CAUSE: event.cause,
                        semconv.TOKENS_BEFORE: event.tokens_before,
                        semconv.TOKENS_AFTER: event.tokens_after,
                    },
                )
            case HandedOff():
                self.span.add_event(
                    semconv.HANDOFF_EVENT,
                    {
                        semconv.HANDOFF_FROM: event.agent,
                        semconv.HANDOFF_TO: event.to,
                        semconv.UNREAD_TOKENS: event.unread_tokens,
                    },
                )
            case TurnEnd():
                if self._content:
                    turn = event.turn
                    self.span.set_attribute(
                        semconv.OUTPUT_MESSAGES, output_messages(turn.message, turn.finish)
                    )
            case _:
                pass

    def asked(self, request: ModelRequest, verdict: Verdict | None) -> None:
        """Note a request that has a span of its own."""
        self._n_requests += 1
        if verdict is not None:
            self._judged.append(verdict)

    def new_messages(self, request: ModelRequest) -> tuple[Message, ...]:
        """Return what the request shows, and the one before did not."""
        messages = request.context.messages
        if request.epoch != self._shown_epoch:
            self._n_shown, self._shown_epoch = 0, request.epoch
        new, self._n_shown = messages[self._n_shown :], len(messages)
        return new

    def broke(self, error: BaseException) -> None:
        """The run ended early; after its last event that is no failure."""
        if self._status is not None:
            return
        if isinstance(error, GeneratorExit):
            self._status = "left"
        else:
            is_cancelled = isinstance(error, asyncio.CancelledError)
            self._status = "cancelled" if is_cancelled else "failed"
            self._error_type = record_error(self.span, error, content=self._content)

    def end(self) -> None:
        """End the span, with what the run and everything below it has used."""
        record = self._run.record()
        n_pings = self._count_pings(record)
        self.span.set_attributes(
            {
                semconv.RUN_STATUS: self._status or "done",
                semconv.TURNS: self._run.turn + (self._status == "done"),
                semconv.KEEP_ALIVES: n_pings,
                **usage_attributes(record.usage),
            }
        )
        if (cost := record.cost) is not None:
            self.span.set_attribute(semconv.COST, float(cost.known))
            self.span.set_attribute(semconv.UNPRICED, cost.unknown)
        if self._content and (messages := record.messages):
            self.span.set_attribute(semconv.INPUT_MESSAGES, input_messages(messages[:1]))
        labels: dict[str, str | int] = {semconv.AGENT_NAME: self._run.member.name}
        self._metrics.agent_requests.record(self._n_requests, labels)
        self._metrics.agent_calls.record(self.n_calls, labels)
        if self._error_type is not None:
            labels[semconv.ERROR_TYPE] = self._error_type
        self._metrics.agent_s.record(time.perf_counter() - self._began_s, labels)
        self.span.end()

    def _count_pings(self, record: RunRecord) -> int:
        """Count requests that kept a prefix alive while tools ran: they cost, and have no span."""
        traced = {id(verdict) for verdict in self._judged}
        pings = [
            request
            for request in _own(record, self._run.run_id)[self._n_known_before :]
            if request.verdict is not None and id(request.verdict) not in traced
        ]
        for ping in pings:
            self._metrics.count(ping.usage, ping.verdict, chat_labels(self._run, ping.model))
        return len(pings)


def chat_labels(run: RunState, model: str | None = None) -> dict[str, str | int]:
    """Return what requests of a run are told apart by in metrics; `model`: who has answered."""
    return {
        semconv.OPERATION: semconv.CHAT,
        semconv.AGENT_NAME: run.member.name,
        **semconv.model_attributes(model or run.member.model.label),
    }


def _own(record: RunRecord, run_id: str) -> list[RequestRecord]:
    return [request for request in record.requests if request.run_id == run_id]
