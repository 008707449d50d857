"""GGUF files as decoders: configuration, names, rotary rows, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.loading import ModelFiles, open_checkpoint
from agentkit_runtime.loading.checkpoint import Checkpoint
from agentkit_runtime.loading.gguf_checkpoint import canonical_name, unpermute_rotary_rows
from agentkit_runtime.model.config import RopeScaling
from tests.runtime.loading.ggufs import (
    HEAD_DIM,
    HEADS,
    HIDDEN,
    INTERMEDIATE,
    KV_HEADS,
    LAYERS,
    QUANT,
    VOCAB,
    Floats,
    decoder_tensors,
    llama_metadata,
    write_gguf,
)


def opened(path: Path) -> Checkpoint:
    return open_checkpoint(ModelFiles(weights=(path,), tokenizer=path, label="tiny"))


def checkpoint(
    folder: Path,
    tensors: dict[str, Floats] | None = None,
    metadata: dict[str, object] | None = None,
    architecture: str = "llama",
) -> Checkpoint:
    tensors = decoder_tensors() if tensors is None else tensors
    metadata = llama_metadata() if metadata is None else metadata
    return opened(write_gguf(folder / "tiny.gguf", tensors, metadata, architecture=architecture))


def permuted(weight: torch.Tensor, n_heads: int) -> torch.Tensor:
    """What llama.cpp's converter does to Q and K: halves become interleaved pairs."""
    half = weight.shape[0] // n_heads // 2
    return weight.reshape(n_heads, 2, half, -1).transpose(1, 2).reshape(weight.shape)


@pytest.mark.parametrize("n_heads", [1, 2, 4])
@pytest.mark.parametrize("shape", [(32, 5), (32,)])
def test_rotary_rows_come_back_from_the_converters_permutation(
    n_heads: int, shape: tuple[int, ...]
) -> None:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    stored = permuted(weight, n_heads)
    assert torch.equal(unpermute_rotary_rows(stored, n_heads), weight)
    assert not torch.equal(stored, weight)


def test_rotation_of_halves_equals_rotation_of_stored_pairs() -> None:
    """The reason for the permutation: both ways give the same scores."""
    generator = torch.Generator().manual_seed(3)
    stored_q, stored_k = (torch.randn(HEAD_DIM, HIDDEN, generator=generator) for _ in range(2))
    x = torch.randn(2, HIDDEN, generator=generator)
    angles = torch.outer(torch.tensor([3.0, 11.0]), 10.0 ** -torch.arange(HEAD_DIM // 2))

    def pairs(weight: torch.Tensor) -> torch.Tensor:
        numbers = torch.view_as_complex((x @ weight.T).reshape(2, -1, 2))
        return torch.view_as_real(numbers * torch.polar(torch.ones_like(angles), angles)).flatten(1)

    def halves(weight: torch.Tensor) -> torch.Tensor:
        first, second = (x @ unpermute_rotary_rows(weight, 1).T).chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    expected = pairs(stored_q) @ pairs(stored_k).T
    torch.testing.assert_close(halves(stored_q) @ halves(stored_k).T, expected)


def test_llama_weights_have_canonical_names_and_unpermuted_rotary_rows(tmp_path: Path) -> None:
    tensors = decoder_tensors()
    found = checkpoint(tmp_path, tensors)
    q = torch.from_numpy(tensors["blk.1.attn_q.weight"])
    k = torch.from_numpy(tensors["blk.1.attn_k.weight"])
    prefix = "model.layers.1."
    assert torch.equal(
        found.tensor(f"{prefix}self_attn.q_proj.weight"), unpermute_rotary_rows(q, HEADS)
    )
    assert torch.equal(
        found.tensor(f"{prefix}self_attn.k_proj.weight"), unpermute_rotary_rows(k, KV_HEADS)
    )
    for name, stored in {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
        f"{prefix}input_layernorm.weight": "blk.1.attn_norm.weight",
        f"{prefix}self_attn.v_proj.weight": "blk.1.attn_v.weight",
        f"{prefix}self_attn.o_proj.weight": "blk.1.attn_output.weight",
        f"{prefix}post_attention_layernorm.weight": "blk.1.ffn_norm.weight",
        f"{prefix}mlp.gate_proj.weight": "blk.1.ffn_gate.weight",
        f"{prefix}mlp.up_proj.weight": "blk.1.ffn_up.weight",
        f"{prefix}mlp.down_proj.weight": "blk.1.ffn_down.weight",
    }.items():
        assert found.has(name)
        assert torch.equal(found.tensor(name), torch.from_numpy(tensors[stored]))


def test_the_configuration_is_read_from_the_metadata(tmp_path: Path) -> None:
    config = checkpoint(tmp_path).config
    assert config.family == "llama"
    assert (config.n_layers, config.hidden, config.vocab) == (LAYERS, HIDDEN, VOCAB)
    assert (config.n_heads, config.n_kv_heads, config.head_dim) == (HEADS, KV_HEADS, HEAD_DIM)
    assert (config.intermediate, config.max_position) == (INTERMEDIATE, 128)
    assert config.rms_eps == pytest.approx(1e-5)
    assert config.rope_theta == 50_000.0
    assert not config.tied_embeddings
    assert not config.qkv_bias
    assert not config.qk_norm
    assert config.rope_scaling is None
    assert config.rope_factors is None
    assert config.sliding_window is None


def test_absent_keys_have_the_formats_defaults(tmp_path: Path) -> None:
    metadata = llama_metadata(rope__freq_base=None, attention__head_count_kv=None)
    tensors = decoder_tensors()
    for layer in range(LAYERS):
        for name in ("attn_k.weight", "attn_v.weight"):
            tensors[f"blk.{layer}.{name}"] = np.ones((HEADS * HEAD_DIM, HIDDEN), np.float32)
    config = checkpoint(tmp_path, tensors, metadata).config
    assert config.rope_theta == 10_000.0
    assert config.n_kv_heads == HEADS


def test_without_an_output_matrix_the_embeddings_are_tied(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, decoder_tensors(tied=True))
    assert found.config.tied_embeddings
    assert not found.has("lm_head.weight")


def test_qwen2_has_biases_and_its_rows_are_as_stored(tmp_path: Path) -> None:
    tensors = decoder_tensors(bias=True)
    found = checkpoint(tmp_path, tensors, architecture="qwen2")
    assert found.config.family == "qwen2"
    assert found.config.qkv_bias
    for kind in ("weight", "bias"):
        stored = torch.from_numpy(tensors[f"blk.0.attn_q.{kind}"])
        assert torch.equal(found.tensor(f"model.layers.0.self_attn.q_proj.{kind}"), stored)


def test_qwen3_has_head_norms_and_its_own_head_size(tmp_path: Path) -> None:
    metadata = llama_metadata(attention__key_length=32, attention__value_length=32)
    tensors = decoder_tensors(head_dim=32, qk_norm=True)
    found = checkpoint(tmp_path, tensors, metadata, architecture="qwen3")
    assert found.config.qk_norm
    assert found.config.head_dim == 32
    stored = torch.from_numpy(tensors["blk.0.attn_k_norm.weight"])
    assert torch.equal(found.tensor("model.layers.0.self_attn.k_norm.weight"), stored)


def test_a_sliding_window_makes_it_mistral(tmp_path: Path) -> None:
    config = checkpoint(tmp_path, metadata=llama_metadata(attention__sliding_window=16)).config
    assert (config.family, config.sliding_window) == ("mistral", 16)


def test_llama3_scaling_is_read_as_factors(tmp_path: Path) -> None:
    factors = np.linspace(1, 8, HEAD_DIM // 2, dtype=np.float32)
    found = checkpoint(tmp_path, {**decoder_tensors(), "rope_freqs.weight": factors})
    assert found.config.rope_factors == tuple(factors.tolist())
    assert not found.has("rope_freqs.weight")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"rope__scaling__type": "linear", "rope__scaling__factor": 4.0},
            RopeScaling(kind="linear", factor=4.0),
        ),
        ({"rope__scale_linear": 2.0}, RopeScaling(kind="linear", factor=2.0)),
        ({"rope__scaling__type": "none"}, None),
        ({"rope__scale_linear": 1.0}, None),
    ],
)
def test_linear_scaling_is_read_in_both_spellings(
    tmp_path: Path, changes: dict[str, object], expected: RopeScaling | None
) -> None:
    assert checkpoint(tmp_path, metadata=llama_metadata(**changes)).config.rope_scaling == expected


def test_quantised_tensors_are_decoded_under_canonical_names(tmp_path: Path) -> None:
    tensors = decoder_tensors()
    types = {name: QUANT.Q8_0 for name, tensor in tensors.items() if tensor.ndim == 2}
    path = write_gguf(tmp_path / "q.gguf", tensors, llama_metadata(), types=types)
    found = opened(path).tensor("model.layers.0.mlp.up_proj.weight")
    stored = torch.from_numpy(tensors["blk.0.ffn_up.weight"])
    assert 0 < (found - stored).abs().max() < 0.03


def test_the_fingerprint_names_the_weights(tmp_path: Path) -> None:
    one = checkpoint(tmp_path).fingerprint
    assert checkpoint(tmp_path).fingerprint == one
    other = decoder_tensors()
    other["blk.1.ffn_down.weight"][-1, -1] += 1
    assert checkpoint(tmp_path, other).fingerprint != one


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expert_count": 8}, "8 experts"),
        ({"rope__dimension_count": 8}, "8 of 16 dimensions"),
        ({"attention__value_length": 32}, "value_length 32"),
        ({"rope__scaling__type": "longrope", "rope__scaling__factor": 4.0}, "'longrope'"),
        ({"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}, "original_context_length"),
        ({"rope__scaling__type": "linear"}, "None"),
        ({"block_count": None}, r"llama\.block_count"),
        ({"embedding_length": "64"}, "'64'"),
        ({"attention__layer_norm_rms_epsilon": None}, "epsilon"),
        ({"attention__head_count": 8}, "attn_norm|attn_q|shape"),
        ({"feed_forward_length": 95}, "shape"),
        ({"block_count": 3}, r"model\.layers\.2"),
        ({"block_count": 1}, r"model\.layers\.1"),
    ],
)
def test_what_is_not_implemented_is_refused_by_value(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UnsupportedModel, match=message):
        checkpoint(tmp_path, metadata=llama_metadata(**changes))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"blk.0.attn_output.bias": np.ones(HIDDEN, np.float32)}, "o_proj.bias"),
        ({"blk.0.ffn_gate_inp.weight": np.ones((4, HIDDEN), np.float32)}, "ffn_gate_inp"),
        ({"rope_factors_long.weight": np.ones(8, np.float32)}, "LongRoPE"),
        ({"rope_freqs.weight": np.ones(3, np.float32)}, "rope_freqs"),
    ],
)
def test_tensors_that_would_be_ignored_are_refused_by_name(
    tmp_path: Path, extra: dict[str, Floats], message: str
) -> None:
    with pytest.raises(UnsupportedModel, match=message):
        checkpoint(tmp_path, {**decoder_tensors(), **extra})


def test_other_architectures_are_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"'gemma3'.*llama"):
        checkpoint(tmp_path, architecture="gemma3")


def test_missing_embeddings_are_refused(tmp_path: Path) -> None:
    tensors = decoder_tensors()
    del tensors["token_embd.weight"]
    with pytest.raises(UnsupportedModel, match="token_embd"):
        checkpoint(tmp_path, tensors)


def test_names_that_are_not_known_stay_as_they_are() -> None:
    assert canonical_name("blk.3.attn_q.bias") == "model.layers.3.self_attn.q_proj.bias"
    assert canonical_name("blk.3.mystery.weight") == "blk.3.mystery.weight"
    assert canonical_name("v.patch_embd.weight") == "v.patch_embd.weight"


def test_weights_of_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"x")
    with pytest.raises(UnsupportedModel, match=r"model\.bin"):
        opened(path)


def test_the_bundled_model_opens_with_its_published_shape(smollm2_gguf: Path) -> None:
    found = opened(smollm2_gguf)
    config = found.config
    assert (config.n_layers, config.hidden, config.n_heads, config.n_kv_heads) == (30, 576, 9, 3)
    assert (config.rope_theta, config.max_position, config.vocab) == (100_000.0, 8192, 49_152)
    assert config.tied_embeddings
    assert found.tensor("model.layers.29.mlp.down_proj.weight").shape == (576, 1536)


@pytest.mark.parametrize("type_name", ["Q4_0", "Q4_1", "Q8_0"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "smollm3"])
def test_integers_of_the_file_stand_for_its_tensors(
    tmp_path: Path, type_name: str, architecture: str
) -> None:
    """Rotary rows are put in order for codes and scales as they are for decoded weights."""
    stored = ("attn_q", "attn_k", "attn_v", "ffn_down")
    types = {f"blk.0.{name}.weight": QUANT[type_name] for name in stored}
    path = write_gguf(
        tmp_path / "tiny.gguf",
        decoder_tensors(),
        llama_metadata(),
        architecture=architecture,
        types=types,
    )
    found = opened(path)
    for name in map(canonical_name, types):
        blocks = found.blocks(name)
        assert blocks is not None
        assert torch.equal(blocks.effective(), found.tensor(name))
    assert found.blocks("model.layers.1.self_attn.q_proj.weight") is None
    assert found.blocks("model.norm.weight") is None


def test_every_fourth_layer_of_smollm3_is_not_rotated(tmp_path: Path) -> None:
    tensors = decoder_tensors()
    for layer in range(2, 9):
        copies = {
            name.replace("blk.0.", f"blk.{layer}."): value
            for name, value in tensors.items()
            if name.startswith("blk.0.")
        }
        tensors = tensors | copies
    metadata = llama_metadata(block_count=9)
    found = checkpoint(tmp_path, tensors, metadata, architecture="smollm3")
    assert found.config.no_rope_layers == {3, 7}
    assert checkpoint(tmp_path, tensors, metadata).config.no_rope_layers == set()


def test_yarn_is_read_with_its_factor_of_attention(tmp_path: Path) -> None:
    metadata = llama_metadata(
        rope__scaling__type="yarn",
        rope__scaling__factor=4.0,
        rope__scaling__original_context_length=32,
        rope__scaling__attn_factor=2.0,
    )
    assert checkpoint(tmp_path, metadata=metadata).config.rope_scaling == RopeScaling(
        kind="yarn",
        factor=4.0,
        original_max_position=32,
        attention_factor=2.0 * (0.1 * np.log(4.0) + 1),
    )
