"""One framework in a process of its own: `python turn_worker.py NAME` does works from its input.

Each line of the input is a `Work` as JSON; each line of the output the CPU seconds that it cost.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from importlib import import_module

from turn_work import Work


def main() -> None:
    """Do the works, one after the other."""
    name = sys.argv[1]
    loop = getattr(import_module("turn_peers"), "PEERS", {}).get(name)
    run = import_module("turn_loops").LOOPS[name] if loop is None else loop[0]
    for line in sys.stdin:
        work = Work(**json.loads(line))
        gc.collect()
        sys.stdout.write(f"{asyncio.run(run(work))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
