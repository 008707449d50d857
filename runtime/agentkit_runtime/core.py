"""The engine core: one `step()` plans, runs, samples and commits. Synchronous and deterministic.

`engine.Engine` drives it from a thread; tests drive it by hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import torch

from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.generation.batch import StepBatch, build_batch
from agentkit_runtime.generation.poison import first_bad_position
from agentkit_runtime.generation.rows import LogitRows
from agentkit_runtime.generation.run import Run
from agentkit_runtime.generation.shortage import MAX_SPLITS, StepFailure
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.sched import sequence as sequences
from agentkit_runtime.sched.scheduler import Scheduler, SchedulerOptions
from agentkit_runtime.sched.sequence import Chunk, Ended
from agentkit_runtime.stats import CoreStats, Counters, note_prefill
from agentkit_runtime.types import Delta, EngineEvent, Finished, FinishReason, GenerateRequest

__all__ = ["CoreStats", "EngineCore"]


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
        check_every_step: bool = False,
    ) -> None:
        """`check_every_step` runs `check_integrity` after each step: for tests, it is slow."""
        self._decoder = decoder
        self._storage = storage
        self.cache = cache
        self._clock = clock
        self.scheduler = Scheduler(cache, options or SchedulerOptions(), clock)
        self._check_every_step = check_every_step
        self._runs: dict[str, Run] = {}
        self._arrivals = 0
        self._counters = Counters()

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
        try:
            pack(request.prompt)
        except (TypeError, OverflowError) as error:
            raise RequestRejected(f"token ids must be int32: {error}", field="prompt") from error
        # Without a token to generate, the prompt may take all of it.
        room = 0 if request.sampling.max_tokens == 0 else 1
        bound = min(config.max_position, self.cache.n_slots) - room
        if n_prompt > bound:
            raise RequestRejected(
                f"the prompt has {n_prompt} tokens; the limit is {bound} "
                f"(context {config.max_position}, KV slots {self.cache.n_slots})",
                field="prompt",
            )
        least, most = min(request.prompt), max(request.prompt)
        if least < 0 or most >= config.vocab:
            wrong = least if least < 0 else most
            raise RequestRejected(
                f"token ids must be in [0, {config.vocab}), got {wrong}", field="prompt"
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
        self._runs[request.request_id] = Run(sequence, emit)
        self.scheduler.add(sequence)

    def left_to_compute(self, request_id: str) -> int:
        """Known tokens of a request that are not cached; of an unknown id, 0.

        Of one that waits that is what the tree said when it came.
        """
        run = self._runs.get(request_id)
        if run is None:
            return 0
        return max(0, run.sequence.length - max(run.sequence.matched, run.sequence.computed))

    def abort(self, request_id: str) -> None:
        """End a request at the start of the next step; unknown ids are ignored."""
        run = self._runs.get(request_id)
        if run is not None:
            run.sequence.aborted = True

    @torch.inference_mode()
    def step(self) -> bool:
        """Run one step. Afterwards every slot is accounted for, whatever happened to a request.

        Returns:
            False when there was nothing to compute: all requests wait for something else.
        """
        chunks, ended = self.scheduler.plan()
        for gone in ended:
            self._leave(gone)
        if chunks:
            began = self._clock()
            whole = self._run(chunks)
            seconds = self._clock() - began
            self._counters.count_step(chunks, seconds)
            self.scheduler.note_step(chunks, seconds)
            if whole and self.cache.tiers is not None:
                note_prefill(self.cache.tiers, chunks, seconds)
        if self._check_every_step:
            self.check_integrity()
        return bool(chunks)

    def fail_pending(self, message: str) -> None:
        """End every request with an error (the engine is closing)."""
        for run in list(self._runs.values()):
            self._fail(run.sequence, message)

    def check_integrity(self) -> None:
        """Check every invariant of tree, pool and sequences; to be called between steps.

        Takes time proportional to the tree. Raises IntegrityError and names what is wrong.
        """
        leases = [s.lease for s in self.scheduler.running if s.lease is not None]
        self.cache.check_integrity(leases)

    def stats(self) -> CoreStats:
        """Return a snapshot."""
        return self._counters.snapshot(
            self.cache, self.scheduler, attention=self._decoder.attention.stats
        )

    # -- one step ------------------------------------------------------------------------------

    def _run(self, chunks: Sequence[Chunk], *, depth: int = 0) -> bool:
        """Compute chunks, commit them, and hand out what was chosen behind them.

        A step that fails is run again in two parts, and these again, until what fails is one
        request alone, or what is left would not fit into any memory. Returns True when it went
        well at once.
        """
        failure = self._try(chunks)
        if failure is None:
            return True
        parts = failure.parts(chunks) if depth < MAX_SPLITS else ()
        if not parts:
            for sequence in {id(chunk.sequence): chunk.sequence for chunk in chunks}.values():
                self._fail(sequence, f"the step failed: {failure.text}")
        self._counters.split_steps += depth == 0 and bool(parts)
        for part in parts:
            # A sequence that failed in the first part is not there for the second.
            self._run([c for c in part if c.sequence.lease is not None], depth=depth + 1)
        return False

    def _try(self, chunks: Sequence[Chunk]) -> StepFailure | None:
        if not chunks:
            return None
        try:
            batch = build_batch(chunks, self._decoder.attention, self._storage.device)
            rows = LogitRows(self._decoder.forward(batch.forward, self._storage))
        except Exception as error:  # a step that failed must not leave its requests hanging
            return StepFailure.of(error)
        self._absorb(batch, rows)
        return None

    def _absorb(self, batch: StepBatch, rows: LogitRows) -> None:
        """Commit what was computed, then choose the next tokens."""
        good: list[tuple[Chunk, int | None]] = []
        for chunk, row in zip(batch.chunks, batch.first_rows, strict=True):
            if row is not None and not rows.finite(row):  # its KV must not reach the tree
                self._forget_poison(chunk.sequence)
                self._fail(chunk.sequence, "the model returned no finite logit for this request")
            else:
                self.scheduler.commit(chunk)
                good.append((chunk, row))
        for chunk, row in good:
            if chunk.completes:
                self.scheduler.finish(chunk.sequence)
                self._end(Ended(chunk.sequence, FinishReason.LENGTH))
            elif row is not None:
                self._extend(chunk, rows, row)

    def _extend(self, chunk: Chunk, rows: LogitRows, row: int) -> None:
        """Choose tokens after a chunk that reached the end of what was known."""
        sequence = chunk.sequence
        n_known = sequence.length
        run = self._runs[sequence.request.request_id]
        try:
            output = run.take(rows, row, chunk.draft)
            if output.reason is not None and not output.stopped:
                output.text += run.held_back()
            if output.reason is None:
                sequence.draft = run.draft(len(self.scheduler.running))
        except Exception as error:  # one bad request must not take the batch down
            sequence.forget(n_known)  # the caller does not get what this step chose
            self._fail(sequence, f"{type(error).__name__}: {error}")
            return
        if chunk.draft:
            agreed = output.agreed(chunk.draft)
            self.scheduler.accept(chunk, agreed)
            self._counters.accepted_tokens += agreed
        delta = output.delta
        if sequence.first_token_s is None:
            sequence.first_token_s = self._clock()
            delta = replace(delta, stats=sequence.stats(sequence.first_token_s))
        run.emit(delta)
        if output.reason is not None:
            self.scheduler.finish(sequence)
            self._end(Ended(sequence, output.reason))

    def _forget_poison(self, sequence: sequences.Sequence) -> None:
        """Take out of the tree what would spoil the next request with this prefix, too."""
        lease = sequence.lease
        assert lease is not None, "a running sequence holds a lease"
        extents = lease.extents_for(0, lease.committed)
        bad = first_bad_position(self._storage, self._decoder.config.n_layers, extents)
        if bad is not None:
            self.cache.forget_spoiled(lease, bad)

    # -- the end of a request ------------------------------------------------------------------

    def _leave(self, gone: Ended) -> None:
        """End a request that the scheduler took out; what it has to say is said."""
        run = self._runs[gone.sequence.request.request_id]
        if gone.reason in (FinishReason.LENGTH, FinishReason.DEADLINE):
            with suppress(Exception):  # it ends here in any case
                if text := run.held_back():
                    run.emit(Delta(text, ()))
        self._end(gone)

    def _fail(self, sequence: sequences.Sequence, message: str) -> None:
        """End a request with an error; nothing more of it is committed."""
        self.scheduler.drop(sequence)
        self._end(Ended(sequence, FinishReason.ERROR, message))

    def _end(self, gone: Ended) -> None:
        request = gone.sequence.request
        run = self._runs.pop(request.request_id)
        stats = gone.sequence.stats(self._clock())
        self._counters.count_end(stats, gone.reason, repeats_prompt=request.repeats_prompt)
        run.emit(Finished(reason=gone.reason, stats=stats, error=gone.error))
