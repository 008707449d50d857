"""What each KV format costs in quality: perplexity of the bundled model over real English text.

The text is Python's own reference manual, which every Python has (`pydoc_data.topics`). It is read
in windows, each in chunks, so that most keys and values are read back from the pool as later
requests would read them. Writes docs/benchmarks.json when run by itself.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import torch
from torch import Tensor
from torch.nn import functional

from agentkit_runtime.attention.base import ForwardBatch
from agentkit_runtime.attention.plan import Lane, build_plan
from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.format import KvFormat, bytes_per_token
from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.load_text import load_text
from agentkit_runtime.loading import locate, open_checkpoint
from agentkit_runtime.model.config import ModelConfig
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.model.pool_for import pool_for
from agentkit_runtime.model.weights import load_weights

OUTPUT = Path(__file__).parents[2] / "docs" / "benchmarks.json"
BASE = KvFormat.FLOAT32


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One format's result."""

    kv_format: KvFormat
    bytes_per_token: int
    share_of_fp16: float
    """Memory against float16."""
    perplexity: float
    rise: float
    """Perplexity over that of float32 on the same tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the text is read."""

    n_tokens: int = 20_480
    window: int = 1024
    chunk: int = 256


def measure(formats: Sequence[KvFormat], reading: Reading) -> Iterator[Row]:
    """Measure the bundled model, float32 first, then the other `formats`."""
    files = locate("smollm2")
    checkpoint = open_checkpoint(files)
    weights = load_weights(checkpoint, device=torch.device("cpu"), dtype=torch.float32)
    decoder = Decoder(checkpoint.config, weights, SdpaAttention())
    tokenizer, _ = load_text(files.tokenizer)
    ids = tokenizer.encode("\n\n".join(topics[name] for name in sorted(topics)))
    if len(ids) < reading.n_tokens:
        raise ValueError(f"the text has {len(ids)} tokens, fewer than {reading.n_tokens}")
    base = perplexity(decoder, BASE, ids, reading)
    yield _row(BASE, checkpoint.config, base, base)
    for kv_format in formats:
        if kv_format is not BASE:
            found = perplexity(decoder, kv_format, ids, reading)
            yield _row(kv_format, checkpoint.config, found, base)


def perplexity(
    decoder: Decoder, kv_format: KvFormat, ids: Sequence[int], reading: Reading
) -> float:
    """exp of the mean negative log-likelihood of each window's tokens but its first."""
    storage = pool_for(decoder, n_slots=reading.window, kv_format=kv_format)
    loss, n = 0.0, 0
    for start in range(0, reading.n_tokens - reading.window + 1, reading.window):
        window = torch.tensor(ids[start : start + reading.window])
        for first in range(0, reading.window, reading.chunk):
            logits = _logits(decoder, storage, window[first : first + reading.chunk], first)
            targets = window[first + 1 : first + reading.chunk + 1]
            loss += float(
                functional.cross_entropy(logits[: len(targets)], targets, reduction="sum")
            )
            n += len(targets)
    return math.exp(loss / n)


def _logits(decoder: Decoder, storage: KvStorage, ids: Tensor, first: int) -> Tensor:
    """Logits [n, vocab] of `ids` [n] at position `first`; slots are positions."""
    n = len(ids)
    past = (Extent(0, first),) if first else ()
    lane = Lane(past=past, position=first, n_new=n, own=(Extent(first, n),))
    places = torch.arange(first, first + n)
    batch = ForwardBatch(
        token_ids=ids,
        positions=places,
        slots=places,
        logit_rows=torch.arange(n),
        plan=build_plan([lane]),
    )
    return decoder.forward(batch, storage)


def _row(kv_format: KvFormat, config: ModelConfig, found: float, base: float) -> Row:
    def size(of: KvFormat) -> int:
        return bytes_per_token(
            of, n_layers=config.n_layers, n_kv_heads=config.n_kv_heads, head_dim=config.head_dim
        )

    return Row(
        kv_format=kv_format,
        bytes_per_token=size(kv_format),
        share_of_fp16=size(kv_format) / size(KvFormat.FLOAT16),
        perplexity=found,
        rise=found - base,
    )


def write(rows: Sequence[Row], reading: Reading) -> None:
    """Put the figures into docs/benchmarks.json; those of other benchmarks stay."""
    note = (
        f"SmolLM2-135M f32, {reading.n_tokens} tokens of pydoc_data.topics, windows of "
        f"{reading.window}, chunks of {reading.chunk}"
    )
    figures: list[dict[str, object]] = []
    for row in rows:
        name = f"kv_{row.kv_format}"
        for key, value, unit in (
            (f"{name}_bytes_per_token", row.bytes_per_token, "bytes"),
            (f"{name}_share_of_fp16", row.share_of_fp16, "ratio"),
            (f"{name}_perplexity", row.perplexity, "perplexity"),
            (f"{name}_perplexity_rise", row.rise, "perplexity"),
        ):
            figures.append({"name": key, "value": round(value, 4), "unit": unit, "note": note})
    names = {figure["name"] for figure in figures}
    others = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    kept = [figure for figure in others if figure["name"] not in names]
    OUTPUT.write_text(json.dumps([*kept, *figures], indent=1) + "\n")


def main() -> int:
    """Measure, print a table, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=Reading().n_tokens)
    parser.add_argument("--window", type=int, default=Reading().window)
    parser.add_argument("--chunk", type=int, default=Reading().chunk)
    parser.add_argument("--formats", nargs="*", type=KvFormat.parse, default=list(KvFormat))
    parser.add_argument("--dry", action="store_true", help="do not write docs/benchmarks.json")
    args = parser.parse_args()
    reading = Reading(n_tokens=args.tokens, window=args.window, chunk=args.chunk)
    rows: list[Row] = []
    started = time.process_time()
    for row in measure(args.formats, reading):
        rows.append(row)
        sys.stdout.write(
            f"{row.kv_format:10} {row.bytes_per_token:7} B/token {row.share_of_fp16:6.3f} of fp16"
            f"  ppl {row.perplexity:8.4f}  rise {row.rise:+.4f}"
            f"  ({time.process_time() - started:.0f} s of CPU)\n"
        )
        sys.stdout.flush()
    if not args.dry:
        write(rows, reading)
    return 0


if __name__ == "__main__":
    sys.exit(main())
