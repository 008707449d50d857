"""OpenVINO GenAI's continuous batching with its prefix cache. Needs that package's interpreter."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.peers.job import Job, play


class OpenVino:
    """See `Runner`. Arithmetic and KV are as OpenVINO chooses on this CPU, unless `--float32`.

    By default that is bfloat16 or int8 where the CPU has instructions for it: activations are
    quantised on the way into each product, and KV is kept in 8 bits.
    """

    def __init__(self, job: Job) -> None:
        self._np: Any = importlib.import_module("numpy")
        self._ov: Any = importlib.import_module("openvino")
        self._genai: Any = importlib.import_module("openvino_genai")
        options = self._genai.SchedulerConfig()
        options.enable_prefix_caching = True
        options.cache_size = 2  # GB
        options.max_num_batched_tokens = 2_048
        self._pipe = self._genai.ContinuousBatchingPipeline(
            job.model, options, "CPU", {"INFERENCE_NUM_THREADS": job.threads, **_arithmetic()}
        )

    def warm(self, prefix: list[int], n: int) -> None:
        """One request is enough: later ones share its blocks."""
        self.run([prefix], 1)

    def run(self, prompts: list[list[int]], n_out: int) -> float:
        """See `Runner.run`."""
        wanted = self._genai.GenerationConfig()
        wanted.max_new_tokens = n_out
        wanted.ignore_eos = True
        wanted.do_sample = False
        ids = [self._ov.Tensor(self._np.array([each], dtype=self._np.int64)) for each in prompts]
        began = time.perf_counter()
        results = self._pipe.generate(ids, [wanted] * len(ids))
        seconds = time.perf_counter() - began
        assert all(len(each.m_generation_ids[0]) == n_out for each in results)
        return seconds


def _arithmetic() -> dict[str, str | int]:
    if "--float32" not in sys.argv:
        return {}
    return {
        "INFERENCE_PRECISION_HINT": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
        "KV_CACHE_PRECISION": "f16",
    }


if __name__ == "__main__":
    play(OpenVino)
