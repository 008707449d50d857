"""Reading LoRA adapters: what is refused, and by which name. The sums are in tests/golden."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from agentkit_runtime.errors import ModelNotFound, UnsupportedModel
from agentkit_runtime.kv.namespace import namespace_digest
from agentkit_runtime.load import EngineOptions, load_engine
from agentkit_runtime.loading import locate, open_checkpoint
from agentkit_runtime.loading.checkpoint import Checkpoint
from agentkit_runtime.loading.lora import AdaptedCheckpoint, load_adapter
from agentkit_runtime.model.blocks import Blocks, quantise
from agentkit_runtime.model.config import ModelConfig
from tests.runtime.loading.folders import config_values, family_tensors, write_folder

Q = "base_model.model.model.layers.0.self_attn.q_proj"
CONFIG: dict[str, object] = {"peft_type": "LORA", "r": 2, "lora_alpha": 6, "bias": "none"}


def tensors(**changes: torch.Tensor | None) -> dict[str, torch.Tensor]:
    values = {"a": torch.full((2, 64), 0.5), "b": torch.ones(64, 2)} | changes
    names = {"a": f"{Q}.lora_A.weight", "b": f"{Q}.lora_B.weight"}
    return {names.get(k, k): v for k, v in values.items() if v is not None}


def write_adapter(
    folder: Path, weights: dict[str, torch.Tensor] | None = None, **config: object
) -> Path:
    folder.mkdir(exist_ok=True)
    save_file(tensors() if weights is None else weights, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | config), "utf-8")
    return folder


@pytest.fixture
def base(tmp_path: Path) -> Checkpoint:
    folder = tmp_path / "base"
    folder.mkdir()
    write_folder(folder, config_values("llama"), family_tensors("llama"))
    return open_checkpoint(locate(str(folder)))


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({}, 3.0),
        ({"use_rslora": True}, 6 / 2**0.5),
        ({"alpha_pattern": {"q_proj": 10}}, 5.0),
        ({"alpha_pattern": {"proj": 10}}, 3.0),
        ({"rank_pattern": {r"layers\.0\.self_attn\.q_proj": 2}, "r": 8}, 3.0),
    ],
)
def test_the_scale_is_alpha_by_rank(
    base: Checkpoint, tmp_path: Path, config: dict[str, object], scale: float
) -> None:
    """Patterns match whole names from the end, as PEFT's do."""
    adapter = load_adapter(write_adapter(tmp_path / "adapter", **config), base.config)
    name = "model.layers.0.self_attn.q_proj.weight"
    adapted = AdaptedCheckpoint(base, adapter)
    added = adapted.tensor(name) - base.tensor(name)
    assert torch.allclose(added, torch.full((64, 64), scale), atol=1e-5)
    other = "model.layers.1.self_attn.q_proj.weight"
    assert torch.equal(adapted.tensor(other), base.tensor(other))


@pytest.mark.parametrize(
    ("weights", "config", "message"),
    [
        ({}, {"use_dora": True}, "use_dora"),
        ({}, {"bias": "all"}, "'all'"),
        ({}, {"peft_type": "IA3"}, "'IA3'"),
        ({}, {"fan_in_fan_out": True}, "fan_in_fan_out"),
        ({}, {"r": 3}, "rank 3"),
        ({}, {"r": None}, "r = None"),
        ({"b": None}, {}, "only its A matrix"),
        ({"a": torch.ones(2, 63)}, {}, r"\(2, 63\)"),
        ({"base_model.model.lm_head.weight": torch.ones(2, 64)}, {}, "vocabulary"),
        ({"base_model.model.visual.weight": torch.ones(2, 64)}, {}, r"visual\.weight"),
        ({f"{Q}.lora_magnitude_vector": torch.ones(2)}, {}, "magnitude"),
        ({"base_model.model.model.embed_tokens.lora_A.weight": torch.ones(2, 64)}, {}, "embed"),
        ({"base_model.model.model.layers.7.mlp.up_proj.lora_A.weight": torch.ones(1)}, {}, "7"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    base: Checkpoint,
    tmp_path: Path,
    weights: dict[str, torch.Tensor | None],
    config: dict[str, object],
    message: str,
) -> None:
    folder = write_adapter(tmp_path / "adapter", tensors(**weights), **config)
    with pytest.raises(UnsupportedModel, match=message):
        load_adapter(folder, base.config)


def test_a_whole_weight_takes_the_place_of_the_bases(base: Checkpoint, tmp_path: Path) -> None:
    """`modules_to_save`, and the copy of a head's base that PEFT stores beside its matrices."""
    name = "model.layers.0.self_attn.q_proj.weight"
    whole = {f"{Q}.base_layer.weight": torch.zeros(64, 64)}
    norm = {"base_model.model.model.norm.weight": torch.full((64,), 7.0)}
    folder = write_adapter(tmp_path / "adapter", tensors() | whole | norm)
    adapted = AdaptedCheckpoint(base, load_adapter(folder, base.config))
    assert torch.equal(adapted.tensor(name), torch.full((64, 64), 3.0))
    assert torch.equal(adapted.tensor("model.norm.weight"), torch.full((64,), 7.0))


def test_an_adapter_of_a_tied_head_is_refused(base: Checkpoint, tmp_path: Path) -> None:
    tied = dataclasses.replace(base.config, tied_embeddings=True)
    head = {f"base_model.model.lm_head.lora_{m}.weight": torch.ones(1, 1) for m in "AB"}
    folder = write_adapter(tmp_path / "adapter", head)
    with pytest.raises(UnsupportedModel, match="tied"):
        load_adapter(folder, tied)


def test_a_folder_without_an_adapter_is_told_apart(base: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"adapter_config\.json"):
        load_adapter(tmp_path, base.config)


class _WithBlocks:
    """A checkpoint whose matrices are stored as integers."""

    fingerprint = "base"

    def __init__(self, inner: Checkpoint) -> None:
        self.config: ModelConfig = inner.config
        self._inner = inner

    def has(self, name: str) -> bool:
        return self._inner.has(name)

    def tensor(self, name: str) -> torch.Tensor:
        return self._inner.tensor(name)

    def blocks(self, name: str) -> Blocks | None:
        return quantise(self.tensor(name), 4)


def test_integers_of_the_file_are_used_only_where_nothing_was_added(
    base: Checkpoint, tmp_path: Path
) -> None:
    """Otherwise int4 would silently leave the adapter out."""
    adapter = load_adapter(write_adapter(tmp_path / "adapter"), base.config)
    adapted = AdaptedCheckpoint(_WithBlocks(base), adapter)
    assert adapted.blocks("model.layers.0.self_attn.q_proj.weight") is None
    assert adapted.blocks("model.layers.0.self_attn.k_proj.weight") is not None


def test_another_adapter_is_another_identity(smollm2_gguf: Path, tmp_path: Path) -> None:
    """R20: weights changed, old KV reused."""
    a, b = torch.ones(2, 576), torch.ones(576, 2)
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, factor in ((first, 1.0), (second, 2.0)):
        write_adapter(folder, {f"{Q}.lora_A.weight": a, f"{Q}.lora_B.weight": b * factor})
    seen = set()
    for options in (
        EngineOptions(max_slots=64, weights="int4"),
        EngineOptions(max_slots=64, weights="int4", adapter=first),
        EngineOptions(max_slots=64, weights="int4", adapter=second),
    ):
        loaded = load_engine(str(smollm2_gguf), options)
        loaded.engine.close()
        assert (loaded.identity.adapter is None) is (options.adapter is None)
        assert loaded.identity.weights.endswith("/int4")
        key = b"k" * 32
        seen.add(namespace_digest(key, tenant="t", permissions=(), identity=loaded.identity))
    assert len(seen) == 3
