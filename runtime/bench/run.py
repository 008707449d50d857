"""All measurements of the runtime: `make bench`.

    python runtime/bench/run.py [--only ttft tree ...] [--peers DIR] [--install-peers DIR]
                                [--traces DIR]

Without peers and traces it measures what needs neither, in about a quarter of an hour. `--peers` is
a folder that `--install-peers` has filled; `--traces` has the recordings as `.jsonl.xz`. Writes
docs/benchmarks.json, the tables of docs/benchmarks.md, and PNG plots to docs/plots where matplotlib
is installed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import document, engine_figures, plots, team, tree
from bench.figures import DOCS, Figures, merge
from bench.peers.venvs import Peers, install

PARTS = ("tree", "eviction", "ttft", "overhead", "shared", "team")


def main() -> int:
    """Measure what was asked for, and write it down after each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--peers", type=Path, help="folder with other engines")
    parser.add_argument("--install-peers", type=Path, help="fill such a folder first, then use it")
    parser.add_argument("--traces", type=Path, help="folder with recorded traces")
    parser.add_argument("--engines", nargs="+", help="of the teams, beside ours; by default all")
    parser.add_argument("--runs", type=int, default=1, help="of each engine of the teams")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: tries out the code")
    parser.add_argument("--out", type=Path, default=DOCS / "benchmarks.json")
    args = parser.parse_args()
    if args.install_peers is not None:
        install(args.install_peers)
    peers = Peers(args.install_peers or args.peers)
    figures = Figures()
    if "tree" in args.only:
        tree.measure(figures, peers, runs=1 if args.quick else 3, quick=args.quick)
        merge(args.out, figures.rows)
    if "eviction" in args.only and args.traces is not None:
        paths = [str(path) for path in sorted(args.traces.glob("*.jsonl*"))]
        script = Path(__file__).with_name("eviction.py")
        command = [sys.executable, str(script), *paths, "--out", str(args.out)]
        subprocess.run(command, check=True)
    sizes = engine_figures.QUICK if args.quick else engine_figures.Sizes()
    engine_figures.measure(figures, sizes, args.only)
    merge(args.out, figures.rows)
    if "team" in args.only:
        team.measure(figures, peers, runs=args.runs, quick=args.quick, only=args.engines)
        merge(args.out, figures.rows)
    plots.draw(args.out, args.out.parent / "plots")
    if args.out.parent == DOCS:
        document.write(args.out, DOCS / "benchmarks.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
