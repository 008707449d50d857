"""Hit rates by size of the cache, as a PNG, where matplotlib is installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PER_ROW = 3


def draw(
    measured: Mapping[str, tuple[Sequence[str], Mapping[str, Sequence[float]]]],
    policies: Sequence[str],
    path: Path,
) -> None:
    """Draw one panel for each title with its sizes and rates; lines for `policies`."""
    if importlib.util.find_spec("matplotlib") is None:
        sys.stdout.write("no plot: matplotlib is not installed here\n")
        return
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    n_rows = -(-len(measured) // _PER_ROW)
    n_columns = min(_PER_ROW, len(measured))
    plot, grid = pyplot.subplots(
        n_rows, n_columns, figsize=(3.6 * n_columns, 3.0 * n_rows), squeeze=False
    )
    panels = list(grid.flat)
    for axes, (title, (sizes, rates)) in zip(panels, measured.items(), strict=False):
        for policy in policies:
            axes.plot(sizes, rates[policy], marker="o", markersize=3, label=policy)
        axes.set(title=title, ylim=(0, None))
        axes.grid(alpha=0.3)
    for axes in panels[len(measured) :]:
        axes.set_axis_off()
    panels[0].legend()
    panels[0].set_ylabel("hit rate")
    plot.tight_layout()
    path.parent.mkdir(exist_ok=True)
    plot.savefig(path, dpi=110)
    pyplot.close(plot)
