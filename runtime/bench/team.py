"""d and e. Teams over a shared prefix, decoding and prefill, beside other engines.

Each engine does the same job on the same GGUF with the same number of threads, in a process of its
own, in turn. Floors of the machine are measured in between.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from agentkit_runtime.loading import locate, open_checkpoint
from bench.figures import Figures
from bench.gpu_rig import best_seconds
from bench.peers.job import Job
from bench.peers.venvs import Peers

SCRIPTS = Path(__file__).parent / "peers"
TEAMS = ((4, "cold"), (4, "warm"), (8, "cold"), (8, "warm"), (16, "cold"), (16, "warm"))
FEW = ((4, "cold"), (4, "warm"))
"""For engines that compute the prefix once for each of a cold team: minutes more would be."""
OURS = {
    "ours": [],
    "ours_float32": ["--weights", "float"],
    "ours_bfloat16": ["--dtype", "bfloat16"],
}
"""With default options, which store weights in float16 on x86; with float32 weights; and with
bfloat16 arithmetic, which CPUs with AVX512-BF16 or AMX have instructions for."""
PEERS = {
    "openvino": ("openvino", []),
    "openvino_float32": ("openvino", ["--float32"]),
    "transformers": ("transformers", []),
}
"""Environment and options. OpenVINO quantises activations by default: it runs without that, too."""
WIDE = ("openvino",)
"""Peers that do all teams: the others would take minutes for what they compute once each."""
WEIGHT_BYTES = {
    "ours": 2.0 if platform.machine() == "x86_64" else 4.0,
    "ours_float32": 4.0,
    "ours_bfloat16": 2.0,
}
DEFAULT = "ours"


def measure(
    figures: Figures,
    peers: Peers,
    *,
    runs: int = 1,
    quick: bool = False,
    only: Sequence[str] | None = None,
) -> None:
    """Run every engine `runs` times, in turn; medians count.

    Args:
        figures: where the rows go.
        peers: the other engines.
        runs: of each engine.
        quick: tiny sizes.
        only: names of the engines that run, beside our own with default options; None: all.
    """
    model = str(locate("smollm2").weights[0])
    job = Job(model=model, threads=torch.get_num_threads(), teams=TEAMS, lengths=(1_000, 4_000))
    if quick:
        job = replace(
            job, teams=FEW, prefix=200, own=20, n_out=4, lengths=(100,), context=100, decoded=4
        )
    values: dict[str, dict[str, list[float]]] = {}
    for _ in range(runs):
        for name, (command, wanted, environment) in _engines(peers, job).items():
            if only is not None and name not in (DEFAULT, *only):
                continue
            sys.stdout.write(f"... {name}\n")
            for row in run_engine(command, wanted, environment):
                values.setdefault(name, {}).setdefault(str(row["name"]), []).append(row["value"])
    medians = {
        engine: {name: statistics.median(each) for name, each in rows.items()}
        for engine, rows in values.items()
    }
    _report(figures, medians, job, runs)
    _floors(figures, medians)


def run_engine(
    command: Sequence[str], job: Job, environment: Mapping[str, str]
) -> list[dict[str, float]]:
    """Run one engine's process; returns what it printed. Raises RuntimeError when it fails."""
    done = subprocess.run(
        [*command, job.dump()],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stderr[-2_000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]


def _engines(peers: Peers, job: Job) -> dict[str, tuple[list[str], Job, dict[str, str]]]:
    few = replace(job, teams=FEW)
    found: dict[str, tuple[list[str], Job, dict[str, str]]] = {}
    for name, options in OURS.items():
        found[name] = ([sys.executable, str(SCRIPTS / "with_ours.py"), *options], job, {})
    for name, (home, options) in PEERS.items():
        python = peers.python(home)
        if python is not None:
            command = [str(python), "-W", "ignore", str(SCRIPTS / f"with_{home}.py"), *options]
            found[name] = (command, job if name in WIDE else few, {})
    server = peers.llama_server
    if server is not None:
        command = [sys.executable, str(SCRIPTS / "with_llama_cpp.py")]
        found["llama_cpp"] = (command, few, {"AGENTKIT_LLAMA_SERVER": str(server)})
    return found


def _report(
    figures: Figures, medians: Mapping[str, Mapping[str, float]], job: Job, runs: int
) -> None:
    note = (
        f"SmolLM2-135M Q4_1 GGUF, {job.threads} threads, median of {runs}; {job.prefix} shared + "
        f"{job.own} own tokens, {job.n_out} generated each"
    )
    for engine, rows in medians.items():
        for name, value in rows.items():
            if name.startswith("team"):
                n = int(name.split("_")[1])
                figures.add(f"{name}_wall_{engine}", value, "s", note)
                figures.add(f"{name}_rate_{engine}", n * job.n_out / value, "tokens/s", note)
            elif name == "decode_rate":
                about = f"one sequence behind {job.context} tokens, {job.threads} threads"
                figures.add(f"decode_rate_{engine}", value, "tokens/s", about)
            else:
                n = int(name.split("_")[1])
                about = f"cold prompt of {n} tokens, {job.threads} threads"
                figures.add(f"prefill_rate_{n}_{engine}", n / value, "tokens/s", about)
        if engine in OURS:
            continue
        for n, state in job.teams:
            name = f"team_{n}_{state}"
            if name not in rows:
                continue
            label = f"team_{n}_wall" if state == "warm" else f"team_{n}_cold_wall"
            for ours in (each for each in OURS if each in medians):
                suffix = ours.removeprefix(DEFAULT)
                figures.add(
                    f"{label}_vs_{engine}{suffix}",
                    rows[name] / medians[ours][name],
                    "ratio",
                    f"theirs / {ours}, {state} prefix; {note}",
                )


def _floors(figures: Figures, medians: Mapping[str, Mapping[str, float]]) -> None:
    """e. Beside what this machine's memory and matrix products allow."""
    cpu = torch.device("cpu")
    config = open_checkpoint(locate("smollm2")).config
    block = torch.ones(64 << 20, dtype=torch.float32)
    read = block.numel() * 4 / best_seconds(block.sum, cpu)
    left, right = torch.randn(1_024, 576), torch.randn(576, 1_536)
    flops = 2 * 1_024 * 576 * 1_536 / best_seconds(lambda: left @ right, cpu)
    note = "float32, the threads of this run"
    figures.add("floor_memory_read", read / 1e9, "GB/s", note)
    figures.add("floor_gemm", flops / 1e9, "GFLOP/s", f"{note}, [1024, 576] x [576, 1536]")
    for engine in (each for each in OURS if each in medians):
        n_bytes = WEIGHT_BYTES[engine]
        stored = (config.block_weights + config.vocab * config.hidden) * n_bytes
        rate = medians[engine]["decode_rate"] * stored / read
        about = f"share of the rate at which its {stored / 1e6:.0f} MB of weights can be read"
        figures.add(f"decode_of_bandwidth_{engine}", rate, "ratio", about)
        for measured, seconds in medians[engine].items():
            if measured.startswith("prefill"):
                n = int(measured.split("_")[1])
                share = 2 * config.block_weights * n / flops / seconds
                about = "share of the rate of matrix products alone, attention not counted"
                figures.add(f"prefill_of_gemm_{n}_{engine}", share, "ratio", about)
