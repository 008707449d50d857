"""A checkpoint's tensors, fused and laid out for the decoder.

Q, K and V become one product, gate and up another: on CPU a decode step is bound by the number of
operators, not by arithmetic. Projections are stored as [out, in], like torch's `linear`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.model.blocks import GROUP, BlockMatrix, Blocks, join_rows, quantise
from agentkit_runtime.model.config import ModelConfig
from agentkit_runtime.model.linear import (
    DenseMatrix,
    HalfMatrix,
    Linear,
    Table,
    WeightFormat,
    half_fits,
    half_supported,
)

_BITS: Mapping[WeightFormat, int] = {WeightFormat.INT8: 8, WeightFormat.INT4: 4}
_HEAD_BITS = 8
"""Embedding and head stay at 8 bits: at 4 they alone would cost more than all layers together."""


class TensorSource(Protocol):
    """What `load_weights` reads from: tensors under their canonical names."""

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""

    def has(self, name: str) -> bool:
        """Tell whether the checkpoint has the tensor."""

    def tensor(self, name: str) -> Tensor:
        """Read one tensor as float32."""

    def blocks(self, name: str) -> Blocks | None:
        """Read one matrix as the integers that it is stored as; None if it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One decoder layer. Norm weights stay float32-precise in the model's dtype."""

    attn_norm: Tensor
    qkv: Linear
    """[(heads + 2 kv_heads) * head_dim, hidden], with its bias."""
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Linear
    """[hidden, heads * head_dim]."""
    mlp_norm: Tensor
    gate_up: Linear
    """[2 * intermediate, hidden]: gate rows, then up rows."""
    down: Linear
    """[hidden, intermediate]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderWeights:
    """All tensors of a decoder, on one device."""

    embed: Table
    """[vocab, hidden]."""
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor
    lm_head: Linear
    """[vocab, hidden]; the numbers of `embed` when tied."""

    @property
    def n_bytes(self) -> int:
        """What embedding and projections take in memory."""
        matrices: list[Linear | Table] = [self.embed, self.lm_head]
        for layer in self.layers:
            matrices += (layer.qkv, layer.out, layer.gate_up, layer.down)
        unique = {id(matrix): matrix for matrix in matrices}  # a tied head is the embedding
        return sum(matrix.n_bytes for matrix in unique.values())


def load_weights(
    source: TensorSource,
    *,
    device: torch.device,
    dtype: torch.dtype,
    form: WeightFormat = WeightFormat.FLOAT,
) -> DecoderWeights:
    """Read a checkpoint, one tensor at a time so that the peak stays near the final size.

    Raises:
        UnsupportedModel: a tensor has another shape than the config says.
        ValueError: `form` does not work with this device and dtype.
    """
    if form is WeightFormat.FLOAT16 and not half_supported(device, dtype):
        raise ValueError(
            f"weights {form.value!r} need a CPU with FBGEMM (x86) and dtype float32, "
            f"got {device.type} and {dtype}; use 'float' or 'int8'"
        )
    return _Loader(source, device, dtype, form).load()


@dataclass(frozen=True, slots=True)
class _Loader:
    source: TensorSource
    device: torch.device
    dtype: torch.dtype
    form: WeightFormat

    def load(self) -> DecoderWeights:
        config = self.source.config
        embed, head = self._embedding()
        return DecoderWeights(
            embed=embed,
            layers=tuple(self._layer(i) for i in range(config.n_layers)),
            final_norm=self._vector("model.norm.weight", config.hidden),
            lm_head=head,
        )

    def _embedding(self) -> tuple[Table, Linear]:
        config = self.source.config
        name = "model.embed_tokens.weight"
        if self.form in _BITS:
            table = self._block_matrix({name: config.vocab}, config.hidden, bits=_HEAD_BITS)
            return table, table if config.tied_embeddings else self._head()
        weight = self._read(name, config.vocab, config.hidden)
        if self.form is WeightFormat.FLOAT or not half_fits(weight):
            dense = DenseMatrix(weight.to(device=self.device, dtype=self.dtype))
            return dense, dense if config.tied_embeddings else self._head()
        halves = DenseMatrix(weight.half(), dtype=self.dtype)
        return halves, HalfMatrix(weight) if config.tied_embeddings else self._head()

    def _head(self) -> Linear:
        config = self.source.config
        rows = {"lm_head.weight": config.vocab}
        if self.form in _BITS:
            return self._block_matrix(rows, config.hidden, bits=_HEAD_BITS)
        return self._linear(rows, config.hidden)

    def _layer(self, index: int) -> LayerWeights:
        config = self.source.config
        prefix = f"model.layers.{index}."
        q_rows, kv_rows = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
        qkv = {f"{prefix}self_attn.{part}_proj": kv_rows for part in "qkv"}
        qkv[f"{prefix}self_attn.q_proj"] = q_rows
        mlp = {f"{prefix}mlp.{part}_proj.weight": config.intermediate for part in ("gate", "up")}
        bias = [self._vector(f"{name}.bias", n) for name, n in qkv.items() if config.qkv_bias]
        return LayerWeights(
            attn_norm=self._vector(prefix + "input_layernorm.weight", config.hidden),
            qkv=self._linear(
                {f"{name}.weight": n for name, n in qkv.items()},
                config.hidden,
                torch.cat(bias) if bias else None,
            ),
            q_norm=self._head_norm(prefix + "self_attn.q_norm.weight"),
            k_norm=self._head_norm(prefix + "self_attn.k_norm.weight"),
            out=self._linear({prefix + "self_attn.o_proj.weight": config.hidden}, q_rows),
            mlp_norm=self._vector(prefix + "post_attention_layernorm.weight", config.hidden),
            gate_up=self._linear(mlp, config.hidden),
            down=self._linear(
                {prefix + "mlp.down_proj.weight": config.hidden}, config.intermediate
            ),
        )

    def _linear(self, rows: Mapping[str, int], n_in: int, bias: Tensor | None = None) -> Linear:
        """Fuse the tensors named in `rows` (name -> out rows) into one projection."""
        if self.form in _BITS:
            return self._block_matrix(rows, n_in, bias, bits=_BITS[self.form])
        parts = [self._read(name, n, n_in) for name, n in rows.items()]
        weight = parts[0] if len(parts) == 1 else torch.cat(parts)
        if self.form is WeightFormat.FLOAT16 and half_fits(weight):
            return HalfMatrix(weight, bias)
        return DenseMatrix(weight.to(device=self.device, dtype=self.dtype), bias)

    def _block_matrix(
        self, rows: Mapping[str, int], n_in: int, bias: Tensor | None = None, *, bits: int
    ) -> BlockMatrix:
        parts = [self._blocks(name, bits, n, n_in) for name, n in rows.items()]
        blocks = parts[0] if len(parts) == 1 else join_rows(parts)
        return BlockMatrix(blocks, bias, device=self.device, dtype=self.dtype)

    def _blocks(self, name: str, bits: int, *shape: int) -> Blocks:
        """The file's own integers where they have no more bits than wanted, else rounded."""
        stored = self.source.blocks(name)
        if stored is not None and stored.bits <= bits and stored.codes.shape[-1] == GROUP:
            _check_shape(name, stored.codes.flatten(1), shape)
            return stored
        return quantise(self._read(name, *shape), bits)

    def _head_norm(self, name: str) -> Tensor | None:
        config = self.source.config
        return self._vector(name, config.head_dim) if config.qk_norm else None

    def _vector(self, name: str, size: int) -> Tensor:
        return self._read(name, size).to(device=self.device, dtype=self.dtype)

    def _read(self, name: str, *shape: int) -> Tensor:
        tensor = self.source.tensor(name)
        _check_shape(name, tensor, shape)
        return tensor


def _check_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        raise UnsupportedModel(
            f"tensor {name!r} has shape {tuple(tensor.shape)}, the model's config says {shape}"
        )
