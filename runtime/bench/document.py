"""The tables in docs/benchmarks.md, written anew from the figures between two marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.figures import read, table

BEGIN = "<!-- figures of the runtime: written by runtime/bench/run.py -->"
END = "<!-- end of the figures -->"
ENGINES = {
    "ours": "ours",
    "ours_float32": "ours, float32 weights",
    "ours_bfloat16": "ours, bfloat16 arithmetic",
    "openvino": "OpenVINO GenAI",
    "openvino_float32": "OpenVINO GenAI, float32 arithmetic",
    "transformers": "transformers",
    "llama_cpp": "llama.cpp",
}
TREES = {
    "ours": "ours",
    "ours_no_events": "ours, events off",
    "sglang_python": "SGLang, Python",
    "sglang_python_no_events": "SGLang, Python, events off",
    "sglang_unified": "SGLang unified, Python core",
    "sglang_unified_no_events": "SGLang unified, Python core, events off",
    "sglang_rust": "SGLang unified, Rust core",
    "sglang_rust_no_events": "SGLang unified, Rust core, events off",
}
SINGLE = (
    *("no_reuse_overhead", "throughput_cached_vs_uncached", "throughput_cached_vs_uncached_4k"),
    *("floor_memory_read", "floor_gemm"),
    *("decode_of_bandwidth_ours", "prefill_of_gemm_1000_ours", "prefill_of_gemm_4000_ours"),
)


def write(figures: Path, document: Path) -> None:
    """Replace what is between the marks. Raises ValueError where the document has no marks."""
    text = document.read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{document} lacks the lines {BEGIN!r} and {END!r}")
    rows = read(figures)
    values = {row.name: row.value for row in rows}
    parts = [
        _first_tokens(values),
        *_single({row.name: (row.value, row.unit, row.note) for row in rows}),
        _trees(values),
        _teams(values),
        *_plots(document.parent / "plots"),
    ]
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    body = "\n".join(part for part in parts if part)
    document.write_text(f"{before}{BEGIN}\n\n{body}\n{END}{after}")


def _first_tokens(values: Mapping[str, float]) -> str:
    lengths = [name[10:] for name in values if name.startswith("ttft_cold_") and name[-1] == "k"]
    rows = [
        (
            f"{length[:-1]},000 tokens",
            f"{values[f'ttft_cold_{length}']:,.0f} ms",
            f"{values[f'ttft_cached_{length}']:,.0f} ms",
            f"{100 * values[f'ttft_cached_reduction_{length}']:.1f} %",
        )
        for length in lengths
    ]
    return table(("prompt", "TTFT cold", "TTFT cached + 150", "reduction"), rows) if rows else ""


def _single(rows: Mapping[str, tuple[float, str, str]]) -> Iterator[str]:
    found = [(name, *rows[name]) for name in SINGLE if name in rows]
    if found:
        cells = [(f"`{name}`", f"{value:.4g} {unit}", note) for name, value, unit, note in found]
        yield table(("figure", "value", "what was run"), cells)


def _trees(values: Mapping[str, float]) -> str:
    columns = ("match", "insert", "rematch_14k", "match_evicting", "evict")
    rows = [
        (
            label,
            *(f"{values[f'tree_{column}_{name}']:.0f}" for column in columns),
            f"{values[f'tree_hit_{name}']:.4f} / {values[f'tree_hit_evicting_{name}']:.4f}",
        )
        for name, label in TREES.items()
        if f"tree_match_{name}" in values
    ]
    head = ("us", "match", "insert", "re-match 14k", "match, evicting", "evict", "hits")
    return table(head, rows) if rows else ""


def _teams(values: Mapping[str, float]) -> str:
    columns = [f"team_{n}_{state}_wall" for state in ("warm", "cold") for n in (4, 8, 16)]
    found = [name for name in ENGINES if f"decode_rate_{name}" in values]
    rows = [
        (
            ENGINES[name],
            *(_cell(values, f"{column}_{name}", ".1f") for column in columns),
            _cell(values, f"decode_rate_{name}", ".1f"),
            _cell(values, f"prefill_rate_1000_{name}", ".0f"),
            _cell(values, f"prefill_rate_4000_{name}", ".0f"),
        )
        for name in found
    ]
    head = [f"{state} {n}, s" for state in ("warm", "cold") for n in (4, 8, 16)]
    speeds = ("decode, tokens/s", "prefill 1k", "prefill 4k")
    return table(("team", *head, *speeds), rows) if rows else ""


def _plots(folder: Path) -> Sequence[str]:
    names = ("ttft", "trees", "teams")
    return [f"![{n}](plots/{n}.png)\n" for n in names if (folder / f"{n}.png").exists()]


def _cell(values: Mapping[str, float], name: str, form: str) -> str:
    return format(values[name], form) if name in values else ""
