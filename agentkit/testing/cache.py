"""What a provider's cache would make of a run: its requests, planned and served by a simulator.

No key, no network and no SDK. The plan is the one that the provider's requests would have, and what
is missed is explained as it would be there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentkit.caching.report import CacheReport, RequestRecord
from agentkit.events import CacheEvent, ModelEnd, ModelEvent, UsageEvent
from agentkit.models.base import ModelRequest
from agentkit.models.doubles import ModelCall
from agentkit.testing.capture import Runs, captured_of
from agentkit.usage import Timing, Usage

if TYPE_CHECKING:
    from agentkit.caching.plan.plan import CachePlan
    from agentkit.caching.policy import InputSplit, Provider
    from agentkit.caching.times import VirtualTime
    from agentkit.caching.verdict import Verdict
    from agentkit.models.hosted.model import HostedModel
    from agentkit.models.hosted.wire import Body, Layout


def assert_cache(
    runs: Runs,
    hit_ratio: float = 0.9,
    *,
    provider: str = "anthropic",
    gap_s: float = 10.0,
    at: datetime | None = None,
) -> CacheReport:
    """Check what share of their prompts runs would read from a provider's cache.

        assert_cache(result, hit_ratio=0.6)
        assert_cache([first, second, third], hit_ratio=0.9, provider="openai:gpt-6.1-sol")

    The requests are made again, one after the other, with the adapter, the planner and the
    simulated cache of that provider. The cache is empty at first. As everywhere, the hit ratio is
    over *all* input: the first request reads nothing, so a short run cannot come far. What the best
    cache would have reached is in the error.

    Args:
        runs: a result, record or stream, or several in their order; what `capture` gave; or
            `ScriptedModel.calls`.
        hit_ratio: least share of all input tokens that must be read, 0 to 1.
        provider: `anthropic`, `openai`, `deepseek`, `gemini` or another prefix of a model string;
            or a whole one.
        gap_s: seconds between two requests. Lifetimes are reckoned with it, and what some caches
            take until an entry can be read.
        at: when the first one is made; the rules of that day hold. Now, by default.

    Returns:
        What the cache did, for more assertions.

    Raises:
        AssertionError: less was read. It names each cause, segment and source line, as far as
            something was lost.
        UnknownModel: no such provider.
        ConfigurationError: the provider would refuse a request.
    """
    if not 0 <= hit_ratio <= 1:
        raise ValueError(f"hit_ratio must be from 0 to 1, got {hit_ratio!r}")
    calls, _ = captured_of(runs)
    if not calls:
        raise AssertionError("the capture holds no request: nothing was asked inside it")
    model = _simulated(provider)
    replay = _Replay(model, [call.request for call in calls], gap_s, at or datetime.now(UTC))
    records = _done(replay)
    report = CacheReport.of(_by_run(records))
    ratio = report.hit_ratio or 0.0
    if ratio < hit_ratio:
        raise AssertionError(_explained(report, records, hit_ratio, calls, model.label))
    return report


def _explained(
    report: CacheReport,
    records: Sequence[RequestRecord],
    wanted: float,
    calls: Sequence[ModelCall],
    label: str,
) -> str:
    best = _best_ratio(calls, records)
    lines = [
        f"{label} would read {report.hit_ratio or 0.0:.1%} of the input, and not {wanted:.1%}; a "
        f"cache that loses nothing would read {best:.1%} of it"
    ]
    for number, record in enumerate(records, 1):
        verdict = record.verdict
        if verdict is not None and verdict.shortfall is not None:
            lines.append(f"  request {number}, {'/'.join(record.path)}: {_why(verdict)}")
    if len(lines) == 1:
        lines.append("  nothing was lost: the requests share no more than that")
    return "\n".join(lines) + f"\n\n{report}"


def _why(verdict: Verdict) -> str:
    shortfall = verdict.shortfall
    assert shortfall is not None, "only shortfalls are explained"
    found = shortfall.difference
    place = ""
    if found is not None:
        source = f", from {found.source}" if found.source else ""
        place = f" [segment {found.segment}, byte {found.byte}{source}]"
    return f"{shortfall.cause}, {shortfall.lost_tokens:,} tokens: {shortfall.detail}{place}"


def _best_ratio(calls: Sequence[ModelCall], records: Sequence[RequestRecord]) -> float:
    """Return what a cache would read that is never late and loses nothing.

    It reads whole segments. The share of each request is that of the bytes, its tokens are those
    of the simulated provider, which may read a part of a segment too.
    """
    from agentkit.models.doubles import PerfectCache

    cache = PerfectCache()
    total = best = 0.0
    for call, record in zip(calls, records, strict=True):
        n_input, n_read = record.usage.input_tokens or 0, record.usage.cache_read_tokens or 0
        total += n_input
        best += max(n_read, n_input * (cache.count(call.request).hit_ratio or 0.0))
    return best / total if total else 0.0


def _by_run(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """Return the records run by run, as reports have them."""
    runs: dict[str, list[RequestRecord]] = {}
    for record in records:
        runs.setdefault(record.run_id, []).append(record)
    return [record for run in runs.values() for record in run]


def _done(replay: _Replay) -> list[RequestRecord]:
    """Do the work in a loop of its own, also where the caller's thread runs one."""
    done: list[list[RequestRecord] | BaseException] = []

    def work() -> None:
        try:
            done.append(asyncio.run(replay.records()))
        except BaseException as error:
            done.append(error)

    thread = threading.Thread(target=work, name="assert_cache")
    thread.start()
    thread.join()
    if isinstance(done[0], BaseException):
        raise done[0]
    return done[0]


@dataclass(frozen=True, slots=True)
class _Replay:
    model: HostedModel[Any]
    requests: Sequence[ModelRequest]
    gap_s: float
    at: datetime

    async def records(self) -> list[RequestRecord]:
        """Make the requests, one after the other."""
        from agentkit.caching.times import VirtualTime
        from agentkit.models.hosted.model import HostedModel

        time = VirtualTime(self.at)
        adapter = _Simulator(self.model, time)
        model = HostedModel(adapter, cache=self.model.cache, time=time)
        records = []
        for index, request in enumerate(self.requests):
            following = self.requests[index + 1 :]
            adapter.next_of_run = next(
                (each for each in following if each.run_id == request.run_id), None
            )
            records.append(await time.drive(_asked(model, request)))
            time.jump(time.now() + timedelta(seconds=self.gap_s))
        return records


async def _asked(model: HostedModel[Any], request: ModelRequest) -> RequestRecord:
    usage, verdict = Usage(), None
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if isinstance(event, UsageEvent):
                usage = event.usage
            elif isinstance(event, CacheEvent):
                verdict = event.verdict
    return RequestRecord(
        path=(request.agent,),
        model=model.label,
        usage=usage,
        timing=Timing(),
        verdict=verdict,
        run_id=request.run_id,
        session=request.session,
        tenant=request.tenant,
        epoch=request.epoch,
    )


class _Simulator:
    """A provider's adapter whose requests are served by a simulated cache."""

    def __init__(self, model: HostedModel[Any], time: VirtualTime) -> None:
        from agentkit.caching.track.shadow import PolicyBook, shadow_of

        self._adapter = model.adapter
        policies = PolicyBook(
            self._adapter.provider,
            self._adapter.model,
            platform=model.cache.platform,
            switches=model.cache.switches,
            prices=model.cache.prices,
        )
        self._cache = shadow_of(policies, clock=time)
        self._planned: tuple[Layout, CachePlan] | None = None
        self.next_of_run: ModelRequest | None = None

    @property
    def label(self) -> str:
        """That of the provider's adapter."""
        return self._adapter.label

    @property
    def provider(self) -> Provider:
        """Whose rules hold."""
        return self._adapter.provider

    @property
    def model(self) -> str:
        """The provider's name of the model."""
        return self._adapter.model

    def layout(self, request: ModelRequest) -> Layout:
        """Return the request's pieces."""
        layout: Layout = self._adapter.layout(request)
        return layout

    def body(self, layout: Layout, plan: CachePlan, request: ModelRequest) -> Body:
        """Return the final bytes, so that what an adapter refuses is refused here, too."""
        self._planned = layout, plan
        body: Body = self._adapter.body(layout, plan, request)
        return body

    async def stream(self, body: Body) -> AsyncGenerator[ModelEvent, None]:
        """Serve the request that was planned last."""
        from agentkit.caching.simulate import Refused
        from agentkit.errors import ConfigurationError
        from agentkit.models.hosted.replayed import reply_blocks

        del body
        assert self._planned is not None, "a body is made before it is sent"
        layout, plan = self._planned
        if plan.cached_front is not None:  # a request that uses an object leaves nothing behind
            yield UsageEvent(usage=_usage(plan.predicted.split, 0))
        else:
            output = (
                ()
                if self.next_of_run is None
                else reply_blocks(layout, self.layout(self.next_of_run))
            )
            n_output = sum(block.n_tokens for block in output)
            request = plan.applied(layout.cache_request)
            served = self._cache.request(request, output_tokens=n_output, output=output)
            if isinstance(served, Refused):
                raise ConfigurationError(f"{self.label} would refuse this: {served.message}")
            yield UsageEvent(usage=_usage(served.split, n_output))
        yield ModelEnd("stop")

    async def touch(self, body: Body) -> ModelEvent | None:
        """Nothing is kept alive: no tool runs while requests are made again."""
        del body
        return None


def _usage(split: InputSplit, n_output: int) -> Usage:
    from agentkit.caching.policy import Ttl

    return Usage(
        input_tokens=split.total,
        cache_read_tokens=split.read,
        cache_write_tokens=split.written,
        cache_write_long_tokens=split.wrote(Ttl.ONE_HOUR),
        output_tokens=n_output,
    )


def _simulated(provider: str) -> HostedModel[Any]:
    from agentkit.errors import UnknownModel
    from agentkit.models.hosted.resolve import EXAMPLES, make_model

    prefix, _, rest = provider.partition(":")
    usual = {each.partition(":")[0]: each.partition(":")[2] for each in EXAMPLES}
    model = make_model(prefix, rest or usual.get(prefix, ""))
    if model is None:
        raise UnknownModel(f"no provider {provider!r}; there are {sorted(usual)!r}")
    return model
