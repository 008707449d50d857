"""`top`: what it shows of a real server, and how it ends."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentkit_runtime.cli.top_figures import figures
from agentkit_runtime.cli.top_view import frame
from tests.runtime.cli.conftest import Shop
from tests.runtime.service.scripted import BOUND_S

ROOT = Path(__file__).parents[3]
RULES = "You are the clerk of a museum. Answer in one sentence."


def node(number: int, **changes: object) -> dict[str, object]:
    """A node of the tree."""
    plain: dict[str, object] = {
        "id": number,
        "parent": None,
        "tenant": "ann",
        "start": 0,
        "tokens": 10,
        "hits": 1,
        "pinned": False,
        "published": False,
        "locked": False,
        "sessions": [],
        "tags": [],
    }
    return plain | changes


def state(samples: list[dict[str, float]]) -> dict[str, Any]:
    """The document of a server at 1,000 s."""
    zero = dict.fromkeys(
        (
            *("hit_tokens", "prompt_tokens", "lost_tokens", "prefill_tokens", "generated_tokens"),
            *("warm_ttft_s", "warm_requests", "cold_ttft_s", "cold_requests"),
        ),
        0.0,
    )
    return {
        "model": "m",
        "healthy": True,
        "phase": "ready",
        "time_s": 1_000.0,
        "started_s": 100.0,
        "pool": {"total": 100, "free": 40, "cached": 30, "held": 30, "pinned": 5},
        "scheduler": {"running": 2, "waiting": {"batch": 3, "normal": 1, "interactive": 0}},
        "pressure": {"index": 0.9, "cause": "queue"},
        "counts": {"hit_ratio": 0.5},
        "history": [zero | {"interval_s": 1.0} | sample for sample in samples],
    }


def test_a_look_shows_hits_branches_and_why_a_request_missed(shop: Shop) -> None:
    for text in ("hello", "hello", "again"):
        shop.ask(text, RULES, **{"x-agentkit-tags": "clerk"})

    seen = shop.run("top", "--json", key="root").json
    shown = shop.run("top", "--once", key="root").stdout

    assert seen["slots"] == seen["held"] + seen["cached"] + seen["free"]
    assert seen["requests"][0]["tenant"] == "ann"
    assert seen["requests"][0]["cached_tokens"] > 10
    assert seen["branches"][0]["hits"] > 0
    assert "clerk" in seen["branches"][0]["marks"]
    assert 0 < seen["hit_ratio_since_start"] < 1
    for expected in ("pool", "hit ratio", "first token", "hottest branches", "ann, done"):
        assert expected in shown
    assert "museum" not in shown


def test_it_needs_an_admins_key(shop: Shop) -> None:
    done = shop.run("top", "--once", key="ann")

    assert (done.code, "the key may not do that" in done.stderr) == (1, True)


def test_ratios_and_times_are_those_of_the_last_minute() -> None:
    old = {"time_s": 930.0, "hit_tokens": 1_000.0, "prompt_tokens": 1_000.0}
    one = {
        "time_s": 999.0,
        "hit_tokens": 20.0,
        "prompt_tokens": 80.0,
        "lost_tokens": 6.0,
        "prefill_tokens": 60.0,
        "warm_ttft_s": 0.3,
        "warm_requests": 3.0,
    }
    two = {"time_s": 1_000.0, "generated_tokens": 10.0, "hit_tokens": 20.0, "prompt_tokens": 80.0}

    seen = figures(state([old, one, two]), [], [])

    assert seen.hit_ratio == 0.25
    assert seen.thrash == 0.1
    assert seen.hit_ttft_s == pytest.approx(0.1)
    assert seen.miss_ttft_s is None
    assert seen.generated_tokens_per_s == 5.0
    assert (seen.waiting, seen.up_s) == (4, 900.0)


def test_hot_branches_come_first_and_unused_ones_not_at_all() -> None:
    nodes = [
        node(1, hits=0),
        node(2, hits=2, tokens=5),
        node(3, hits=7, pinned=True, tags=["a"]),
        node(4, hits=2, tokens=9, sessions=["s1", "s2"], tags=["b"], parent=2),
    ]

    seen = figures(state([]), [], nodes, n_branches=3).branches

    assert [(branch.hits, branch.tokens) for branch in seen] == [(7, 10), (2, 9), (2, 5)]
    assert seen[0].marks == ("pinned", "a", "b", "2 sessions")
    assert (seen[1].marks, seen[2].marks) == (("b", "2 sessions"), ())


def test_labels_of_others_cannot_steer_the_terminal() -> None:
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    nodes = [node(1, tenant="a\x1b[2J", tags=["[bold]b[/bold]"])]

    console.print(frame(figures(state([]), [], nodes)))
    console.file.close()
    shown = console.export_text()

    assert "\x1b" not in shown
    assert "a?[2J" in shown
    assert "[bold]b[/bold]" in shown
    assert "pressure 90% (queue)" in shown


def test_on_a_terminal_it_goes_on_until_q_is_pressed(shop: Shop) -> None:
    ours, theirs = pty.openpty()
    path = os.pathsep.join([str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")])
    environment = {"PYTHONPATH": path, "AGENTKIT_RUNTIME_KEY": shop.keys["root"], "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "agentkit_runtime", "top", shop.url, "--interval", "0.2"],
        env={**os.environ, **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(theirs)
        try:
            seen = _read_until(ours, b"hit ratio", times=3)
            os.write(ours, b"q")
            _drain(ours, process)
            code = process.wait(BOUND_S)
        finally:
            process.kill()
            os.close(ours)
        assert process.stderr is not None
        said = process.stderr.read()

    assert (code, said) == (0, b"")
    assert shop.keys["root"].encode() not in seen


def _read_until(terminal: int, expected: bytes, *, times: int) -> bytes:
    seen, due_s = b"", time.monotonic() + BOUND_S
    while seen.count(expected) < times:
        assert time.monotonic() < due_s, seen[-500:]
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 65_536)
    return seen


def _drain(terminal: int, process: subprocess.Popen[bytes]) -> None:
    """Read what it writes until it has ended, or its end of the terminal is closed."""
    due_s = time.monotonic() + BOUND_S
    while process.poll() is None and time.monotonic() < due_s:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                os.read(terminal, 65_536)
            except OSError:
                return
