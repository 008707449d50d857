"""llama.cpp's server, over HTTP on this machine. AGENTKIT_LLAMA_SERVER is the path of llama-server.

Its slots do not share a prefix, so a warm team has had it computed in each slot beforehand.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.peers.job import Job, play


class LlamaServer:
    """See `Runner`."""

    def __init__(self, job: Job) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._base = f"http://127.0.0.1:{port}"
        n_slots = max(2, job.widest)
        threads = str(job.threads)
        server = subprocess.Popen(
            [
                *(os.environ["AGENTKIT_LLAMA_SERVER"], "-m", job.model, "--port", str(port)),
                *("-np", str(n_slots), "-c", str(n_slots * job.longest)),
                *("-t", threads, "-tb", threads, "-b", "2048", "--no-webui"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Asked to end, it can hang for ever; there is nothing in it to be saved.
        atexit.register(server.wait)
        atexit.register(server.kill)
        deadline = time.monotonic() + 120.0
        while not self._is_up():
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("llama-server did not start")
            time.sleep(0.2)

    def warm(self, prefix: list[int], n: int) -> None:
        """See `Runner.warm`."""
        for slot in range(n):
            self._complete(prefix, 1, slot)

    def run(self, prompts: list[list[int]], n_out: int) -> float:
        """See `Runner.run`."""
        with ThreadPoolExecutor(len(prompts)) as pool:
            began = time.perf_counter()
            n = len(prompts)
            results = list(pool.map(self._complete, prompts, [n_out] * n, range(n)))
            seconds = time.perf_counter() - began
        assert all(each["tokens_predicted"] == n_out for each in results)
        return seconds

    def _complete(self, prompt: list[int], n_out: int, slot: int) -> Any:
        body = {
            "prompt": prompt,
            "n_predict": n_out,
            "temperature": 0.0,
            "ignore_eos": True,
            "cache_prompt": True,
            "id_slot": slot,
        }
        request = urllib.request.Request(
            f"{self._base}/completion",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=900) as reply:
            return json.load(reply)

    def _is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._base}/health", timeout=5) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False


if __name__ == "__main__":
    play(LlamaServer)
