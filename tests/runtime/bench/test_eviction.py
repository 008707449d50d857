"""The benchmark of eviction: what it reads, what it replays, and what its optimum is."""

from __future__ import annotations

import itertools
import json
import lzma
import random
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import eviction
from bench.eviction_belady import optimum
from bench.eviction_replay import NO_ADVICE, Advice, replay
from bench.eviction_traces import (
    After,
    Request,
    is_agent_trace,
    mooncake,
    sessions,
    started_within,
)
from bench.figures import read


def write(path: Path, rows: Sequence[object]) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".xz":
        path.write_bytes(lzma.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def turn(t: float, n_same: int, then: list[int], stop: str = "tool_use") -> dict[str, object]:
    n_tokens = 256 * (n_same + len(then))
    row = {"t": t, "type": "n", "in": n_tokens, "stop": stop, "api_time": 1.0}
    return row | {"same_prefix_blocks": n_same, "then": then}


def session(*requests: dict[str, object], tool_tokens: int = 600) -> dict[str, object]:
    sizes = {"block_size": 256, "tool_tokens": tool_tokens, "system_tokens": 424}
    return {**sizes, "requests": list(requests)}


def prompts(*paths: Sequence[int]) -> list[array[int]]:
    return [array("i", path) for path in paths]


def asked(at_s: float, name: str, *blocks: int, after: After = After.TOOL) -> Request:
    return Request(
        blocks=array("i", blocks), at_s=at_s, until_s=at_s, session=name, agent="a", after=after
    )


def test_a_trace_of_chats_is_read_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl.xz", [{"timestamp": 1500, "hash_ids": [4, 5]}])

    assert not is_agent_trace(path)
    (request,) = mooncake(path)
    assert (request.blocks.tolist(), request.at_s, request.session) == ([4, 5], 1.5, None)


def test_a_request_of_a_session_has_what_it_kept_and_what_is_new(tmp_path: Path) -> None:
    row = session(
        turn(0.0, 0, [1, 2, 3, 4, 5, 6, 7]),
        turn(9.0, 6, [8, 9], stop="end_turn"),
        turn(20.0, 6, [10, 11]),
    )
    path = write(tmp_path / "t.jsonl", [row])

    assert is_agent_trace(path)
    first, second, third = started_within(sessions(path), n_sessions=1, spread_s=5.0, seed=1)
    assert len(first.blocks) == 3, "two blocks of 256 tokens are one; the last is not full"
    assert second.blocks[:3] == first.blocks
    assert third.blocks[:3] == first.blocks
    assert third.blocks[3] != second.blocks[3]
    assert (first.front, first.agent) == (2, "600+424")
    assert [first.after, second.after, third.after] == [After.TOOL, After.PERSON, After.CLOSED]
    assert second.at_s - first.at_s == pytest.approx(9.0)
    assert first.until_s - first.at_s == pytest.approx(1.0)


def test_sessions_share_the_front_of_their_type_and_nothing_else() -> None:
    rows = [session(turn(0.0, 0, [1, 2, 3, 4, 5, 6])) for _ in range(2)]
    rows.append(session(turn(0.0, 0, [1, 2, 3, 4, 5, 6]), tool_tokens=601))

    requests = started_within(rows, n_sessions=3, seed=1)
    one, two = (request.blocks for request in requests if request.agent == "600+424")
    (other,) = (request.blocks for request in requests if request.agent != "600+424")
    assert one[:2] == two[:2]
    assert one[2] != two[2]
    assert not set(other) & {*one, *two}


def test_subagents_are_sessions_of_their_own_that_their_parent_may_start() -> None:
    helper = {"type": "subagent", "t": 5.0, "tool_tokens": 512, "system_tokens": 0}
    helper["requests"] = [turn(0.0, 0, [7, 8, 9, 10]), turn(2.0, 4, [11, 12])]
    row = session(turn(0.0, 0, [1, 2]), helper, turn(30.0, 2, [3, 4]))

    parent, child, again, last = started_within([row], n_sessions=1, seed=1)
    assert child.session == again.session != parent.session == last.session
    assert (child.at_s - parent.at_s, child.front) == (pytest.approx(5.0), 1)
    assert again.blocks[:2] == child.blocks
    assert parent.helpers == {child.agent}


def test_sessions_too_long_for_the_smallest_cache_are_not_drawn() -> None:
    rows = [session(turn(0.0, 0, [1, 2])), session(turn(0.0, 0, [1, 2, 3, 4]))]

    (request,) = started_within(rows, n_sessions=1, longest=600, seed=1)
    assert len(request.blocks) == 1
    with pytest.raises(ValueError, match=r"2 sessions wanted, but of 2 recorded ones 1 keep below"):
        started_within(rows, n_sessions=2, longest=600, seed=1)


def best_by_trying(paths: list[array[int]], n_blocks: int) -> int:
    """Blocks found if every subset that fits may be kept after each request."""
    best = {frozenset[int](): 0}
    for path in paths:
        after: dict[frozenset[int], int] = {}
        for kept, found in best.items():
            # The request has all its blocks at once; of the others, those that fit beside it.
            others = kept - set(path)
            room = max(0, n_blocks - len(path))
            n_found = found + len(kept & set(path))
            for n in range(min(room, len(others)) + 1):
                for beside in itertools.combinations(sorted(others), n):
                    held = sorted({*beside, *path})
                    for m in range(min(n_blocks, len(held)) + 1):
                        for left in itertools.combinations(held, m):
                            state = frozenset(left)
                            after[state] = max(after.get(state, 0), n_found)
        best = after
    return max(best.values())


def chained(draw: random.Random, n_prompts: int) -> list[array[int]]:
    """Prompts of one to three blocks in a tree with two branches at each block."""
    paths = []
    for _ in range(n_prompts):
        node, path = 1, []
        for _ in range(draw.randint(1, 3)):
            node = 2 * node + draw.randrange(2)
            path.append(node)
        paths.append(array("i", path))
    return paths


@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_is_what_trying_everything_finds(seed: int) -> None:
    draw = random.Random(seed)
    paths = chained(draw, 6)
    for n_blocks in (2, 3, 4):
        n_wanted = sum(len(path) for path in paths)
        expected = best_by_trying(paths, n_blocks) / n_wanted
        assert optimum(paths, n_blocks) == pytest.approx(expected)


def test_no_policy_is_above_the_optimum() -> None:
    draw = random.Random(3)
    paths = chained(draw, 300)
    requests = [Request(blocks=path, at_s=n, until_s=n) for n, path in enumerate(paths)]
    for n_blocks in (3, 5, 8, 14):
        best = optimum(paths, n_blocks)
        for policy in ("lru", "lfu", "slru", "hints"):
            assert 0.0 < replay(requests, n_blocks, policy) <= best


def test_the_replay_of_lru_finds_what_a_list_of_blocks_finds() -> None:
    paths = chained(random.Random(4), 300)
    recent: list[int] = []
    found = 0
    for path in paths:
        found += len(set(path) & set(recent))
        recent = [block for block in recent if block not in path] + path.tolist()[::-1]
        recent = recent[-6:]

    requests = [Request(blocks=path, at_s=n, until_s=n) for n, path in enumerate(paths)]
    assert replay(requests, 6, "lru") == found / sum(len(path) for path in paths)


def test_a_prompt_larger_than_the_cache_leaves_its_beginning() -> None:
    paths = prompts([1, 2, 3, 4], [1, 2, 3, 4])
    requests = [Request(blocks=path, at_s=n, until_s=n) for n, path in enumerate(paths)]
    assert replay(requests, 3, "lru") == optimum(paths, 3) == 3 / 8


def test_a_session_that_waits_for_its_tool_is_kept_before_one_that_waits_for_a_person() -> None:
    requests = [
        asked(0.0, "tool", 1, 2),
        asked(1.0, "person", 11, 12, after=After.PERSON),
        asked(2.0, "other", 21, 22, after=After.PERSON),
        asked(3.0, "tool", 1, 2),
    ]
    assert replay(requests, 4, "lru") == 0.0
    assert replay(requests, 4, "hints", Advice(waits=True)) == 2 / 8


def test_a_closed_session_leaves_first() -> None:
    requests = [
        asked(0.0, "open", 1, 2, after=After.PERSON),
        asked(1.0, "closed", 11, 12, after=After.CLOSED),
        asked(2.0, "other", 21, 22, after=After.PERSON),
        asked(3.0, "open", 1, 2, after=After.PERSON),
    ]
    assert replay(requests, 4, "hints", Advice(waits=True)) == 0.0
    assert replay(requests, 4, "hints", Advice(done=True)) == 2 / 8


def test_a_front_is_pinned_when_a_second_session_has_it_and_for_a_while() -> None:
    def fronted(at_s: float, name: str, *blocks: int) -> Request:
        return Request(
            blocks=array("i", blocks), at_s=at_s, until_s=at_s, session=name, agent="a", front=1
        )

    def rate(second: str, strangers_at_s: float) -> float:
        strangers = [
            Request(blocks=array("i", [n]), at_s=strangers_at_s, until_s=strangers_at_s)
            for n in range(20, 28)
        ]
        requests = [fronted(0.0, "one", 1, 2), fronted(1.0, second, 1, 3), *strangers]
        requests.append(fronted(strangers_at_s + 1.0, "three", 1, 4))
        return replay(requests, 4, "lru", Advice(pins=True))

    assert rate("two", strangers_at_s=50.0) == 2 / 14
    assert rate("two", strangers_at_s=70.0) == 1 / 14
    assert rate("one", strangers_at_s=50.0) == 1 / 14


def test_the_program_writes_figures_and_fails_where_hints_cost_hits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(eviction, "draw", lambda *_: None)
    monkeypatch.setattr(eviction, "CHAT_SIZES", {"10k": 2})
    chats = [{"timestamp": n, "hash_ids": [n]} for n in (1, 1, 2, 2, 3, 4, 3, 4)]
    trace = write(tmp_path / "some_chats.jsonl", chats)
    out = tmp_path / "figures.json"

    assert eviction.main([str(trace), "--out", str(out)]) == 0
    names = ["eviction_lru_chats_10k", "eviction_belady_chats_10k"]
    assert [(row.name, row.value) for row in read(out)] == [(name, 0.5) for name in names]
    assert "| hints + pins | 0.500 |" in capsys.readouterr().out

    monkeypatch.setitem(eviction.CHATS, eviction.OURS, ("lfu", NO_ADVICE))
    assert eviction.main([str(trace), "--out", str(out)]) == 1
    assert "hints and pins are below LRU" in capsys.readouterr().err


def test_agents_are_measured_for_each_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(eviction, "draw", lambda *_: None)
    monkeypatch.setattr(eviction, "AGENT_SIZES", {"250k": 250_000, "1m": 1_000_000})
    rows = [session(turn(0.0, 0, [1, 2, 3, 4]), turn(900.0, 4, [5, 6])) for _ in range(64)]
    trace = write(tmp_path / "agents.jsonl", rows)
    out = tmp_path / "figures.json"

    assert eviction.main([str(trace), "--out", str(out), "--seeds", "1", "2"]) == 0
    values = {row.name: row.value for row in read(out)}
    found = 2 * 63 + 2 * 64  # the front by all but the first session, and by each once more
    assert values["eviction_lru_agents_1m"] == pytest.approx(found / (5 * 64), abs=1e-5)
    assert values["eviction_hints_pins_least_gain"] == 0.0
    assert "agents, draw 2" in capsys.readouterr().out
