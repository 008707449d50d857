"""Our engine, driven by hand, in a process of its own like the others."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from agentkit_runtime.load import EngineOptions, load_core
from bench.gpu_rig import Rig
from bench.peers.job import Job, play


class Ours:
    """See `Runner`."""

    def __init__(self, job: Job) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--weights")
        parser.add_argument("--kv-dtype")
        parser.add_argument("--dtype", choices=("float32", "bfloat16"))
        parser.add_argument("job")
        args = parser.parse_args()
        slots = 4 * job.longest + 2 * job.widest * (job.own + job.n_out) + sum(job.lengths)
        options = EngineOptions(
            dtype=args.dtype,
            weights=args.weights,
            kv_dtype=args.kv_dtype,
            threads=job.threads,
            max_slots=len(job.teams) * job.longest + slots,
        )
        self._rig = Rig(*load_core("smollm2", options), torch.device("cpu"))

    def warm(self, prefix: list[int], n: int) -> None:
        """See `Runner.warm`."""
        self._rig.run([prefix], 1)

    def run(self, prompts: list[list[int]], n_out: int) -> float:
        """See `Runner.run`."""
        seconds, stats = self._rig.run(prompts, n_out)
        assert all(each.completion_tokens == n_out for each in stats)
        return seconds


if __name__ == "__main__":
    play(Ours)
