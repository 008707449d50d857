"""What a save adds to a run, as JSON; and the run again, from all that was added.

A step holds the fields that have changed, and of those that only grow what is new. Fields that
`SavedRun` gets later are kept by themselves.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_type_hints

from agentkit.blocks import Message, message_from_json, message_to_json
from agentkit.caching.report import RequestRecord
from agentkit.context import Context, Segment
from agentkit.context.canonical import chain_digest, digest
from agentkit.json_values import decode, encode
from agentkit.saved import Memory, SavedRun, SavedTurn, WayBack


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRow:
    """One more segment of a context."""

    digest: str
    parent: str | None
    depth: int
    segment: Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one save adds."""

    kind: str
    """`begin`, `epoch`, `turn`, `call`, `result`, `context`, `paused`, `done`, `failed`,
    `cancelled`, `step`."""
    turn: int
    head: str | None
    """The context's digest; None: it is the one before."""
    back: str | None
    """The digest of the context that it may go back to, where that is another than before."""
    rows: tuple[ChainRow, ...]
    """The part of these contexts that the one before does not have."""
    kept: Mapping[str, str]
    """Long tool results that are new, by handle."""
    requests: tuple[RequestRecord, ...]
    """Those that are new; they are in `data` already."""
    data: str
    """The rest, as JSON text."""


def first_step(run: SavedRun) -> Step:
    """Return the step that begins a run, or puts another in the place of all before it."""
    return _step(run, None)


def next_step(run: SavedRun, before: SavedRun) -> Step | None:
    """Return what is new since `before`; None where `run` does not go on from it."""
    n_requests = len(before.requests)
    if n_requests > len(run.requests) or run.began_at != before.began_at:
        return None
    if n_requests and not _same(run.requests[n_requests - 1], before.requests[-1]):
        return None
    return _step(run, before)


def _step(run: SavedRun, before: SavedRun | None) -> Step:
    old_head = None if before is None else before.context.digest
    head = run.context.digest if before is None or run.context.digest != old_head else None
    rows: tuple[ChainRow, ...] = ()
    if head is not None:
        rows = _rows(run.context, () if old_head is None else (old_head,))
    way = run.way_back
    has_other_way = way is not (None if before is None else before.way_back)
    if way is not None and has_other_way:
        rows += _rows(way.context, () if old_head is None else (old_head,))
    n_requests = 0 if before is None else len(before.requests)
    requests = run.requests[n_requests:]
    kept = _new_kept(run.memory, None if before is None else before.memory)
    data: dict[str, Any] = {"set": _changed(run, before)}
    if before is None or run.open_turn != before.open_turn:
        data["open"] = _open(run.open_turn, None if before is None else before.open_turn)
    if requests:
        data["requests"] = [encode(request, None) for request in requests]
    if has_other_way:
        data["way"] = None if way is None else [way.n_old_messages, way.n_said]
    if before is None or run.said_before is not before.said_before:
        data["said"] = _grown(run.said_before, () if before is None else before.said_before)
    if before is None or kept or len(run.memory.kept) != len(before.memory.kept):
        data["kept"] = list(run.memory.kept)
    return Step(
        kind=_kind(run, before, head is not None),
        turn=run.turn,
        head=head,
        back=way.context.digest if way is not None and has_other_way else None,
        rows=rows,
        kept=kept,
        requests=requests,
        data=json.dumps(data, separators=(",", ":")),
    )


def _rows(context: Context, known: tuple[str, ...]) -> tuple[ChainRow, ...]:
    base, behind = context.split_at(known)
    parent = base.digest if len(base) else None
    rows = []
    for depth, segment in enumerate(behind, len(base) + 1):
        link = chain_digest(parent, segment.digest)
        rows.append(ChainRow(digest=link, parent=parent, depth=depth, segment=segment))
        parent = link
    return tuple(rows)


def _new_kept(memory: Memory, before: Memory | None) -> Mapping[str, str]:
    if before is None:
        return memory.kept
    if memory.kept is before.kept:
        return {}
    return {handle: text for handle, text in memory.kept.items() if handle not in before.kept}


def _changed(run: SavedRun, before: SavedRun | None) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for name in _values():
        value = getattr(run, name)
        if before is not None and _same(value, getattr(before, name)):
            continue
        if isinstance(value, Memory):
            value = replace(value, kept={})
        changed[name] = encode(value, None)
    return changed


def _open(turn: SavedTurn | None, before: SavedTurn | None) -> dict[str, Any] | None:
    """Return what an open turn adds to itself. One with a `message` begins."""
    if turn is None:
        return None
    if before is None or turn.message != before.message or not _grows(turn, before):
        return {name: encode(getattr(turn, name), None) for name in _of_turn()}
    more: dict[str, Any] = {
        name: getattr(turn, name)
        for name in _of_turn()
        if not _same(getattr(turn, name), getattr(before, name))
    }
    if "results" in more:
        more["results"] = {
            call_id: result
            for call_id, result in turn.results.items()
            if call_id not in before.results
        }
    if "started" in more:
        more["started"] = turn.started - before.started
    return {name: encode(value, None) for name, value in more.items()}


def _grows(turn: SavedTurn, before: SavedTurn) -> bool:
    return before.started <= turn.started and all(
        _same(turn.results.get(call_id), result) for call_id, result in before.results.items()
    )


def _grown(said: tuple[Message, ...], before: tuple[Message, ...]) -> dict[str, Any]:
    n_same = len(before) if said[: len(before)] == before else 0
    return {"from": n_same, "add": [message_to_json(message) for message in said[n_same:]]}


def _kind(run: SavedRun, before: SavedRun | None, moved: bool) -> str:
    if before is None:
        return "begin"
    if run.status != "running":
        return run.status
    if run.memory.epoch != before.memory.epoch:
        return "epoch"
    now, then = run.open_turn, before.open_turn
    if now is not None:
        if then is None or then.message != now.message:
            return "turn"
        return "result" if len(now.results) > len(then.results) else "call"
    return "context" if moved else "step"


def _same(first: object, second: object) -> bool:
    return first is second or first == second


@functools.cache
def _values() -> tuple[str, ...]:
    """Fields of a run that are kept whole when they have changed."""
    apart = ("context", "open_turn", "requests", "said_before", "way_back", "claim")
    return tuple(item.name for item in fields(SavedRun) if item.name not in apart)


@functools.cache
def _of_turn() -> tuple[str, ...]:
    return tuple(item.name for item in fields(SavedTurn))


@functools.cache
def _hints() -> Mapping[str, Any]:
    return get_type_hints(SavedRun)


@dataclass(slots=True)
class Folded:
    """The steps of a run, put together one by one. What `head`, `back` and `handles` name is in
    other tables."""

    values: dict[str, Any] = field(default_factory=dict)
    open: dict[str, Any] | None = None
    requests: list[Any] = field(default_factory=list)
    said: list[Any] = field(default_factory=list)
    handles: tuple[str, ...] = ()
    head: str | None = None
    back: str | None = None
    way: list[int] | None = None

    def add(self, kind: str, head: str | None, text: str, back: str | None) -> None:
        """Add the next step.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is damaged.
        """
        if kind == "begin":
            self.values, self.open, self.requests, self.said = {}, None, [], []
            self.way = self.back = None
        data = json.loads(text)
        self.head = head or self.head
        self.values |= data["set"]
        self.requests += data.get("requests", ())
        if "open" in data:
            self._add_open(data["open"])
        if "said" in data:
            self.said[data["said"]["from"] :] = data["said"]["add"]
        if "way" in data:
            self.way, self.back = data["way"], back
        if "kept" in data:
            self.handles = tuple(data["kept"])

    def _add_open(self, data: dict[str, Any] | None) -> None:
        if data is None or "message" in data or self.open is None:
            self.open = data
            return
        more = dict(data)
        results = self.open["results"] | more.pop("results", {})
        started = [*self.open["started"], *more.pop("started", ())]
        self.open = {**self.open, **more, "results": results, "started": started}

    def memory(self, kept: Mapping[str, str]) -> Memory:
        """Return what is known of the conversation."""
        memory: Memory = decode(Memory, self.values["memory"], None)
        return replace(memory, kept={handle: kept[handle] for handle in self.handles})

    def run(self, context: Context, back: Context, kept: Mapping[str, str], claim: str) -> SavedRun:
        """Return the run; by `claim` it is saved now.

        Args:
            context: that of `head`.
            back: that of `back`.
            kept: long tool results, by handle.
            claim: of whoever has the run.

        Raises:
            FormatError, KeyError, TypeError, ValueError, AttributeError: a step is damaged.
        """
        hints = _hints()
        values = {name: decode(hints[name], value, None) for name, value in self.values.items()}
        way = None
        if self.way is not None:
            n_old, n_said = self.way
            way = WayBack(context=back, n_old_messages=n_old, n_said=n_said)
        return SavedRun(
            **{
                **values,
                "context": context,
                "memory": self.memory(kept),
                "open_turn": decode(hints["open_turn"], self.open, None),
                "requests": tuple(decode(RequestRecord, each, None) for each in self.requests),
                "said_before": tuple(map(message_from_json, self.said)),
                "way_back": way,
                "claim": claim,
            }
        )


def kept_digest(text: str) -> str:
    """Return what a long tool result is found by."""
    return digest(text.encode())
