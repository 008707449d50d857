"""What the server did, second by second: a ring of samples for dashboards."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from agentkit_runtime.api.admin.wire import SampleDocument
from agentkit_runtime.checks import require_number, require_whole
from agentkit_runtime.stats import CoreStats


class Sampler:
    """Takes a sample each `period_s` in a thread of its own, and keeps the last `keep` of them.

    Use it as a context manager, or call `sample` by hand. It only reads the snapshot that the
    engine leaves after each step, and so never waits for the engine.
    """

    def __init__(
        self,
        stats: Callable[[], CoreStats],
        *,
        clock: Callable[[], float] = time.time,
        period_s: float = 1.0,
        keep: int = 900,
    ) -> None:
        """`clock` gives Unix seconds."""
        require_number("period_s", period_s, least=0.01)
        require_whole("keep", keep, least=1)
        self._stats = stats
        self._clock = clock
        self._period_s = period_s
        self._ring: deque[SampleDocument] = deque(maxlen=keep)
        self._lock = threading.Lock()
        self._before, self._before_s = stats(), clock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agentkit-sampler", daemon=True)

    def sample(self) -> SampleDocument:
        """Take one now."""
        with self._lock:
            now, now_s = self._stats(), self._clock()
            sample = _between(self._before, now, time_s=now_s, interval_s=now_s - self._before_s)
            self._before, self._before_s = now, now_s
            self._ring.append(sample)
            return sample

    def since(self, time_s: float, most: int) -> list[SampleDocument]:
        """The latest samples that are younger than `time_s`, at most `most`, oldest first."""
        with self._lock:
            young = [sample for sample in self._ring if sample["time_s"] > time_s]
        return young[len(young) - min(most, len(young)) :]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._period_s):
            self.sample()


def _between(
    before: CoreStats, now: CoreStats, *, time_s: float, interval_s: float
) -> SampleDocument:
    tiers = now.tiers
    return {
        "time_s": time_s,
        "interval_s": interval_s,
        "running": now.running,
        "waiting": now.waiting,
        "free": now.free_slots,
        "cached": now.cached_slots,
        "held": now.held_slots,
        "pinned": now.pinned_tokens,
        "host_blocks": 0 if tiers is None else tiers.host_blocks,
        "disk_blocks": 0 if tiers is None else tiers.disk_blocks,
        "prompt_tokens": now.prompt_tokens - before.prompt_tokens,
        "hit_tokens": now.hit_tokens - before.hit_tokens,
        "prefill_tokens": now.prefill_tokens - before.prefill_tokens,
        "generated_tokens": now.generated_tokens - before.generated_tokens,
        "evicted_tokens": now.evicted_tokens - before.evicted_tokens,
        "lost_tokens": now.lost_tokens - before.lost_tokens,
        "warm_requests": now.warm_requests - before.warm_requests,
        "warm_ttft_s": now.warm_ttft_s - before.warm_ttft_s,
        "cold_requests": now.cold_requests - before.cold_requests,
        "cold_ttft_s": now.cold_ttft_s - before.cold_ttft_s,
    }
