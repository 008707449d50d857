"""What `agentkit-runtime top` shows, computed from the documents of the admin API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WINDOW_S = 60
"""Rates, ratios and times to the first token are those of so many seconds."""

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A part of the tree that many requests have used."""

    tenant: str
    hits: int
    start: int
    """Tokens before it."""
    tokens: int
    marks: tuple[str, ...]
    """Pinned, published, in use; tags and sessions of it and of what is below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopFigures:
    """One look at a server. Tokens, seconds, shares from 0 to 1; None where there was nothing."""

    model: str
    phase: str
    up_s: float
    pressure: float | None
    pressure_cause: str | None
    slots: int
    held: int
    cached: int
    free: int
    pinned: int
    running: int
    waiting: int
    hit_ratio: float | None
    """Of the prompt tokens of the last minute."""
    hit_ratio_since_start: float | None
    thrash: float | None
    """Share of computed prompt tokens that had been cached lately, in the last minute."""
    prompt_tokens_per_s: float
    generated_tokens_per_s: float
    hit_ttft_s: float | None
    """Mean time to the first token in the last minute; a hit has half of its prompt cached."""
    miss_ttft_s: float | None
    branches: tuple[Branch, ...]
    requests: tuple[Document, ...]


def figures(
    state: Document, requests: Sequence[Document], nodes: Sequence[Document], *, n_branches: int = 8
) -> TopFigures:
    """From `state`, the rows of `requests` and the nodes of `tree`."""
    pool, scheduler, pressure = state["pool"], state["scheduler"], state["pressure"]
    begun_s = state["time_s"] - WINDOW_S
    lately = [sample for sample in state["history"] if sample["time_s"] > begun_s]
    seconds = _sum(lately, "interval_s")
    return TopFigures(
        model=state["model"],
        phase=state["phase"] or ("ready" if state["healthy"] else "stopped"),
        up_s=state["time_s"] - state["started_s"],
        pressure=None if pressure is None else pressure["index"],
        pressure_cause=None if pressure is None else pressure["cause"],
        slots=pool["total"],
        held=pool["held"],
        cached=pool["cached"],
        free=pool["free"],
        pinned=pool["pinned"],
        running=scheduler["running"],
        waiting=sum(scheduler["waiting"].values()),
        hit_ratio=_share(_sum(lately, "hit_tokens"), _sum(lately, "prompt_tokens")),
        hit_ratio_since_start=state["counts"]["hit_ratio"],
        thrash=_share(_sum(lately, "lost_tokens"), _sum(lately, "prefill_tokens")),
        prompt_tokens_per_s=_share(_sum(lately, "prompt_tokens"), seconds) or 0.0,
        generated_tokens_per_s=_share(_sum(lately, "generated_tokens"), seconds) or 0.0,
        hit_ttft_s=_share(_sum(lately, "warm_ttft_s"), _sum(lately, "warm_requests")),
        miss_ttft_s=_share(_sum(lately, "cold_ttft_s"), _sum(lately, "cold_requests")),
        branches=_hottest(nodes, n_branches),
        requests=tuple(requests),
    )


def _hottest(nodes: Sequence[Document], n: int) -> tuple[Branch, ...]:
    tags, sessions = _below(nodes, "tags"), _below(nodes, "sessions")
    used = [place for place, node in enumerate(nodes) if node["hits"] and node["tokens"]]
    used.sort(key=lambda place: (-nodes[place]["hits"], -nodes[place]["tokens"], place))
    return tuple(_branch(nodes[place], tags[place], sessions[place]) for place in used[:n])


def _below(nodes: Sequence[Document], label: str) -> list[set[str]]:
    """Labels of each node and of all below it: the tree has them where requests ended."""
    found = [set(node[label]) for node in nodes]
    for place in range(len(nodes) - 1, -1, -1):  # parents come before their children
        parent = nodes[place]["parent"]
        if parent is not None:
            found[parent] |= found[place]
    return found


def _branch(node: Document, tags: set[str], sessions: set[str]) -> Branch:
    states = tuple(
        word
        for field, word in (("pinned", "pinned"), ("published", "published"), ("locked", "in use"))
        if node[field]
    )
    named = [f"session {session}" for session in sessions]
    used_by = named if len(named) < 2 else [f"{len(named)} sessions"]
    return Branch(
        tenant=node["tenant"],
        hits=node["hits"],
        start=node["start"],
        tokens=node["tokens"],
        marks=(*states, *sorted(tags), *used_by),
    )


def _sum(samples: Sequence[Document], name: str) -> float:
    return float(sum(sample[name] for sample in samples))


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
