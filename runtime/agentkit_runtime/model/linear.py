"""Weight matrices behind one seam: what the decoder multiplies with, however it is stored.

`WeightFormat` names the storage. Arithmetic is always in the activations' dtype over the same
*effective* weights, for one row as for a thousand: what a format loses, it loses once, when the
model is loaded, and a prompt's keys and values never depend on how it was cut into chunks.
"""

from __future__ import annotations

import enum
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


class WeightFormat(enum.StrEnum):
    """How projections are stored."""

    FLOAT = "float"
    """In the compute dtype."""
    FLOAT16 = "float16"
    """Half of float32's bytes, rounded once (2^-11); float32 arithmetic. CPUs of x86 only."""
    INT8 = "int8"
    """8-bit codes with a scale for each 32 weights of a row: 8.5 bits a weight."""
    INT4 = "int4"
    """4-bit codes with scale and minimum for each 32 weights of a row: 5 bits a weight."""

    @classmethod
    def parse(cls, name: str) -> WeightFormat:
        """Return the format of that name.

        Raises:
            ValueError: there is no such format.
        """
        try:
            return cls(name)
        except ValueError:
            known = ", ".join(repr(form.value) for form in cls)
            raise ValueError(f"weights must be one of {known}, got {name!r}") from None


def fastest_format(device: torch.device, dtype: torch.dtype) -> WeightFormat:
    """Return the default: float16 where its kernel is, as it halves what a decode step reads."""
    return WeightFormat.FLOAT16 if half_supported(device, dtype) else WeightFormat.FLOAT


class Linear(Protocol):
    """A projection."""

    @property
    def shape(self) -> tuple[int, int]:
        """(out, in)."""

    @property
    def n_bytes(self) -> int:
        """What it takes in memory."""

    def __call__(self, x: Tensor) -> Tensor:
        """[T, in] -> [T, out], with the bias if there is one."""


class Table(Protocol):
    """An embedding."""

    @property
    def device(self) -> torch.device:
        """Where the rows are."""

    @property
    def n_bytes(self) -> int:
        """What it takes in memory."""

    def rows(self, ids: Tensor) -> Tensor:
        """[T] int64 -> [T, in], in the compute dtype."""


class DenseMatrix:
    """Weights in a floating-point dtype: a projection, and an embedding.

    Args:
        weight: [out, in].
        bias: [out].
        dtype: of what `rows` returns; None is that of `weight`.
    """

    __slots__ = ("_bias", "_dtype", "weight")

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, *, dtype: torch.dtype | None = None
    ) -> None:
        self.weight = weight
        self._bias = bias
        self._dtype = dtype or weight.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """See `Linear.shape`."""
        n_out, n_in = self.weight.shape
        return n_out, n_in

    @property
    def device(self) -> torch.device:
        """See `Table.device`."""
        return self.weight.device

    @property
    def n_bytes(self) -> int:
        """See `Linear.n_bytes`."""
        return self.weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """See `Linear.__call__`."""
        return functional.linear(x, self.weight, self._bias)

    def rows(self, ids: Tensor) -> Tensor:
        """See `Table.rows`."""
        return functional.embedding(ids, self.weight).to(self._dtype)


FLOAT16_MAX = torch.finfo(torch.float16).max


class HalfMatrix:
    """float16 weights and float32 arithmetic, by FBGEMM's packed kernel.

    One kernel for every number of rows. It reads half the bytes of a float32 product, which is what
    bounds a decode step, and is no slower for long prompts.
    """

    __slots__ = ("_packed", "shape")

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        if not half_fits(weight):
            raise ValueError(
                f"weights reach {float(weight.abs().max()):.4g}, but float16 ends at "
                f"{FLOAT16_MAX:.5g}; keep this matrix in float32"
            )
        n_out, n_in = weight.shape
        self.shape = (n_out, n_in)
        self._packed = torch.ops.quantized.linear_prepack_fp16(
            weight.float(), None if bias is None else bias.float()
        )

    @property
    def n_bytes(self) -> int:
        """See `Linear.n_bytes`."""
        return 2 * self.shape[0] * self.shape[1]

    def __call__(self, x: Tensor) -> Tensor:
        """See `Linear.__call__`; `x` is float32."""
        out: Tensor = torch.ops.quantized.linear_dynamic_fp16(x, self._packed)
        return out


def half_fits(weight: Tensor) -> bool:
    """Whether float16 can hold `weight`."""
    low, high = torch.aminmax(weight)  # no copy of the weights, and NaN stays NaN
    return bool((low >= -FLOAT16_MAX) & (high <= FLOAT16_MAX))


def half_supported(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether `HalfMatrix` works here: FBGEMM is built in, and activations are float32 on a CPU."""
    return (
        device.type == "cpu"
        and dtype == torch.float32
        and "fbgemm" in torch.backends.quantized.supported_engines
    )
