"""The change of basis in which coded keys lie."""

from __future__ import annotations

import math

import pytest
import torch

from agentkit_runtime.kv.formats.rotation import rotation


@pytest.mark.parametrize("head_dim", [1, 2, 8, 64, 80, 96, 128, 7])
def test_it_keeps_products_and_has_no_large_number(head_dim: int) -> None:
    turn = rotation(head_dim)
    assert turn.shape == (head_dim, head_dim)
    torch.testing.assert_close(turn @ turn.T, torch.eye(head_dim), atol=2e-6, rtol=0)
    assert float(turn.abs().max()) <= math.sqrt(2 / head_dim) + 1e-6


def test_one_outlier_is_spread_evenly() -> None:
    head = torch.zeros(64)
    head[5] = 8.0
    assert torch.allclose((head @ rotation(64)).abs(), torch.ones(64))
