"""c. The tree alone, beside SGLang's Python tree and its Rust core, under the same operations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.figures import Figures
from bench.peers.venvs import Peers

HERE = Path(__file__).parent
COLUMNS = {
    "match": "match_us",
    "insert": "insert_us",
    "rematch_14k": "rematch_us",
    "match_evicting": "match_evicting_us",
    "evict": "evict_us",
}
PEERS = {"sglang_python": "radix", "sglang_unified": "python", "sglang_rust": "rust"}


def measure(figures: Figures, peers: Peers, *, runs: int = 3, quick: bool = False) -> None:
    """Run ours and theirs in turn; the best median of `runs` counts, as the host may be shared."""
    size = ["--agents", "8", "--turns", "8"] if quick else []
    ours = [sys.executable, str(HERE / "tree_ours.py"), *size]
    commands = {"ours": ours, "ours_no_events": [*ours, "--no-events"]}
    python = peers.python("sglang")
    for name, core in PEERS.items():
        if python is not None:
            script = str(HERE / "peers" / "with_sglang.py")
            command = [str(python), "-W", "ignore", script, "--core", core, *size]
            commands[name] = [*command, "--events"]
            commands[f"{name}_no_events"] = command
    best: dict[str, dict[str, float]] = {}
    for _ in range(runs):
        for name, command in commands.items():
            row = _run(command)
            known = best.setdefault(name, row)
            best[name] = {key: min(value, known[key]) for key, value in row.items()}
    report(figures, best, runs)


def report(figures: Figures, best: dict[str, dict[str, float]], runs: int) -> None:
    """Add the figures; raises AssertionError when the trees did not find the same tokens."""
    note = (
        "8,000 shared tokens, 64 agents, 20 turns of 200 + 100; median us of thread CPU time, "
        f"best of {runs} runs in turn"
    )
    for name, row in best.items():
        for label, column in COLUMNS.items():
            figures.add(f"tree_{label}_{name}", row[column], "us", note)
        for column in ("hit", "hit_evicting"):
            figures.add(f"tree_{column}_{name}", row[column], "ratio", note)
        for column in ("hit", "hit_evicting"):
            if round(row[column], 4) != round(best["ours"][column], 4):
                raise AssertionError(
                    f"{name} found {row[column]:.6f} of the tokens ({column}), "
                    f"ours {best['ours'][column]:.6f}: they must agree to four digits"
                )
    for name in PEERS:
        for suffix in ("", "_no_events"):
            peer = best.get(f"{name}{suffix}")
            if peer is None:
                continue
            for label in ("match", "insert"):
                column = COLUMNS[label]
                ours = best[f"ours{suffix}"][column]
                how = "events off on both sides" if suffix else "events on on both sides"
                figures.add(
                    f"tree_{label}_vs_{name}{suffix}",
                    peer[column] / ours,
                    "ratio",
                    f"theirs / ours, {how}; {peer[column]:.1f} and {ours:.1f} us; {note}",
                )


def _run(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stderr[-2_000:]}")
    row: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return row
