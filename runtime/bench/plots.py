"""PNG plots of the figures, where matplotlib is installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.figures import read

TEAM_ENGINES = (
    *("ours", "ours_float32", "ours_bfloat16", "openvino", "openvino_float32"),
    *("transformers", "llama_cpp"),
)


def draw(figures: Path, folder: Path) -> None:
    """Draw what the file of figures has values for."""
    if importlib.util.find_spec("matplotlib") is None:
        sys.stdout.write("no plots: matplotlib is not installed here\n")
        return
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    values = {row.name: row.value for row in read(figures)}
    folder.mkdir(exist_ok=True)
    _first_token(pyplot, values, folder / "ttft.png")
    _teams(pyplot, values, folder / "teams.png")
    _trees(pyplot, values, folder / "trees.png")


def _first_token(pyplot: Any, values: Mapping[str, float], path: Path) -> None:
    lengths = sorted(int(name[10:-1]) for name in values if _is_length(name, "ttft_cold_"))
    if not lengths:
        return
    plot, axes = pyplot.subplots(figsize=(6, 3.6))
    for kind in ("cold", "cached"):
        axes.plot(
            lengths, [values[f"ttft_{kind}_{n}k"] / 1_000 for n in lengths], marker="o", label=kind
        )
    axes.set(xlabel="prompt, thousand tokens", ylabel="time to first token, s", ylim=(0, None))
    _save(pyplot, plot, axes, path)


def _teams(pyplot: Any, values: Mapping[str, float], path: Path) -> None:
    plot, axes = pyplot.subplots(figsize=(6, 3.6))
    for engine in TEAM_ENGINES:
        sizes = [n for n in (4, 8, 16) if f"team_{n}_warm_wall_{engine}" in values]
        if sizes:
            walls = [values[f"team_{n}_warm_wall_{engine}"] for n in sizes]
            axes.plot(sizes, walls, marker="o", label=engine.replace("_", " "))
    axes.set(xlabel="subagents on a cached prefix", ylabel="wall time, s", ylim=(0, None))
    _save(pyplot, plot, axes, path)


def _trees(pyplot: Any, values: Mapping[str, float], path: Path) -> None:
    engines = [
        name
        for name in ("ours", "sglang_rust", "sglang_python", "sglang_unified")
        if f"tree_match_{name}" in values
    ]
    plot, axes = pyplot.subplots(figsize=(6, 3.6))
    for shift, what in ((-0.2, "match"), (0.2, "insert")):
        places = [i + shift for i in range(len(engines))]
        axes.bar(places, [values[f"tree_{what}_{name}"] for name in engines], 0.4, label=what)
    axes.set_xticks(range(len(engines)), [name.replace("_", " ") for name in engines])
    axes.set(ylabel="us (events on)", yscale="log")
    _save(pyplot, plot, axes, path)


def _is_length(name: str, start: str) -> bool:
    return name.startswith(start) and name.endswith("k") and name[len(start) : -1].isdigit()


def _save(pyplot: Any, plot: Any, axes: Any, path: Path) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
        axes.grid(alpha=0.3)
        plot.tight_layout()
        plot.savefig(path, dpi=110)
    pyplot.close(plot)
