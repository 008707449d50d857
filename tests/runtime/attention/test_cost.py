"""The gate: coefficients are found again from timings, and decide what is worth sharing."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from agentkit_runtime.attention.calibrate import calibrated
from agentkit_runtime.attention.cost import CUDA_COST, DEFAULT_COST, AttentionCost, measure
from agentkit_runtime.attention.cpu import CpuKernels
from agentkit_runtime.attention.cuda import CudaKernels
from agentkit_runtime.attention.kernels import Kernels, ReferenceKernels
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.pool import KvStorage


class FakeMachine:
    """A probe and its clock: parts take what `cost` says, and more when `noise` says so."""

    def __init__(self, cost: AttentionCost, noise: list[float] | None = None) -> None:
        self.keys = 2048
        self.now = 0.0
        self._cost = cost
        self._noise = noise or [1.0]
        self._n = 0

    def clock(self) -> float:
        return self.now

    def read(self, rows: int, keys: int) -> None:
        self._take(self._cost.read(rows, keys))

    def gather(self, lanes: int, keys: int) -> None:
        n = lanes * keys
        per_key = self._cost.gather_key_s + self._cost.key_s + self._cost.pair_s
        self._take(self._cost.call_s + self._cost.gather_s + n * per_key)

    def merge(self, rows: int) -> None:
        self._take(self._cost.merge(rows))

    def _take(self, seconds: float) -> None:
        self._n += 1
        self.now += seconds * self._noise[self._n % len(self._noise)]


@pytest.mark.parametrize("cost", [DEFAULT_COST, CUDA_COST])
def test_measuring_finds_what_the_machine_takes(cost: AttentionCost) -> None:
    cost = dataclasses.replace(cost, gather_key_s=2 * cost.key_s)
    machine = FakeMachine(cost)
    found = measure(machine, clock=machine.clock, most_gathered=cost.most_gathered)
    assert found is not None
    assert dataclasses.asdict(found) == pytest.approx(dataclasses.asdict(cost), rel=1e-3)


def test_another_program_on_the_machine_does_not_change_what_is_found() -> None:
    machine = FakeMachine(DEFAULT_COST, noise=[1.0, 1.0, 3.0, 1.0, 9.0])
    found = measure(machine, clock=machine.clock)
    assert found is not None
    assert found.key_s == pytest.approx(DEFAULT_COST.key_s, rel=1e-3)


def test_a_measurement_that_contradicts_itself_is_not_used() -> None:
    # Seven parts a round: every second round takes five times as long.
    machine = FakeMachine(DEFAULT_COST, noise=[1.0] * 7 + [5.0] * 7)
    assert measure(machine, clock=machine.clock) is None


def test_a_machine_on_which_more_keys_take_less_time_is_not_believed() -> None:
    machine = FakeMachine(dataclasses.replace(DEFAULT_COST, key_s=-DEFAULT_COST.pair_s))
    assert measure(machine, clock=machine.clock) is None


def test_measuring_ends_in_time_on_a_machine_that_is_too_busy() -> None:
    machine = FakeMachine(DEFAULT_COST, noise=[1000.0])
    assert measure(machine, clock=machine.clock) is None
    one_round = 1000 * (DEFAULT_COST.read(1, 2048) + DEFAULT_COST.read(8, 2048))
    assert machine.now < 4 * one_round


@pytest.mark.parametrize("kernels", [CpuKernels(), ReferenceKernels(), CudaKernels()])
@pytest.mark.parametrize("kv_format", [KvFormat.FLOAT32, KvFormat.INT8])
def test_the_probe_runs_every_part_on_a_real_pool(kernels: Kernels, kv_format: KvFormat) -> None:
    storage = KvStorage(n_layers=1, n_slots=96, n_kv_heads=2, head_dim=16, kv_format=kv_format)
    ticks = iter(range(10**6))
    cost = calibrated(
        kernels,
        storage.layer(0),
        n_slots=96,
        n_heads=4,
        n_kv_heads=2,
        head_dim=16,
        dtype=torch.float32,
        device=torch.device("cpu"),
        clock=lambda: next(ticks) * 1e-6,
    )
    assert cost is None  # each part takes one tick, so more keys cost nothing


def test_a_pool_that_is_too_small_is_not_measured() -> None:
    storage = KvStorage(n_layers=1, n_slots=32, n_kv_heads=2, head_dim=16)
    cost = calibrated(
        CpuKernels(),
        storage.layer(0),
        n_slots=32,
        n_heads=4,
        n_kv_heads=2,
        head_dim=16,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    assert cost is None


def test_sharing_pays_with_more_lanes_and_more_keys() -> None:
    """R35."""
    assert DEFAULT_COST.saved_by_sharing(2, 2, [20]) < 0
    assert DEFAULT_COST.saved_by_sharing(2, 2, [2000]) > 0
    assert DEFAULT_COST.saved_by_sharing(16, 16, [40]) > 0
    assert CUDA_COST.saved_by_sharing(2, 2, [500]) < 0
    assert CUDA_COST.saved_by_sharing(16, 16, [4000]) > 0


def test_a_merge_of_many_rows_costs_what_sharing_must_earn() -> None:
    chunk = [300]
    assert DEFAULT_COST.saved_by_sharing(2, 2, chunk) > 0
    assert DEFAULT_COST.saved_by_sharing(2, 512, chunk) < 0
