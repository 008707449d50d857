"""Storages of weights: prefill and decode compute with the same numbers in each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.loading import ModelFiles, open_checkpoint
from agentkit_runtime.loading.checkpoint import Checkpoint
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.model.linear import WeightFormat, half_supported
from agentkit_runtime.model.weights import DecoderWeights, load_weights

GOLDEN = Path(__file__).parent
CPU = torch.device("cpu")
PROMPT = [int(i) for i in torch.randint(3, 250, (48,), generator=torch.Generator().manual_seed(5))]
HERE = [
    form
    for form in WeightFormat
    if form is not WeightFormat.FLOAT16 or half_supported(CPU, torch.float32)
]

DecoderRuns = Callable[..., Any]


def open_tiny(name: str) -> Checkpoint:
    folder = GOLDEN / "tiny" / name
    weights = tuple(sorted(folder.glob("*.safetensors")))
    return open_checkpoint(ModelFiles(weights=weights, tokenizer=folder, label=name))


def loaded(source: Checkpoint, form: WeightFormat) -> DecoderWeights:
    return load_weights(source, device=CPU, dtype=torch.float32, form=form)


def decoder(source: Checkpoint, weights: DecoderWeights) -> Decoder:
    window = source.config.sliding_window
    return Decoder(source.config, weights, SdpaAttention(sliding_window=window))


@pytest.fixture(scope="module")
def smollm2(smollm2_gguf: Path) -> Checkpoint:
    files = ModelFiles(weights=(smollm2_gguf,), tokenizer=smollm2_gguf, label="smollm2")
    return open_checkpoint(files)


@pytest.mark.parametrize("form", HERE)
@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "smollm3"])
def test_tokens_one_by_one_have_the_logits_of_the_whole_prompt(
    name: str, form: WeightFormat, decoder_run: DecoderRuns
) -> None:
    """Cached equals uncached: one row and many rows take the same effective weights."""
    source = open_tiny(name)
    model = decoder(source, loaded(source, form))
    (whole,) = decoder_run(model, [len(PROMPT)]).extend([PROMPT], [range(len(PROMPT))])
    run = decoder_run(model, [len(PROMPT)])
    single = [run.extend([[token]], [[0]])[0] for token in PROMPT[:20]]
    (rest,) = run.extend([PROMPT[20:]], [range(len(PROMPT) - 20)])
    pieces = torch.cat([*single, rest])
    assert float((pieces - whole).abs().max()) < 1e-3
    assert torch.equal(pieces.argmax(-1), whole.argmax(-1))


@pytest.mark.parametrize(
    ("form", "least", "most"),
    [
        (WeightFormat.FLOAT16, 1e-5, 0.05),
        (WeightFormat.INT8, 1e-3, 0.5),
        (WeightFormat.INT4, 0.05, 8.0),
    ],
)
def test_what_a_format_loses_is_lost_and_bounded(
    form: WeightFormat, least: float, most: float, decoder_run: DecoderRuns
) -> None:
    """A format that changed nothing would not be in use."""
    if form not in HERE:
        pytest.skip("torch without FBGEMM")
    source = open_tiny("llama")
    logits = []
    for each in (WeightFormat.FLOAT, form):
        run = decoder_run(decoder(source, loaded(source, each)), [len(PROMPT)])
        logits += run.extend([PROMPT], [range(len(PROMPT))])
    assert least < float((logits[0] - logits[1]).abs().max()) < most


@pytest.mark.parametrize("name", ["llama", "qwen2"])
@pytest.mark.parametrize("form", HERE)
def test_embedding_and_head_are_the_files_weights_rounded_once(
    name: str, form: WeightFormat
) -> None:
    """Also where they are tied: one matrix is then looked up and multiplied with."""
    source = open_tiny(name)
    weights = loaded(source, form)
    ids = torch.arange(source.config.vocab)
    embedding = source.tensor("model.embed_tokens.weight")
    head = embedding if source.config.tied_embeddings else source.tensor("lm_head.weight")
    found = weights.lm_head(torch.eye(source.config.hidden)).t()
    allowed = 1 / 127 if form in (WeightFormat.INT8, WeightFormat.INT4) else 2.0**-11
    for matrix, expected in ((weights.embed.rows(ids), embedding), (found, head)):
        row_max = expected.abs().amax(-1, keepdim=True)
        assert bool(((matrix - expected).abs() <= allowed * row_max).all())


def test_smaller_formats_take_less_memory() -> None:
    source = open_tiny("llama")
    sizes = {form: loaded(source, form).n_bytes for form in HERE}
    ordered = [sizes[form] for form in HERE]
    assert ordered == sorted(ordered, reverse=True)
    assert sizes[WeightFormat.INT8] < 0.3 * sizes[WeightFormat.FLOAT]


def test_a_quantised_file_loses_nothing_more_as_integers(
    smollm2: Checkpoint, decoder_run: DecoderRuns
) -> None:
    """The bundled file is Q4_1 with a Q8_0 embedding: int4 keeps these very numbers."""
    weights = {form: loaded(smollm2, form) for form in (WeightFormat.FLOAT, WeightFormat.INT4)}
    prompt = PROMPT[:12]
    rows = []
    for each in weights.values():
        run = decoder_run(decoder(smollm2, each), [len(prompt)])
        rows += run.extend([prompt], [range(len(prompt))])
    assert float((rows[0] - rows[1]).abs().max()) < 1e-3
    assert torch.equal(rows[0].argmax(-1), rows[1].argmax(-1))
    assert weights[WeightFormat.INT4].n_bytes < 0.2 * weights[WeightFormat.FLOAT].n_bytes


@pytest.mark.skipif(WeightFormat.FLOAT16 not in HERE, reason="torch without FBGEMM")
def test_half_weights_of_a_real_model_decode_like_they_prefill(
    smollm2: Checkpoint, decoder_run: DecoderRuns
) -> None:
    model = decoder(smollm2, loaded(smollm2, WeightFormat.FLOAT16))
    n = 24
    run = decoder_run(model, [len(PROMPT[:n]) + 12])
    (first,) = run.extend([PROMPT[:n]], [[n - 1]])
    (greedy,) = run.greedy([first[-1]], 12)
    again = decoder_run(model, [n + 12])
    (logits,) = again.extend([PROMPT[:n] + greedy[:-1]], [range(n - 1, n + 11)])
    assert logits.argmax(-1).tolist() == greedy
    assert float((logits[0] - first[-1]).abs().max()) < 1e-3


def test_half_weights_are_refused_where_their_kernel_is_not() -> None:
    with pytest.raises(ValueError, match=r"dtype float32, got cpu and torch\.bfloat16"):
        load_weights(
            open_tiny("llama"), device=CPU, dtype=torch.bfloat16, form=WeightFormat.FLOAT16
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", [WeightFormat.FLOAT, WeightFormat.INT8, WeightFormat.INT4])
def test_half_precision_activations_work_with_each_format(
    dtype: torch.dtype, form: WeightFormat
) -> None:
    source = open_tiny("llama")
    weights = load_weights(source, device=CPU, dtype=dtype, form=form)
    x = weights.embed.rows(torch.tensor(PROMPT))
    assert x.dtype == dtype
    assert weights.layers[0].qkv(x).dtype == dtype
    assert weights.lm_head(x).dtype == dtype
