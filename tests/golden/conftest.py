"""Golden data, and the one way in which these tests run our decoder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np
import pytest
import torch

from agentkit_runtime.attention.base import ForwardBatch
from agentkit_runtime.attention.plan import Lane, build_plan
from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.loading import ModelFiles, open_checkpoint
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.model.weights import TensorSource, load_weights

GOLDEN = Path(__file__).parent
CPU = torch.device("cpu")


class GoldenPrompt(TypedDict):
    name: str
    text: str
    ids: list[int]


class GoldenString(TypedDict):
    text: str
    special: list[int]
    plain: list[int]


class GoldenTokens(TypedDict):
    prompts: list[GoldenPrompt]
    strings: list[GoldenString]


class DecoderRun:
    """Our decoder over a private pool, without scheduler and radix tree: the model alone.

    One sequence for each of `capacities`, each in one extent. All of them advance together.
    """

    def __init__(self, decoder: Decoder, capacities: Sequence[int]) -> None:
        config = decoder.config
        self._decoder = decoder
        self._starts = [sum(capacities[:i]) for i in range(len(capacities))]
        self._lengths = [0] * len(capacities)
        self._storage = KvStorage(
            n_layers=config.n_layers,
            n_slots=sum(capacities),
            n_kv_heads=config.n_kv_heads,
            head_dim=config.head_dim,
        )

    def extend(
        self, new: Sequence[Sequence[int]], rows: Sequence[Sequence[int]]
    ) -> list[torch.Tensor]:
        """Append `new[i]` to sequence i, in one batch; logits [len(rows[i]), vocab] of each."""
        lanes: list[Lane] = []
        positions: list[int] = []
        slots: list[int] = []
        for index, ids in enumerate(new):
            start, length = self._starts[index], self._lengths[index]
            past = (Extent(start, length),) if length else ()
            own = (Extent(start + length, len(ids)),)
            lanes.append(Lane(past=past, position=length, n_new=len(ids), own=own))
            positions += range(length, length + len(ids))
            slots += range(start + length, start + length + len(ids))
            self._lengths[index] += len(ids)
        batch = ForwardBatch(
            token_ids=torch.tensor([token for ids in new for token in ids]),
            positions=torch.tensor(positions),
            slots=torch.tensor(slots),
            logit_rows=torch.tensor(_flat_rows(new, rows)),
            plan=build_plan(lanes),
        )
        logits = self._decoder.forward(batch, self._storage)
        return list(logits.split([len(wanted) for wanted in rows]))

    def greedy(self, last: Sequence[torch.Tensor], n_tokens: int) -> list[list[int]]:
        """Argmax continuations of all sequences, one token a step, from their `last` logits."""
        chosen = [[int(logits.argmax())] for logits in last]
        while len(chosen[0]) < n_tokens:
            logits = self.extend([ids[-1:] for ids in chosen], [[0]] * len(chosen))
            for ids, row in zip(chosen, logits, strict=True):
                ids.append(int(row[0].argmax()))
        return chosen


def _flat_rows(new: Sequence[Sequence[int]], rows: Sequence[Sequence[int]]) -> list[int]:
    flat: list[int] = []
    before = 0
    for ids, wanted in zip(new, rows, strict=True):
        flat += [before + row for row in wanted]
        before += len(ids)
    return flat


def _build_decoder(source: TensorSource) -> Decoder:
    window = source.config.sliding_window
    weights = load_weights(source, device=CPU, dtype=torch.float32)
    return Decoder(source.config, weights, SdpaAttention(sliding_window=window))


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def build_decoder() -> Callable[[TensorSource], Decoder]:
    """Load a checkpoint into our float32 CPU decoder."""
    return _build_decoder


@pytest.fixture(scope="session")
def smollm2_decoder(smollm2_gguf: Path) -> Decoder:
    files = ModelFiles(weights=(smollm2_gguf,), tokenizer=smollm2_gguf, label="golden")
    return _build_decoder(open_checkpoint(files))


@pytest.fixture(scope="session")
def decoder_run() -> type[DecoderRun]:
    return DecoderRun


@pytest.fixture(scope="session")
def golden_tokens() -> GoldenTokens:
    """What llama.cpp makes of the prompts and strings; see make_tokens.py for the fields."""
    tokens: GoldenTokens = json.loads((GOLDEN / "smollm2_tokens.json").read_text("ascii"))
    return tokens


@pytest.fixture(scope="session")
def golden_logits() -> Mapping[str, np.ndarray]:
    """What transformers computes for the prompts; see make_logits.py for the names."""
    with np.load(GOLDEN / "smollm2_logits.npz") as arrays:
        return dict(arrays)
