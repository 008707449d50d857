"""An orthogonal change of basis that spreads outliers of a head over all of its numbers.

Keys have a few channels that are many times larger than the others, and a common scale must fit
the largest. Keys and queries turned by the same orthogonal matrix have the same products, so keys
are stored turned, and nobody turns them back (QuaRot, arXiv 2404.00456; QuIP#, arXiv 2402.04396).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def rotation(head_dim: int) -> Tensor:
    """Return an orthogonal matrix [head_dim, head_dim] without large numbers, float32.

    For `head_dim = 2^a * m`, m odd: the Kronecker product of Sylvester's Hadamard matrix of size
    2^a and the orthonormal DCT-II of size m. No number is larger than sqrt(2 / head_dim), and none
    than sqrt(1 / head_dim) for powers of two. Always the same: stored KV depends on it.
    """
    odd = head_dim
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while odd % 2 == 0:
        odd //= 2
        matrix = torch.kron(matrix, torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64))
    matrix /= math.sqrt(head_dim // odd)
    return torch.kron(matrix, _dct(odd)).float()


def _dct(size: int) -> Tensor:
    place = torch.arange(size, dtype=torch.float64)
    matrix = torch.cos(math.pi / size * torch.outer(place, place + 0.5)) * math.sqrt(2 / size)
    matrix[0] = math.sqrt(1 / size)
    return matrix
