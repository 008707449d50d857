"""A kept run as rows: each request with what the cache did. Data; `showing_runs.py` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agentkit.blocks import AssistantMessage, message_to_json
from agentkit.caching.report import CacheReport, RequestRecord
from agentkit.cli.transcript import messages_of
from agentkit.observe.amounts import dollars, one_line, share_text, usd_text
from agentkit.saved import SavedRun

_BAR = 24
_READ, _WRITTEN, _NEW = "█", "▓", "░"
LEGEND = f"{_READ} read from the cache  {_WRITTEN} written to it  {_NEW} neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The input of one request, in tokens. Written is a part of what was not read."""

    total: int
    read: int
    written: int

    @staticmethod
    def of(request: RequestRecord) -> Split | None:
        """Return it as the provider billed it; None where it did not say."""
        verdict = request.verdict
        if verdict is not None and verdict.actual is not None:
            actual = verdict.actual
            return Split(total=actual.total, read=actual.read, written=actual.written)
        usage = request.usage
        if usage.input_tokens is None:
            return None
        read = usage.cache_read_tokens or 0
        return Split(total=usage.input_tokens, read=read, written=usage.cache_write_tokens or 0)

    def bar(self, longest: int) -> str:
        """Return it as a bar; the longest prompt has the full width."""
        width = max(1, round(_BAR * self.total / max(1, longest)))
        read = round(width * self.read / max(1, self.total))
        written = min(width - read, round(width * self.written / max(1, self.total)))
        return _READ * read + _WRITTEN * written + _NEW * (width - read - written)


def to_text(runs: Sequence[SavedRun]) -> str:
    """Return a run and all below it as text."""
    splits = [Split.of(request) for run in runs for request in run.requests]
    longest = max((split.total for split in splits if split is not None), default=1)
    lines = [f"task: {one_line(runs[0].prompt, 200)}", LEGEND]
    for run in runs:
        lines += ["", *_run_lines(run, longest)]
    return "\n".join(lines)


def to_json(runs: Sequence[SavedRun]) -> dict[str, Any]:
    """Return a run and all below it as a JSON object."""
    report = CacheReport.of(request for run in runs for request in run.requests)
    return {
        "run_id": runs[0].run_id,
        "session": runs[0].session,
        "status": runs[0].status,
        "cache": report.to_json(),
        "runs": [_run_json(run) for run in runs],
    }


def said_by(run: SavedRun) -> list[AssistantMessage]:
    """Return the model's turns of a run, in order; what it said in a summary is none."""
    return [message for message in messages_of(run) if isinstance(message, AssistantMessage)]


def _run_lines(run: SavedRun, longest: int) -> Iterator[str]:
    report = CacheReport.of(run.requests)
    money = report.total.money
    cost = "" if money is None else f"  {usd_text(money.cost)}"
    yield f"{'/'.join(run.path)}  {run.status}  {run.total_s:.1f} s{cost}  run {run.run_id}"
    turns = said_by(run)
    are_paired = len(turns) == len(run.requests)
    for index, request in enumerate(run.requests):
        said = _said(turns[index]) if are_paired else ""
        if request.agent:  # who goes on after a handoff
            said = f"{request.agent} {said}"
        yield f"  {index + 1:>3}  {_request_text(request, longest)}  {said}".rstrip()
        yield from _verdict_lines(request)
    if not are_paired:
        yield f"       {len(turns)} turns: {'; '.join(map(_said, turns))}"
    if run.end is not None:
        has_failed = run.end.error is not None
        ended = one_line(run.end.text if run.end.error is None else run.end.error, 100)
        how = run.status if has_failed else "answer"
        yield f"       {how}: {ended}"
    elif run.open_turn is not None:
        for call in run.open_turn.message.calls:
            if call.id not in run.open_turn.results:
                waits = "waits for a person" if call.id in run.open_turn.waiting else "not done"
                yield f"       {call.name} {one_line(call.arguments, 60)}: {waits}"


def _request_text(request: RequestRecord, longest: int) -> str:
    split, usage = Split.of(request), request.usage
    if split is None:
        numbers = f"{'':<{_BAR}}  {'tokens unknown':>17}"
    else:
        share = split.read / split.total if split.total else 0.0
        numbers = f"{split.bar(longest):<{_BAR}}  {split.total:>9,} {share_text(share):>4} read"
    output = "?" if usage.output_tokens is None else f"{usage.output_tokens:,}"
    ttft = request.timing.ttft_s
    first = "" if ttft is None else f"  {ttft * 1000:,.0f} ms"
    return f"{numbers} {output:>6} out{first}{_cost(request)}"


def _cost(request: RequestRecord) -> str:
    if request.verdict is None:
        return ""
    cost = request.verdict.cost
    return "  cost unknown" if cost is None else f"  {dollars(cost.total)}"


def _verdict_lines(request: RequestRecord) -> Iterator[str]:
    shortfall = None if request.verdict is None else request.verdict.shortfall
    if shortfall is not None:
        cause = shortfall.cause.value.replace("_", " ")
        lost = f", {shortfall.lost_tokens:,} tokens lost" if shortfall.lost_tokens else ""
        yield f"       {cause}{lost}: {one_line(shortfall.detail, 600)}"


def _said(turn: AssistantMessage) -> str:
    if turn.calls:
        return f"calls {', '.join(call.name for call in turn.calls)}"
    return f"says {one_line(turn.text, 40)!r}"


def _run_json(run: SavedRun) -> dict[str, Any]:
    end = run.end
    return {
        "run_id": run.run_id,
        "parent": run.parent,
        "call_id": run.call_id,
        "path": list(run.path),
        "status": run.status,
        "user": run.user,
        "tenant": run.tenant,
        "prompt": run.prompt,
        "turn": run.turn + 1,
        "began_at": run.began_at,
        "total_s": run.total_s,
        "answer": None if end is None or end.error is not None else end.text,
        "error": None if end is None else end.error,
        "requests": [_request_json(request) for request in run.requests],
        "open_results": _open_results(run),
        "messages": [message_to_json(message) for message in messages_of(run)],
    }


def _open_results(run: SavedRun) -> list[dict[str, Any]]:
    """Return the results that calls of the last turn have already, while others have none."""
    results = () if run.open_turn is None else run.open_turn.results.values()
    return [
        {"call_id": each.call_id, "content": each.content, "is_error": each.is_error}
        for each in results
    ]


def _request_json(request: RequestRecord) -> dict[str, Any]:
    verdict = request.verdict
    shortfall = None if verdict is None else verdict.shortfall
    return {
        "model": request.model,
        "epoch": request.epoch,
        "input_tokens": request.usage.input_tokens,
        "cache_read_tokens": request.usage.cache_read_tokens,
        "cache_write_tokens": request.usage.cache_write_tokens,
        "output_tokens": request.usage.output_tokens,
        "ttft_s": request.timing.ttft_s,
        "total_s": request.timing.total_s,
        "cost_usd": None if verdict is None or verdict.cost is None else _usd(verdict.cost.total),
        "uncached_usd": None if verdict is None else _usd(verdict.uncached_cost),
        "cause": None if shortfall is None else shortfall.cause.value,
        "lost_tokens": 0 if shortfall is None else shortfall.lost_tokens,
        "detail": None if shortfall is None else shortfall.detail,
    }


def _usd(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:f}"
