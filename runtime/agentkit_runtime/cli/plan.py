"""`agentkit-runtime kv-plan`: how many tokens and users fit into a memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from agentkit_runtime.capacity.plan import WEIGHT_BITS, KvPlan, plan_kv
from agentkit_runtime.capacity.resolve import resolve_shape
from agentkit_runtime.capacity.shapes import SHAPES
from agentkit_runtime.capacity.sizes import parse_bytes, parse_tokens
from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.kv.format import KvFormat

_KV_NAMES = ", ".join(KvFormat)

_LEAST_MEMORY = 1_000_000
"""Bytes; who names fewer has left out the unit."""


def kv_plan(
    model: Annotated[
        str,
        typer.Argument(
            help=f"A config.json, a model folder, a .gguf file, or one of: {', '.join(SHAPES)}."
        ),
    ],
    memory: Annotated[str, typer.Option(help="Memory of the device, e.g. 80GB or 24GiB.")],
    kv_dtype: Annotated[
        str, typer.Option(help=f"Format of keys and values: fp8, {_KV_NAMES}.")
    ] = "bfloat16",
    weights: Annotated[
        str, typer.Option(help=f"Format of the weights: {', '.join(WEIGHT_BITS)}.")
    ] = "bfloat16",
    context: Annotated[
        str, typer.Option(help="Tokens of a conversation, e.g. 32k; the model's most if less.")
    ] = "32k",
    shared: Annotated[
        str | None,
        typer.Option(
            help="Of them, tokens of a prefix that all users share.",
            show_default="4k, at most half of the context",
        ),
    ] = None,
    reserve: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Part of the memory that is left free.")
    ] = 0.05,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Say how many tokens and users of MODEL fit into a memory. Nothing is loaded."""
    try:
        label, config = resolve_shape(model)
        n_context = min(parse_tokens(context), config.max_position)
        n_shared = min(4096, n_context // 2) if shared is None else parse_tokens(shared)
        plan = plan_kv(
            config,
            model=label,
            memory_bytes=_memory(memory),
            kv_format=KvFormat.parse(kv_dtype),
            weights=weights,
            context=n_context,
            shared=n_shared,
            reserve=reserve,
        )
    except (RuntimeFault, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    typer.echo(json.dumps(asdict(plan)) if as_json else "\n".join(_lines(plan)))


def _memory(text: str) -> int:
    n_bytes = parse_bytes(text)
    if n_bytes < _LEAST_MEMORY:
        raise ValueError(
            f"--memory {text} is {n_bytes} bytes, and no model fits into so little; "
            "give it with a unit, such as 80GB"
        )
    return n_bytes


def _lines(plan: KvPlan) -> Iterator[str]:
    memory = _gigabytes(plan.memory_bytes)
    scales = f", of them {plan.scale_bytes_per_token:,} scales" * bool(plan.scale_bytes_per_token)
    yield f"{plan.model} in {memory}"
    yield f"  weights    {_gigabytes(plan.weight_bytes)} ({plan.weights})"
    yield f"  left free  {_gigabytes(plan.reserve_bytes)}"
    yield f"  KV         {plan.bytes_per_token:,} bytes per token ({plan.kv_dtype}{scales})"
    if not plan.tokens:
        needed = _gigabytes(plan.weight_bytes + plan.reserve_bytes)
        yield f"  tokens     0: weights and reserve need {needed}, take smaller weights"
        return
    yield f"  tokens     {plan.tokens:,}"
    yield f"  users      {plan.users:,} with {plan.context:,} tokens each"
    yield f"             {plan.users_shared:,} when they share the first {plan.shared:,} of them"


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.1f} GB"
