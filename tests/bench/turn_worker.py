"""One framework in a process of its own: `python turn_worker.py NAME` does works from its input.

Each line of the input is a `Work` as JSON; each line of the output a list of the CPU seconds that
it cost: of one run, from each request to the next, and at the end of all the rest; of several runs,
whose turns mix, of all together.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from typing import Any

from turn_work import Work


def main() -> None:
    """Do the works, one after the other."""
    name = sys.argv[1]
    loop = getattr(import_module("turn_peers"), "PEERS", {}).get(name)
    run = import_module("turn_loops").LOOPS[name] if loop is None else loop[0]
    sent_at = _watched()
    for line in sys.stdin:
        work = Work(**json.loads(line))
        gc.collect()
        sent_at.clear()
        total_s = asyncio.run(run(work))
        turns_s = [after - before for before, after in pairwise(sent_at)]
        parts_s = [total_s] if work.n_runs > 1 else [*turns_s, total_s - sum(turns_s)]
        sys.stdout.write(json.dumps(parts_s) + "\n")
        sys.stdout.flush()


def _watched() -> list[float]:
    """Return a list that gets this process's CPU time whenever a request is sent."""
    sent_at: list[float] = []
    for name in ("httpx2", "httpx"):
        if name not in sys.modules:
            continue
        client = sys.modules[name].AsyncClient
        client.send = _noted(client.send, sent_at)
    return sent_at


def _noted(send: Callable[..., Any], sent_at: list[float]) -> Callable[..., Any]:
    def noted(*args: object, **options: object) -> object:
        sent_at.append(time.process_time())
        return send(*args, **options)

    return noted


if __name__ == "__main__":
    main()
