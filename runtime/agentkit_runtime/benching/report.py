"""What a run has measured: a document for scripts, a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentkit_runtime.benching.asking import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of some times: how many, and percentiles in seconds."""

    n: int
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """One server under one workload. A hit has at least half of its prompt cached.

    What the server does not tell is None.
    """

    url: str
    model: str
    seconds: float
    answers: int
    errors: dict[str, int]
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    hit_ratio: float | None
    """Of prompt tokens, those read from the cache."""
    tokens_per_s: float | None
    """Generated ones, of all answers together."""
    answers_per_s: float
    ttft: Spread | None
    ttft_hit: Spread | None
    ttft_miss: Spread | None
    itl: Spread | None
    """Between two pieces of an answer."""
    latency: Spread | None
    """From sending a request to the end of its answer."""


def report(
    url: str,
    model: str,
    answers: Sequence[Answered],
    failures: Mapping[str, int],
    seconds: float,
) -> ServerReport:
    """Sum up what clients have seen in so many seconds."""
    prompt = _total([answer.prompt_tokens for answer in answers])
    cached = _total([answer.cached_tokens for answer in answers])
    generated = _total([answer.completion_tokens for answer in answers])
    return ServerReport(
        url=url,
        model=model,
        seconds=seconds,
        answers=len(answers),
        errors=dict(failures),
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=generated,
        hit_ratio=None if cached is None or not prompt else cached / prompt,
        tokens_per_s=None if generated is None else generated / max(seconds, 1e-9),
        answers_per_s=len(answers) / max(seconds, 1e-9),
        ttft=spread([answer.ttft_s for answer in answers]),
        ttft_hit=spread([answer.ttft_s for answer in answers if _is_hit(answer) is True]),
        ttft_miss=spread([answer.ttft_s for answer in answers if _is_hit(answer) is False]),
        itl=spread([gap for answer in answers for gap in answer.gaps_s]),
        latency=spread([answer.seconds for answer in answers]),
    )


def spread(values: Sequence[float]) -> Spread | None:
    """Percentiles; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    p50, p90, p99 = (_percentile(ordered, share) for share in (0.5, 0.9, 0.99))
    return Spread(n=len(ordered), p50=p50, p90=p90, p99=p99)


def table(reports: Sequence[ServerReport]) -> list[str]:
    """Lines that show servers side by side; times in milliseconds."""
    rows = [["", *(report.url for report in reports)]]
    columns = [dict(_cells(report)) for report in reports]
    rows += [[name, *(column[name] for column in columns)] for name in columns[0]]
    for error in sorted({error for report in reports for error in report.errors}):
        rows.append([f"error: {error}", *(str(report.errors.get(error, 0)) for report in reports)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in rows
    ]


def _cells(report: ServerReport) -> Iterator[tuple[str, str]]:
    yield "model", report.model
    yield "answers", str(report.answers)
    yield "errors", str(sum(report.errors.values()))
    yield "seconds", f"{report.seconds:.1f}"
    yield "prompt tokens", _number(report.prompt_tokens)
    yield "hit ratio", "-" if report.hit_ratio is None else f"{report.hit_ratio:.3f}"
    yield "tokens/s", "-" if report.tokens_per_s is None else f"{report.tokens_per_s:.1f}"
    yield "answers/s", f"{report.answers_per_s:.2f}"
    for name, times in (
        ("first token", report.ttft),
        ("  hits", report.ttft_hit),
        ("  misses", report.ttft_miss),
        ("between tokens", report.itl),
        ("whole answer", report.latency),
    ):
        yield f"{name}, n", "-" if times is None else str(times.n)
        for share in ("p50", "p90", "p99"):
            value = None if times is None else float(getattr(times, share))
            yield f"{name}, {share} ms", "-" if value is None else f"{1000 * value:.1f}"


def _is_hit(answer: Answered) -> bool | None:
    if answer.cached_tokens is None or answer.prompt_tokens is None:
        return None
    return 2 * answer.cached_tokens >= answer.prompt_tokens


def _total(values: Sequence[int | None]) -> int | None:
    """A sum; None if nobody told."""
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between closest ranks (Hyndman and Fan's type 7)."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
