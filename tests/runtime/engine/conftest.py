"""A tiny random model and a core around it, driven step by step."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from agentkit_runtime.attention.kernels import ReferenceKernels
from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.core import EngineCore
from agentkit_runtime.load import build_core
from agentkit_runtime.model.config import ModelConfig
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.model.linear import DenseMatrix
from agentkit_runtime.model.weights import DecoderWeights, LayerWeights
from agentkit_runtime.sched.scheduler import SchedulerOptions
from agentkit_runtime.types import (
    Delta,
    EngineEvent,
    Finished,
    GenerateRequest,
    SamplingParams,
    TextDelta,
    TokenLogprob,
)

VOCAB = 97


class IdText:
    """Shows a token as its number, so that tests can read it."""

    def __init__(self, stop_at: int | None = None) -> None:
        self._stop_at = stop_at

    def push(self, token_id: int) -> TextDelta:
        if token_id == self._stop_at:
            return TextDelta("", stopped=True)
        return TextDelta(f"{token_id} ")

    def finish(self) -> str:
        return ""


@dataclass
class Run:
    """What one request gave."""

    request_id: str
    events: list[EngineEvent] = field(default_factory=list)

    @property
    def ids(self) -> list[int]:
        return [i for e in self.events if isinstance(e, Delta) for i in e.token_ids]

    @property
    def text(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, Delta))

    @property
    def logprobs(self) -> list[TokenLogprob]:
        return [p for e in self.events if isinstance(e, Delta) for p in e.logprobs]

    @property
    def finished(self) -> Finished:
        last = self.events[-1]
        assert isinstance(last, Finished)
        return last


class Harness:
    """A core with helpers; its integrity is checked after every step."""

    def __init__(self, core: EngineCore) -> None:
        self.core = core
        self._ids = (f"r{i}" for i in itertools.count())

    def add(
        self,
        prompt: Sequence[int],
        n: int = 8,
        *,
        sampling: SamplingParams | None = None,
        stop_at: int | None = None,
        eos: frozenset[int] = frozenset(),
        **fields: Any,
    ) -> Run:
        """Queue a request; `fields` are those of `GenerateRequest`."""
        request = GenerateRequest(
            **{
                "request_id": next(self._ids),
                "prompt": tuple(prompt),
                "namespace": b"ns",
                "text": IdText(stop_at),
                "sampling": sampling or SamplingParams(max_tokens=n),
                "eos_ids": eos,
                **fields,
            }
        )
        return self.submit(request)

    def submit(self, request: GenerateRequest) -> Run:
        run = Run(request.request_id)
        self.core.check(request)
        self.core.add(request, run.events.append)
        return run

    def step(self) -> None:
        self.core.step()

    def drain(self, limit: int = 5000) -> None:
        for _ in range(limit):
            if self.core.idle:
                return
            self.step()
        raise AssertionError(f"not idle after {limit} steps")

    def generate(self, prompt: Sequence[int], n: int = 8, **options: Any) -> Run:
        """Run one request to its end; `options` as for `add`."""
        run = self.add(prompt, n, **options)
        self.drain()
        return run


def random_weights(
    config: ModelConfig, seed: int = 0, dtype: torch.dtype = torch.float32
) -> DecoderWeights:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return (torch.randn(*shape, generator=generator) * 0.2).to(dtype)

    qkv = (config.n_heads + 2 * config.n_kv_heads) * config.head_dim
    layers = tuple(
        LayerWeights(
            attn_norm=1 + draw(config.hidden),
            qkv=DenseMatrix(draw(qkv, config.hidden)),
            q_norm=None,
            k_norm=None,
            out=DenseMatrix(draw(config.hidden, config.n_heads * config.head_dim)),
            mlp_norm=1 + draw(config.hidden),
            gate_up=DenseMatrix(draw(2 * config.intermediate, config.hidden)),
            down=DenseMatrix(draw(config.hidden, config.intermediate)),
        )
        for _ in range(config.n_layers)
    )
    embed = DenseMatrix(draw(config.vocab, config.hidden) * 5)
    return DecoderWeights(
        embed=embed, layers=layers, final_norm=1 + draw(config.hidden), lm_head=embed
    )


TINY = ModelConfig(
    family="llama",
    n_layers=2,
    hidden=32,
    n_heads=4,
    n_kv_heads=2,
    head_dim=8,
    intermediate=48,
    vocab=VOCAB,
    rms_eps=1e-5,
    rope_theta=10000.0,
    max_position=400,
    tied_embeddings=True,
)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def decoder() -> Decoder:
    return Decoder(TINY, random_weights(TINY), SdpaAttention())


@pytest.fixture
def half() -> Callable[[torch.dtype, bool], Harness]:
    """Make a harness in a half-precision dtype; `reference`: with other devices' attention."""

    def build(dtype: torch.dtype, reference: bool) -> Harness:
        attention = SdpaAttention(kernels=ReferenceKernels() if reference else None)
        weights = random_weights(TINY, dtype=dtype)
        return Harness(
            build_core(
                Decoder(TINY, weights, attention),
                n_slots=200,
                dtype=dtype,
                check_every_step=True,
            )
        )

    return build


@pytest.fixture
def make(decoder: Decoder) -> Callable[..., Harness]:
    """Make a harness: `make(n_slots=512, step_tokens=..., ...)`."""

    def build(
        n_slots: int = 512, *, clock: Callable[[], float] = time.monotonic, **options: int
    ) -> Harness:
        return Harness(
            build_core(
                decoder,
                n_slots=n_slots,
                options=SchedulerOptions(**options),
                clock=clock,
                check_every_step=True,
            )
        )

    return build
