"""The load that trees are compared under, and what is written down of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.figures import Figure, Figures, merge, read
from bench.peers.job import Job
from bench.peers.venvs import Peers
from bench.tree import report
from bench.tree_load import PROMPT, SHARED, Load, measure
from bench.tree_ours import OurTree


def test_without_evictions_every_turn_finds_all_that_came_before() -> None:
    load = Load(agents=3, turns=2, room=1.5)
    timed = measure(lambda n: OurTree(n, events=True), load)
    prompts = [n_prompt for _, n_prompt, _ in load.steps()]
    computed = SHARED + PROMPT * len(prompts)  # the shared text once, and what is new
    assert timed.hit == pytest.approx(1 - computed / sum(prompts), abs=1e-12)
    assert timed.match_us > 0.0
    assert timed.insert_us > 0.0


def test_in_a_pool_that_is_too_small_less_is_found_and_evictions_are_timed() -> None:
    timed = measure(lambda n: OurTree(n, events=False), Load(agents=24, turns=4))
    assert 0.5 < timed.hit_evicting < timed.hit
    assert timed.evict_us > 0.0


def test_a_peer_that_finds_something_else_is_an_error() -> None:
    row = {"match_us": 1.0, "insert_us": 2.0, "rematch_us": 1.0, "match_evicting_us": 1.0}
    row |= {"evict_us": 1.0, "hit": 0.98131, "hit_evicting": 0.8119}
    best = {"ours": row, "ours_no_events": row, "sglang_rust": {**row, "match_us": 3.0}}
    figures = Figures()
    report(figures, best, 1)
    assert figures.value("tree_match_vs_sglang_rust") == 3.0
    best["sglang_rust"]["hit"] = 0.9812
    with pytest.raises(AssertionError, match="agree to four digits"):
        report(Figures(), best, 1)


def test_figures_replace_those_of_the_same_name_and_keep_the_others(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    merge(path, [Figure("a", 1.0, "s", "x"), Figure("b", 2.0, "s", "x")])
    merge(path, [Figure("b", 3.0, "s", "y"), Figure("c", 4.0, "s", "y")])
    assert [(row.name, row.value) for row in read(path)] == [("a", 1.0), ("b", 3.0), ("c", 4.0)]


def test_a_job_survives_the_way_to_another_process() -> None:
    job = Job(model="m.gguf", teams=((4, "cold"), (16, "warm")), lengths=(10, 5_000))
    assert Job.load(job.dump()) == job
    assert job.widest == 16
    assert job.longest > 5_000


def test_peers_that_are_not_installed_are_left_out(tmp_path: Path) -> None:
    assert Peers(None).python("openvino") is None
    assert Peers(tmp_path).llama_server is None
    interpreter = tmp_path / "sglang" / "bin" / "python"
    interpreter.parent.mkdir(parents=True)
    interpreter.touch()
    assert Peers(tmp_path).python("sglang") == interpreter
