"""Hugging Face folders as decoders: all families, shards, storage types, what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.loading import locate, open_checkpoint
from agentkit_runtime.loading.checkpoint import Checkpoint
from agentkit_runtime.loading.hf_config import config_from_hf
from agentkit_runtime.model.config import RopeScaling
from tests.runtime.loading.folders import CONFIGS, config_values, family_tensors, write_folder


def opened(folder: Path) -> Checkpoint:
    return open_checkpoint(locate(str(folder)))


def with_config(folder: Path, family: str, **changes: object) -> Checkpoint:
    return opened(write_folder(folder, config_values(family, **changes), family_tensors(family)))


@pytest.mark.parametrize("family", CONFIGS)
def test_every_family_opens_with_its_own_shape(tmp_path: Path, family: str) -> None:
    tensors = family_tensors(family)
    found = opened(write_folder(tmp_path, config_values(family), tensors))
    assert found.config.family == family
    assert found.config.qkv_bias is (family == "qwen2")
    assert found.config.qk_norm is (family == "qwen3")
    assert found.config.tied_embeddings is (family == "qwen2")
    assert found.config.head_dim == (32 if family == "qwen3" else 16)
    assert found.config.sliding_window == (32 if family == "mistral" else None)
    for name, tensor in tensors.items():
        assert found.has(name)
        assert torch.equal(found.tensor(name), tensor)
    assert not found.has("model.layers.2.mlp.up_proj.weight")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_storage_type_becomes_float32_of_its_own(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = family_tensors("llama", dtype)
    found = opened(write_folder(tmp_path, config_values("llama"), tensors))
    tensor = found.tensor("model.norm.weight")
    assert tensor.dtype == torch.float32
    assert torch.equal(tensor, tensors["model.norm.weight"].float())
    tensor.zero_()
    assert found.tensor("model.norm.weight").any()


def test_shards_are_read_through_the_index(tmp_path: Path) -> None:
    tensors = family_tensors("llama")
    names = sorted(tensors)
    half = len(names) // 2
    shards = [{name: tensors[name] for name in part} for part in (names[:half], names[half:])]
    folder = write_folder(tmp_path, config_values("llama"), *shards)
    save_file({"unrelated": torch.ones(1)}, folder / "extra.safetensors")
    found = opened(folder)
    for name, tensor in tensors.items():
        assert torch.equal(found.tensor(name), tensor)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    tensors = family_tensors("llama")
    first = {name: tensor for name, tensor in tensors.items() if "layers" in name}
    second = {name: tensor for name, tensor in tensors.items() if "layers" not in name}
    folder = write_folder(tmp_path, config_values("llama"), first, second)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(UnsupportedModel, match="model-00002-of-00002"):
        opened(folder)


def test_files_that_hold_the_same_tensor_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, config_values("llama"), family_tensors("llama"))
    save_file({"model.norm.weight": torch.ones(64)}, folder / "other.safetensors")
    with pytest.raises(UnsupportedModel, match=r"model\.norm\.weight"):
        opened(folder)


def test_a_tied_head_and_stored_frequencies_are_left_out(tmp_path: Path) -> None:
    """Some exporters store what follows from other tensors."""
    tensors = family_tensors("llama")
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    config = config_values("llama", tie_word_embeddings=True)
    found = opened(write_folder(tmp_path, config, tensors))
    assert not found.has("lm_head.weight")
    assert not found.has("model.layers.0.self_attn.rotary_emb.inv_freq")


def test_the_fingerprint_names_weights_and_configuration(tmp_path: Path) -> None:
    tensors = family_tensors("llama")
    config = config_values("llama")
    one = opened(write_folder(tmp_path / "a", config, tensors)).fingerprint
    assert opened(write_folder(tmp_path / "b", config, tensors)).fingerprint == one
    other_config = config_values("llama", rope_theta=30_000.0)
    other = opened(write_folder(tmp_path / "c", other_config, tensors)).fingerprint
    tensors["model.layers.1.mlp.up_proj.weight"][-1, -1] += 1
    changed = opened(write_folder(tmp_path / "d", config, tensors)).fingerprint
    assert len({one, other, changed}) == 3


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, RopeScaling(kind="linear", factor=2)),
        (
            {
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 32.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 8192,
                }
            },
            RopeScaling(kind="llama3", factor=32.0, original_max_position=8192),
        ),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 20_000.0}}, None),
        ({"rope_scaling": {"rope_type": "default"}}, None),
    ],
)
def test_rotary_scaling_is_read_in_both_spellings(
    tmp_path: Path, changes: dict[str, object], expected: RopeScaling | None
) -> None:
    config = with_config(tmp_path, "llama", **changes).config
    assert config.rope_scaling == expected
    assert config.rope_theta == 20_000.0


def test_yarn_stretches_the_context(tmp_path: Path) -> None:
    """Hub configs of Qwen name the length before the stretch in max_position_embeddings."""
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    config = with_config(tmp_path, "llama", rope_scaling=yarn).config
    assert config.max_position == 512
    assert config.rope_scaling == RopeScaling(
        kind="yarn", factor=4.0, original_max_position=128, attention_factor=0.1 * math.log(4) + 1
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {3, 7}),
        ({"no_rope_layer_interval": 3}, {2, 5}),
        ({"no_rope_layers": [1, 0, 1, 1, 1, 1, 1, 0]}, {1, 7}),
    ],
)
def test_layers_without_rotation_are_those_with_a_zero(
    changes: dict[str, object], expected: set[int]
) -> None:
    values = config_values("llama", architectures=["SmolLM3ForCausalLM"], num_hidden_layers=8)
    config = config_from_hf("tiny", values | changes, set())
    assert config.no_rope_layers == expected
    assert config.tied_embeddings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"no_rope_layers": [1]}, r"no_rope_layers = \[1\]"),
        ({"sliding_window": 8, "use_sliding_window": True}, "use_sliding_window"),
    ],
)
def test_what_smollm3_does_not_do_here_is_refused(changes: dict[str, object], message: str) -> None:
    values = config_values("llama", architectures=["SmolLM3ForCausalLM"])
    with pytest.raises(UnsupportedModel, match=message):
        config_from_hf("tiny", values | changes, set())


def test_new_rotary_parameters_win_over_the_old_key(tmp_path: Path) -> None:
    changes = {"rope_parameters": {"rope_type": "default", "rope_theta": 5.0}, "rope_theta": 6.0}
    assert with_config(tmp_path, "llama", **changes).config.rope_theta == 5.0


@pytest.mark.parametrize(
    ("family", "changes", "expected"),
    [
        ("mistral", {"sliding_window": None}, None),
        ("qwen2", {"sliding_window": 8, "use_sliding_window": False}, None),
        (
            "qwen2",
            {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 0 + 2},
            None,
        ),
        ("qwen3", {"sliding_window": 8, "layer_types": ["full_attention"] * 2}, None),
        ("qwen3", {"sliding_window": 8, "layer_types": ["sliding_attention"] * 2}, 8),
        ("llama", {"sliding_window": 8}, None),
    ],
)
def test_a_window_counts_only_where_layers_use_it(
    tmp_path: Path, family: str, changes: dict[str, object], expected: int | None
) -> None:
    assert with_config(tmp_path, family, **changes).config.sliding_window == expected


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("llama", {"architectures": ["GemmaForCausalLM"]}, "'GemmaForCausalLM'"),
        ("llama", {"architectures": None}, "None"),
        ("llama", {"hidden_act": "gelu"}, "'gelu'"),
        ("llama", {"partial_rotary_factor": 0.5}, "0.5"),
        ("llama", {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, "'dynamic'"),
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0}}, "mscale"),
        ("llama", {"rope_scaling": "linear"}, "'linear'"),
        ("llama", {"quantization_config": {"quant_method": "awq"}}, "'awq'"),
        ("llama", {"hidden_size": None}, "hidden_size"),
        ("llama", {"vocab_size": 0}, "vocab_size"),
        ("llama", {"rms_norm_eps": "1e-5"}, "rms_norm_eps"),
        ("llama", {"tie_word_embeddings": 1}, "tie_word_embeddings"),
        ("llama", {"vocab_size": 41}, "shape"),
        ("llama", {"num_hidden_layers": 3}, r"model\.layers\.2"),
        ("llama", {"num_hidden_layers": 1}, r"model\.layers\.1"),
        (
            "qwen2",
            {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 1},
            "1 of 2 layers",
        ),
        ("qwen3", {"head_dim": None}, "shape"),
    ],
)
def test_what_is_not_implemented_is_refused_by_value(
    tmp_path: Path, family: str, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UnsupportedModel, match=message):
        with_config(tmp_path, family, **changes)


def test_biases_that_would_be_ignored_are_refused(tmp_path: Path) -> None:
    tensors = family_tensors("llama")
    tensors["model.layers.0.self_attn.o_proj.bias"] = torch.ones(64)
    with pytest.raises(UnsupportedModel, match=r"o_proj\.bias"):
        opened(write_folder(tmp_path, config_values("llama"), tensors))


def test_other_storage_types_are_refused_by_tensor(tmp_path: Path) -> None:
    tensors = family_tensors("llama")
    tensors["model.norm.weight"] = torch.ones(64, dtype=torch.int8)
    with pytest.raises(UnsupportedModel, match=r"model\.norm\.weight.*I8"):
        opened(write_folder(tmp_path, config_values("llama"), tensors))


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.5, 0.99])
def test_a_file_cut_short_is_refused(tmp_path: Path, share: float) -> None:
    folder = write_folder(tmp_path, config_values("llama"), family_tensors("llama"))
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(UnsupportedModel, match=r"model\.safetensors.*download it again"):
        opened(folder)


@pytest.mark.parametrize(("text", "message"), [("{", "not JSON"), ("[]", "JSON object")])
def test_a_broken_configuration_is_refused(tmp_path: Path, text: str, message: str) -> None:
    folder = write_folder(tmp_path, config_values("llama"), family_tensors("llama"))
    (folder / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(UnsupportedModel, match=message):
        opened(folder)


def test_a_broken_index_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, config_values("llama"), family_tensors("llama"))
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": []}), encoding="utf-8")
    with pytest.raises(UnsupportedModel, match="weight_map"):
        opened(folder)
