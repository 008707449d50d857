"""What README says works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def run(block: str) -> str:
    """Run a block as a program of its own, with the bundled model; returns what it prints."""
    paths = [str(ROOT), str(ROOT / "runtime"), str(ROOT / "tools")]
    front = f"import sys; sys.path[:0] = {paths!r}\nimport torch; torch.set_num_threads(1)\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", front + block],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_runs_and_answers(smollm2_gguf: Path) -> None:
    printed = run(BLOCKS[0])
    assert "4.50" in printed.splitlines()[0]
    assert re.search(r"total +2 ", printed)


def test_the_longer_program_runs_and_its_tasks_have_typed_answers(smollm2_gguf: Path) -> None:
    printed = run(BLOCKS[1])
    assert re.match(r"path='.*' heading='.*'\npath='.*' heading='.*'\n", printed)
    assert len(re.findall(r"total +\d", printed)) == 2


def test_the_make_targets_it_names_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"^    make ([a-z]+)", README, re.MULTILINE)) <= targets
    ran = set(
        re.findall(r"^make ([a-z]+)", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    )
    assert {"test", "demo", "lint"} <= ran


def test_every_path_of_its_tree_exists() -> None:
    tree = README.split("## Where things are")[1].split("## Develop")[0]
    base = ROOT
    for line in tree.splitlines():
        match = re.match(r"^    (  )?((?:[\w/.]+ )+) ", line + " ")
        if match is None:
            continue
        for name in match[2].split():
            if not re.fullmatch(r"[\w/]+(/|\.py|\.md)", name):
                continue
            if match[1] is None:
                base = ROOT / name
                assert base.exists(), name
            else:
                assert (base / name).exists(), f"{base.name}/{name}"
