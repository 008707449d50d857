"""The final bytes: pieces, marks, and what stands behind the prompt.

The prompt comes first in the body. So, but for the marks, the body of a run's next request begins
with the bytes of this one, up to its volatile text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agentkit.caching.plan.plan import CachePlan, PlacedMark
from agentkit.models.hosted.openai_common import CACHE_FIELDS
from agentkit.models.hosted.openai_responses.layout import ResponsesLayout
from agentkit.models.hosted.openai_responses.pieces import joined
from agentkit.models.hosted.wire import Body
from agentkit.models.hosted.wire_json import compact_json

_MARKS = frozenset(("prompt_cache_breakpoint", "prompt_cache_options"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesBody(Body):
    """A finished request that can be finished otherwise."""

    run: str
    """Which requests follow each other."""
    render: Callable[[frozenset[str], bool], bytes] = field(compare=False, repr=False)
    """Returns the bytes without some cache fields, or as a request that only warms the cache."""


def render(
    layout: ResponsesLayout,
    plan: CachePlan,
    fields: Mapping[str, object],
    *,
    without: frozenset[str] = frozenset(),
    prewarm: bool = False,
    compare_with: str | None = None,
) -> bytes:
    """Return the body.

    Raises:
        ValueError: the plan marks a piece that cannot carry a breakpoint.
    """
    marks = {} if without & _MARKS else {mark.index: mark for mark in plan.marks}
    pieces, n_tools = layout.pieces, layout.n_tools
    misplaced = [index for index in marks if not pieces[index].is_markable]
    if misplaced:
        raise ValueError(
            f"pieces {misplaced} are whole items and cannot carry a breakpoint; "
            "mark a part of a message or of a tool's output"
        )
    cache = cache_fields(plan, prewarm=prewarm, compare_with=compare_with)
    kept = {name: value for name, value in cache.items() if name not in without}
    if without & _MARKS:
        kept.pop("prompt_cache_options", None)
    tail = compact_json({**fields, **kept, **plan.hints.body})
    tools = b",".join(piece.data for piece in pieces[:n_tools])
    return b"".join(
        (
            b'{"tools":[' + tools + b"]," if n_tools else b"{",
            b'"input":[',
            b",".join(_texts(layout, marks)),
            b"],",
            tail[1:],
        )
    )


def cache_fields(
    plan: CachePlan, *, prewarm: bool = False, compare_with: str | None = None
) -> dict[str, object]:
    """Return the top-level fields that a plan asks for. Defaults are left out."""
    options: dict[str, object] = {}
    if plan.openai.mode != "implicit":
        options["mode"] = plan.openai.mode
    if plan.openai.ttl is not None:
        options["ttl"] = plan.openai.ttl.value
    if compare_with is not None:
        options["comparison_response_id"] = compare_with
    if prewarm:
        options["prewarm"] = True
    fields = {
        "prompt_cache_key": plan.cache_key,
        "prompt_cache_options": options or None,
        "prompt_cache_retention": plan.openai.retention,
    }
    return {name: value for name, value in fields.items() if value is not None}


def dropped_with(names: Sequence[str]) -> frozenset[str]:
    """Return what must go when a server does not know these fields.

    Breakpoints and options go together: in explicit mode a request without breakpoints would not
    be cached at all.
    """
    found = frozenset(names) & frozenset(CACHE_FIELDS)
    return found | _MARKS if found & _MARKS else found


def _texts(layout: ResponsesLayout, marks: Mapping[int, PlacedMark]) -> list[bytes]:
    """Return the items, message by message; those without marks are as they were made."""
    found = list(layout.texts)
    for number in {bisect_right(layout.starts, index) - 1 for index in marks}:
        end = layout.starts[number + 1] if number + 1 < len(found) else len(layout.pieces)
        places = range(layout.starts[number], end)
        pieces = [layout.pieces[place] for place in places]
        datas = [
            _marked(piece.data, marks[place]) if place in marks else piece.data
            for place, piece in zip(places, pieces, strict=True)
        ]
        found[number] = joined(pieces, datas)
    return found


def _marked(data: bytes, mark: PlacedMark) -> bytes:
    value = {"mode": "explicit"} | ({} if mark.ttl is None else {"ttl": mark.ttl.value})
    return data[:-1] + b',"prompt_cache_breakpoint":' + compact_json(value) + b"}"
