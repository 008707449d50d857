"""Recorded requests as sequences of blocks: one int32 stands for 512 tokens and all before them.

Two formats, one JSON object a line, in plain text or xz. Mooncake: a request {timestamp (ms),
hash_ids}, its ids chained by prefix. Agents: a session {id, block_size, tool_tokens, system_tokens,
requests}; a request {t, then, same_prefix_blocks, stop, api_time} has the first ids of the request
before it in the same session and then its own, and the requests of a subagent are nested. Ids mean
something within one session only, so a shared front can be told by its sizes alone: sessions whose
tools and system text have the same numbers of tokens count as beginning with the same text.
"""

from __future__ import annotations

import json
import lzma
import random
from array import array
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

BLOCK_TOKENS = 512


class After(Enum):
    """What becomes of a session when a request has been answered."""

    UNKNOWN = "nobody knows"
    TOOL = "waits for a tool"
    PERSON = "waits for a person"
    CLOSED = "closed"


_AFTER_STOP = {"tool_use": After.TOOL, "end_turn": After.PERSON}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt. Times are seconds from the start of the trace."""

    blocks: array[int]
    at_s: float
    until_s: float
    """When its answer was complete."""
    session: str | None = None
    agent: str = ""
    """The agent's type: who has the same begins with the same front."""
    front: int = 0
    """Leading blocks of tools and system text."""
    helpers: frozenset[str] = frozenset()
    """Types of the subagents that the session may start."""
    after: After = After.UNKNOWN


def is_agent_trace(path: Path) -> bool:
    """Whether a file has sessions of agents; else it has Mooncake's requests."""
    return "requests" in next(_lines(path))


def mooncake(path: Path) -> list[Request]:
    """All requests of a Mooncake trace, in order."""
    requests = []
    for row in _lines(path):
        at_s = row["timestamp"] / 1_000
        requests.append(Request(blocks=array("i", row["hash_ids"]), at_s=at_s, until_s=at_s))
    return requests


def sessions(path: Path) -> list[dict[str, Any]]:
    """All sessions of an agent trace, as they are in the file."""
    return list(_lines(path))


def started_within(
    recorded: Sequence[dict[str, Any]],
    *,
    n_sessions: int = 64,
    spread_s: float = 3_600.0,
    longest: int = 200_000,
    seed: int,
) -> list[Request]:
    """The requests of `n_sessions` drawn sessions that start within `spread_s`, in order of time.

    Sessions with prompts of more than `longest` tokens are not drawn. Raises ValueError when too
    few are left.
    """
    draw = random.Random(seed)
    drawn = [n for n, session in enumerate(recorded) if _longest(session) <= longest]
    draw.shuffle(drawn)
    if n_sessions > len(drawn):
        raise ValueError(
            f"{n_sessions} sessions wanted, but of {len(recorded)} recorded ones {len(drawn)} keep "
            f"below {longest} tokens"
        )
    chain = _Chain()
    requests: list[Request] = []
    for index in drawn[:n_sessions]:
        start_s = draw.uniform(0.0, spread_s)
        requests += _session(recorded[index], start_s, f"session-{index}", chain)
    return sorted(requests, key=lambda request: request.at_s)


class _Chain:
    """Numbers blocks by what they are and what is before them."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, Hashable], int] = {}

    def follow(self, known: array[int], contents: Iterable[Hashable]) -> array[int]:
        """`known`, and behind it the blocks with these contents."""
        blocks = known[:]
        for content in contents:
            key = (blocks[-1] if blocks else -1, content)
            blocks.append(self._numbers.setdefault(key, len(self._numbers)))
        return blocks


def _session(
    session: dict[str, Any], start_s: float, name: str, chain: _Chain
) -> Iterator[Request]:
    per_block = BLOCK_TOKENS // session["block_size"]
    own = [row for row in session["requests"] if row["type"] != "subagent"]
    helpers = [row for row in session["requests"] if row["type"] == "subagent"]
    types = frozenset(_agent(helper) for helper in helpers)
    yield from _branch(own, session, start_s, name, per_block, chain, types)
    for number, helper in enumerate(helpers):
        begun_s = start_s + helper["t"]
        branch = f"{name}/{number}"
        yield from _branch(helper["requests"], helper, begun_s, branch, per_block, chain)


def _branch(
    rows: Sequence[dict[str, Any]],
    owner: dict[str, Any],
    start_s: float,
    name: str,
    per_block: int,
    chain: _Chain,
    helpers: frozenset[str] = frozenset(),
) -> Iterator[Request]:
    """Requests that continue each other."""
    agent = _agent(owner)
    front = (owner["tool_tokens"] + owner["system_tokens"]) // BLOCK_TOKENS
    scope = name.partition("/")[0]
    ids: list[int] = []
    blocks: array[int] = array("i")
    for index, row in enumerate(rows):
        n_same = row["same_prefix_blocks"]
        ids = ids[:n_same] + row["then"]
        n_known = min(n_same // per_block, len(blocks))
        contents = (
            (agent, n) if n < front else (scope, *ids[n * per_block : (n + 1) * per_block])
            for n in range(n_known, len(ids) // per_block)
        )
        blocks = chain.follow(blocks[:n_known], contents)
        at_s = start_s + row["t"]
        yield Request(
            blocks=blocks,
            at_s=at_s,
            until_s=at_s + (row.get("api_time") or 0.0),
            session=name,
            agent=agent,
            front=min(front, len(blocks)),
            helpers=helpers,
            after=_after(row, is_last=index == len(rows) - 1),
        )


def _longest(session: dict[str, Any]) -> int:
    return max((row["in"] for row in session["requests"] if "in" in row), default=0)


def _after(row: dict[str, Any], *, is_last: bool) -> After:
    if is_last:
        return After.CLOSED
    return {"tool_use": After.TOOL, "end_turn": After.PERSON}.get(
        row.get("stop", ""), After.UNKNOWN
    )


def _agent(owner: dict[str, Any]) -> str:
    return f"{owner['tool_tokens']}+{owner['system_tokens']}"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)
