"""The GPU script runs: everything but the kernels is the same on a CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from agentkit_runtime.attention.merge import MergeState
from agentkit_runtime.kv.format import KvFormat
from bench import gpu, gpu_checks
from bench.gpu_checks import Check, run_checks
from bench.gpu_rig import TINY

SCRIPT = Path(gpu.__file__)


def test_the_script_measures_every_figure_and_checks_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures.json"
    assert gpu.main(["--device", "cpu", "--quick", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "correctness: 35 of 35 checks passed" in printed
    names = {figure["name"] for figure in json.loads(out.read_text())}
    assert {
        "gpu_ttft_cached_reduction_200",
        "gpu_no_reuse_overhead",
        "gpu_tree_match",
        "gpu_team_4_cold_wall",
        "gpu_team_4_warm_rate",
        "gpu_decode_of_bandwidth",
        "gpu_prefill_of_gemm",
        "gpu_throughput_cached_vs_uncached",
    } <= names


def test_without_a_gpu_the_script_says_so_and_ends_well(tmp_path: Path) -> None:
    """As a user starts it: from a checkout, with nothing on the path."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(tmp_path / "figures.json")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no CUDA GPU here")
    assert not (tmp_path / "figures.json").exists()


def test_a_wrong_result_fails_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "run_checks", lambda *_: iter([Check("llama", 0.5, 0.1)]))
    arguments = ["--device", "cpu", "--quick", "--out", str(tmp_path / "figures.json")]
    monkeypatch.setattr(gpu, "measure", lambda *_: None)
    assert gpu.main(arguments) == 1
    assert "WRONG llama" in capsys.readouterr().out


def test_the_checks_notice_results_that_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MergeState, "merge", lambda *_, **__: None)
    monkeypatch.setattr(gpu_checks, "SHAPES", {"llama": TINY})
    results = list(run_checks(torch.device("cpu"), [torch.float32], ["sdpa"]))
    assert len(results) == len(KvFormat)
    assert not any(result.passed for result in results)
