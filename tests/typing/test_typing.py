"""Type checkers know the types of answers, dependencies and tools, and find mistakes.

mypy and pyright, both strict, read the files of this folder: each line that is marked with
`# error` must have an error, and no other line may. pyright is run as basedpyright in pyright's
strict mode: the same checker from a wheel that brings what it needs, where pyright's fetches it
when it is run.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
FILES = ("runs.py", "tools.py", "mistakes.py")


@pytest.mark.timeout(280)
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_the_marked_lines_and_no_others_are_mistakes(checker: str, tmp_path: Path) -> None:
    found = _mypy() if checker == "mypy" else _pyright(tmp_path)
    marked = {
        (name, number)
        for name in FILES
        for number, line in enumerate((FOLDER / name).read_text().splitlines(), 1)
        if line.endswith("# error")
    }
    assert len(marked) >= 15
    unexpected = {place: text for place, text in found.items() if place not in marked}
    assert unexpected == {}
    assert marked - found.keys() == set(), "mistakes that the checker has not found"


def _mypy() -> dict[tuple[str, int], str]:
    paths = [str(FOLDER / name) for name in FILES]
    options = ["--strict", "--no-error-summary", "--hide-error-context", "--no-pretty"]
    done = _run("-m", "mypy", *options, *paths)
    lines = re.findall(r"^.*?([\w.]+):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert done.returncode == 1, done.stdout + done.stderr
    return {(name, int(number)): text for name, number, text in lines}


def _pyright(folder: Path) -> dict[tuple[str, int], str]:
    project = {
        "include": [str(FOLDER / name) for name in FILES],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(project))
    options = ["--project", str(folder), "--pythonpath", sys.executable, "--outputjson"]
    done = _run("-m", "basedpyright", *options)
    assert done.returncode == 1, done.stdout + done.stderr
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"]
        for each in json.loads(done.stdout)["generalDiagnostics"]
        if each["severity"] == "error"
    }


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
