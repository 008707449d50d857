"""What README says works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_example_runs_and_answers(smollm2_gguf: Path) -> None:
    """The block is run as a program of its own, with the bundled model."""
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    paths = [str(ROOT), str(ROOT / "runtime"), str(ROOT / "tools")]
    program = (
        f"import sys; sys.path[:0] = {paths!r}\nimport torch; torch.set_num_threads(1)\n{block}"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    assert "4.50" in done.stdout.splitlines()[0]
    assert re.search(r"total +2 ", done.stdout)


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
