"""transformers on torch, float32, as a batch with a cache that is shared by copying.

It has no server that would do this by itself; this is the best that one can write with its parts.
"""

from __future__ import annotations

import copy
import importlib
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.peers.job import Job, play


class Transformers:
    """See `Runner`."""

    def __init__(self, job: Job) -> None:
        self._torch: Any = importlib.import_module("torch")
        library: Any = importlib.import_module("transformers")
        self._torch.set_num_threads(job.threads)
        path = Path(job.model)
        self._model = library.AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=self._torch.float32
        )
        self._model.eval()
        self._make_cache = library.DynamicCache
        self._prefix: list[int] = []
        self._cache: Any = None

    def warm(self, prefix: list[int], n: int) -> None:
        """Keep the cache of all but the last token, which every prompt computes anew."""
        with self._torch.inference_mode():
            self._prefix, self._cache = prefix[:-1], self._make_cache()
            self._forward([self._prefix], self._cache)

    def run(self, prompts: list[list[int]], n_out: int) -> float:
        """See `Runner.run`. The copies of the cache are part of the time."""
        known = len(self._prefix)
        began = time.perf_counter()
        with self._torch.inference_mode():
            if known and all(prompt[:known] == self._prefix for prompt in prompts):
                cache = copy.deepcopy(self._cache)
                if len(prompts) > 1:
                    cache.batch_repeat_interleave(len(prompts))
                rows = [prompt[known:] for prompt in prompts]
            else:
                cache, rows = self._make_cache(), prompts
            chosen = self._forward(rows, cache)
            for _ in range(n_out - 1):
                chosen = self._forward(chosen, cache)
        return time.perf_counter() - began

    def _forward(self, rows: Any, cache: Any) -> Any:
        """[n, t] token ids to the [n, 1] most likely next ones."""
        ids = rows if hasattr(rows, "shape") else self._torch.tensor(rows)
        out = self._model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1:].argmax(-1)


if __name__ == "__main__":
    play(Transformers)
