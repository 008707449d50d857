"""Small formulas of cache economics. Multipliers are relative to the price of plain input."""

from __future__ import annotations

from decimal import Decimal


def break_even_reads(write: Decimal, read: Decimal) -> Decimal:
    """Return how many expected re-reads pay for one write: (write - 1) / (1 - read).

    With 1.25 and 0.1 it is 0.28: a write pays if the chance of one re-read is above 28 %.
    """
    _check(read)
    return (write - 1) / (1 - read)


def keep_alive_pings(write: Decimal, read: Decimal) -> int:
    """Return how many reads, made only to keep an entry alive, are cheaper than one new write.

    It is the largest n with n * read <= write - read: the miss costs a write where a read was due.
    """
    _check(read)
    if not read:
        raise ValueError("reads at price 0 keep an entry alive for ever; there is no bound to give")
    return int((write - read) / read)


def padding_pays(
    n_tokens: int, minimum_tokens: int, *, write: Decimal, read: Decimal, n_requests: int
) -> bool:
    """Return whether a prefix below the minimum is cheaper when padded up to it.

    OpenAI's guide of 2026-09-20: pad if L > M (r + (w - r) / N), for N requests.
    """
    if n_requests < 1:
        raise ValueError(f"n_requests must be at least 1, got {n_requests!r}")
    return n_tokens > minimum_tokens * (read + (write - read) / n_requests)


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, dtype_bytes: int) -> int:
    """Return the bytes of keys and values that one token holds in a model's cache.

    Two tensors (K and V) for each layer, KV head and dimension. Llama-3-70B in 16 bit:
    2 * 80 * 8 * 128 * 2 = 327,680.
    """
    for name, value in (
        ("layers", layers),
        ("kv_heads", kv_heads),
        ("head_dim", head_dim),
        ("dtype_bytes", dtype_bytes),
    ):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value!r}")
    return 2 * layers * kv_heads * head_dim * dtype_bytes


def _check(read: Decimal) -> None:
    if not 0 <= read < 1:
        raise ValueError(f"read must be a multiplier from 0 to below 1, got {read!r}")
