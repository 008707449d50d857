"""A core around the tiny random model, one request at a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from agentkit_runtime.core import EngineCore
from agentkit_runtime.load import build_core
from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.types import (
    Delta,
    EngineEvent,
    Finished,
    GenerateRequest,
    RequestStats,
    SamplingParams,
    TokenLogprob,
)
from bench.tiny import TINY, Silent, tiny_decoder


class Driver:
    """Integrity is checked after every step."""

    def __init__(self, *, n_slots: int, max_lanes: int = 4) -> None:
        torch.set_num_threads(1)
        self.core: EngineCore = build_core(
            tiny_decoder(),
            n_slots=n_slots,
            options=SchedulerOptions(max_lanes=max_lanes),
            check_every_step=True,
        )
        self._ids = itertools.count()

    def ask(self, prompt: Sequence[int], n: int = 4, *, logprobs: int | None = None) -> Answer:
        """Run one request to its end."""
        events: list[EngineEvent] = []
        request = GenerateRequest(
            request_id=f"r{next(self._ids)}",
            prompt=tuple(prompt),
            namespace=b"ns",
            text=Silent(),
            sampling=SamplingParams(max_tokens=n, logprobs=logprobs),
        )
        self.core.check(request)
        self.core.add(request, events.append)
        while not self.core.idle:
            self.core.step()
        return Answer(events)


class Answer:
    """What a request gave."""

    def __init__(self, events: Sequence[EngineEvent]) -> None:
        deltas = [event for event in events if isinstance(event, Delta)]
        self.ids: list[int] = [i for delta in deltas for i in delta.token_ids]
        self.logprobs: list[TokenLogprob] = [p for delta in deltas for p in delta.logprobs]
        last = events[-1]
        assert isinstance(last, Finished)
        assert last.error is None
        self.stats: RequestStats = last.stats


def prompt(seed: int, n: int) -> list[int]:
    """`n` random tokens."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(TINY.vocab, (n,), generator=generator).tolist()
