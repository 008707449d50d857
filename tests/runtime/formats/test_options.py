"""Choosing a format: who refuses what, and what the identity says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.formats.rotation import rotation
from agentkit_runtime.load import EngineOptions, kv_format_of, load_engine
from agentkit_runtime.model.pool_for import mean_keys, pool_for
from tests.runtime.formats.tiny import CONFIG, tiny_decoder


def test_an_unknown_format_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(ValueError, match=r"kv_dtype must be one of float32, .*got 'int3'"):
        EngineOptions(kv_dtype="int3")


def test_nothing_said_stores_what_is_computed() -> None:
    assert kv_format_of(EngineOptions(), torch.bfloat16) is KvFormat.BFLOAT16
    assert kv_format_of(EngineOptions(kv_dtype="fp8"), torch.bfloat16) is KvFormat.FP8_E4M3


def test_the_identity_names_the_format(smollm2_gguf: Path) -> None:
    """So KV of one format is never read as another's, not even from disk."""
    options = EngineOptions(kv_dtype="int8", max_slots=64, threads=1)
    loaded = load_engine(str(smollm2_gguf), options)
    loaded.engine.close()
    assert loaded.identity.kv_dtype == "int8"
    assert loaded.identity.dtype == "torch.float32"


@pytest.mark.parametrize("kv_format", [KvFormat.FP8_E4M3, KvFormat.INT4])
def test_keys_are_centred_where_the_model_has_them_and_always_alike(kv_format: KvFormat) -> None:
    decoder = tiny_decoder()
    means = [mean_keys(decoder, pool_for(decoder, n_slots=CONFIG.max_position)) for _ in range(2)]
    assert means[0].shape == (CONFIG.n_layers, CONFIG.n_kv_heads, CONFIG.head_dim)
    assert torch.equal(means[0], means[1])
    keys = torch.randn(5, 2, 16, generator=torch.Generator().manual_seed(0))
    pools = [pool_for(decoder, n_slots=5, kv_format=kv_format) for _ in range(2)]
    stored = [pool.layer(0).write(torch.arange(5), keys, keys)[0] for pool in pools]
    assert torch.equal(stored[0], stored[1])
    turned = (keys - means[0][0]) @ rotation(CONFIG.head_dim)
    assert float((stored[0] - turned).std() / turned.std()) < 0.1
