"""The engine core: one `step()` plans, runs, samples and commits. Synchronous and deterministic.

`engine.Engine` drives it from a thread; tests drive it by hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from agentkit_runtime.attention.base import ForwardBatch
from agentkit_runtime.attention.plan import Lane, build_plan, lane_order
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.model.sampler import Sampler
from agentkit_runtime.sched import sequence as sequences
from agentkit_runtime.sched.scheduler import Scheduler, SchedulerOptions
from agentkit_runtime.sched.sequence import Chunk, Ended
from agentkit_runtime.types import Delta, EngineEvent, Finished, FinishReason, GenerateRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreStats:
    """A snapshot of the engine. Slots: free + cached + held = total."""

    running: int
    waiting: int
    total_slots: int
    free_slots: int
    cached_slots: int
    """In the radix tree and not locked: reusable, and evictable."""
    steps: int
    computed_tokens: int
    """Tokens that went through the model since start."""
    prompt_tokens: int
    """Prompt tokens of admitted requests since start."""
    hit_tokens: int
    """Of these, read from the radix tree."""
    preemptions: int

    @property
    def held_slots(self) -> int:
        """Slots that running requests hold, alone or through a lock on the tree."""
        return self.total_slots - self.free_slots - self.cached_slots


@dataclass(slots=True)
class _Counters:
    steps: int = 0
    computed: int = 0
    prompt: int = 0
    hit: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """What a live request needs beside its scheduler state."""

    sequence: sequences.Sequence
    sampler: Sampler
    emit: Callable[[EngineEvent], None]


@dataclass(slots=True)
class _Output:
    """Collects what one step adds to one request."""

    text: str = ""
    ids: list[int] = field(default_factory=list)
    reason: FinishReason | None = None
    stopped: bool = False
    """A stop string was completed: what is held back is part of it."""


class EngineCore:
    """Owns the decoder, the KV pool and the scheduler. Used by one thread only."""

    def __init__(
        self,
        *,
        decoder: Decoder,
        storage: KvStorage,
        cache: KvCache,
        options: SchedulerOptions | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._decoder = decoder
        self._storage = storage
        self.cache = cache
        self._clock = clock
        self.scheduler = Scheduler(cache, options or SchedulerOptions(), clock)
        self._runs: dict[str, _Run] = {}
        self._arrivals = 0
        self._counters = _Counters()

    @property
    def idle(self) -> bool:
        """True when no request is pending."""
        return not self._runs

    def check(self, request: GenerateRequest) -> None:
        """Raise RequestRejected when the request can never run here."""
        config = self._decoder.config
        n_prompt = len(request.prompt)
        if not request.prompt:
            raise RequestRejected("the prompt has no tokens", field="prompt")
        bound = min(config.max_position, self.cache.n_slots)
        if n_prompt >= bound:
            raise RequestRejected(
                f"the prompt has {n_prompt} tokens; the limit is {bound - 1} "
                f"(context {config.max_position}, KV slots {self.cache.n_slots})",
                field="prompt",
            )
        worst = max(request.prompt)
        if min(request.prompt) < 0 or worst >= config.vocab:
            raise RequestRejected(
                f"token ids must be in [0, {config.vocab}), got {worst}", field="prompt"
            )

    def add(self, request: GenerateRequest, emit: Callable[[EngineEvent], None]) -> None:
        """Queue a request that passed `check`. `emit` gets its events; `Finished` is the last."""
        sequence = sequences.Sequence.start(
            request,
            arrival=self._arrivals,
            now_s=self._clock(),
            max_length=min(self._decoder.config.max_position, self.cache.n_slots),
        )
        self._arrivals += 1
        if request.request_id in self._runs:
            message = f"request id {request.request_id!r} is already running"
            stats = sequence.stats(self._clock())
            emit(Finished(reason=FinishReason.ERROR, stats=stats, error=message))
            return
        self._runs[request.request_id] = _Run(sequence, Sampler(request.sampling), emit)
        self.scheduler.add(sequence)

    def abort(self, request_id: str) -> None:
        """End a request at the start of the next step; unknown ids are ignored."""
        run = self._runs.get(request_id)
        if run is not None:
            run.sequence.aborted = True

    @torch.inference_mode()
    def step(self) -> None:
        """Run one step. Afterwards every slot is accounted for, whatever happened to a request."""
        chunks, ended = self.scheduler.plan()
        for gone in ended:
            self._end(gone)
        if not chunks:
            return
        lanes = [_lane(chunk) for chunk in chunks]
        order = lane_order(lanes)
        chunks, lanes = [chunks[i] for i in order], [lanes[i] for i in order]
        self._counters.steps += 1
        self._counters.computed += sum(chunk.n for chunk in chunks)
        try:
            logits = self._forward(chunks, lanes)
        except Exception as error:  # a step that failed must not leave its requests hanging
            self._fail_all(chunks, error)
            return
        for chunk in chunks:
            self.scheduler.commit(chunk)
        sampled = [chunk for chunk in chunks if chunk.samples]
        for row, chunk in enumerate(sampled):
            self._extend(chunk, logits[row])

    def fail_pending(self, message: str) -> None:
        """End every request with an error (the engine is closing)."""
        for run in list(self._runs.values()):
            self.scheduler.drop(run.sequence)
            self._end(Ended(run.sequence, FinishReason.ERROR, message))

    def stats(self) -> CoreStats:
        """Return a snapshot."""
        return CoreStats(
            running=len(self.scheduler.running),
            waiting=len(self.scheduler.waiting),
            total_slots=self.cache.n_slots,
            free_slots=self.cache.free_slots,
            cached_slots=self.cache.evictable_slots,
            steps=self._counters.steps,
            computed_tokens=self._counters.computed,
            prompt_tokens=self._counters.prompt,
            hit_tokens=self._counters.hit,
            preemptions=self.scheduler.n_preemptions,
        )

    # -- one step ------------------------------------------------------------------------------

    def _forward(self, chunks: Sequence[Chunk], lanes: Sequence[Lane]) -> Tensor:
        """Return logits [R, vocab], one row for each chunk that samples, in order."""
        device = self._storage.device
        ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        logit_rows: list[int] = []
        for chunk, lane in zip(chunks, lanes, strict=True):
            ids += chunk.sequence.ids(chunk.start, chunk.start + chunk.n)
            positions += range(chunk.start, chunk.start + chunk.n)
            for extent in lane.own:
                slots += range(extent.start, extent.end)
            if chunk.samples:
                logit_rows.append(len(ids) - 1)
        batch = ForwardBatch(
            token_ids=torch.tensor(ids, device=device),
            positions=torch.tensor(positions, device=device),
            slots=torch.tensor(slots, device=device),
            logit_rows=torch.tensor(logit_rows, dtype=torch.int64, device=device),
            plan=build_plan(lanes),
        )
        return self._decoder.forward(batch, self._storage)

    def _extend(self, chunk: Chunk, logits: Tensor) -> None:
        """Sample after a chunk that reached the end of what was known."""
        run = self._runs[chunk.sequence.request.request_id]
        output = _Output()
        try:
            self._generate(run, logits, output)
        except Exception as error:  # one bad request must not take the batch down
            self.scheduler.drop(run.sequence)
            self._end(Ended(run.sequence, FinishReason.ERROR, f"{type(error).__name__}: {error}"))
            return
        if run.sequence.first_token_s is None:
            run.sequence.first_token_s = self._clock()
        if output.reason is not None and not output.stopped:
            output.text += run.sequence.request.text.finish()
        run.emit(Delta(output.text, tuple(output.ids)))
        if output.reason is not None:
            self.scheduler.finish(run.sequence)
            self._end(Ended(run.sequence, output.reason))

    def _generate(self, run: _Run, logits: Tensor, output: _Output) -> None:
        """Choose a token, then take those that the grammar forces."""
        grammar = run.sequence.request.grammar
        if grammar is not None:
            grammar.apply(logits)
        token = run.sampler.choose(logits)
        self._accept(run, token, output)
        if grammar is None:
            return
        while output.reason is None and (forced := grammar.forced()):
            for token in forced:
                self._accept(run, token, output)
                if output.reason is not None:
                    return

    def _accept(self, run: _Run, token: int, output: _Output) -> None:
        sequence, request = run.sequence, run.sequence.request
        sequence.append(token)
        output.ids.append(token)
        if token in request.eos_ids:
            output.reason = FinishReason.STOP
            return
        if request.grammar is not None:
            request.grammar.accept(token)
        delta = request.text.push(token)
        output.text += delta.text
        output.stopped = delta.stopped
        if delta.stopped or (request.grammar is not None and request.grammar.done):
            output.reason = FinishReason.STOP
        elif sequence.length >= sequence.limit:
            output.reason = FinishReason.LENGTH

    # -- bookkeeping ---------------------------------------------------------------------------

    def _end(self, gone: Ended) -> None:
        run = self._runs.pop(gone.sequence.request.request_id)
        stats = gone.sequence.stats(self._clock())
        self._counters.prompt += stats.prompt_tokens
        self._counters.hit += stats.cached_tokens
        run.emit(Finished(reason=gone.reason, stats=stats, error=gone.error))

    def _fail_all(self, chunks: Sequence[Chunk], error: Exception) -> None:
        for chunk in chunks:
            self.scheduler.drop(chunk.sequence)
            message = f"the step failed: {type(error).__name__}: {error}"
            self._end(Ended(chunk.sequence, FinishReason.ERROR, message))


def _lane(chunk: Chunk) -> Lane:
    lease = chunk.sequence.lease
    assert lease is not None, "a running sequence holds a lease"
    past: tuple[Extent, ...] = tuple(lease.extents_for(0, chunk.start))
    own: tuple[Extent, ...] = tuple(lease.extents_for(chunk.start, chunk.n))
    return Lane(past=past, position=chunk.start, n_new=chunk.n, own=own)
