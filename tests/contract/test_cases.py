"""Every fault that other runtimes had is a test here: its row is named in the test's docstring."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1] / "runtime"

TREE = "R1 R2 R4 R5 R7 R8 R10 R11 R13 R14 R16 R17 R19 R20"
KEYS = "R22 R23 R25 R26"
NUMBERS = "R28 R29"
SCHEDULING = "R31 R32 R34 R35"
RENDERING = "R37 R38 R40"
STREAMING = "R41 R43 R44 R46 R47"
ROUTING = "R49 R50 C92"
ROWS = f"{TREE} {KEYS} {NUMBERS} {SCHEDULING} {RENDERING} {STREAMING} {ROUTING}".split()


def named_rows() -> set[str]:
    """Words of the docstrings of all tests of the runtime."""
    words: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name[:5] == "test_"
            ):
                text = ast.get_docstring(node) or ""
                words.update(text.replace(",", " ").replace(".", " ").replace(":", " ").split())
    return words


@pytest.fixture(scope="module")
def named() -> set[str]:
    return named_rows()


@pytest.mark.parametrize("row", ROWS)
def test_every_known_fault_has_a_test_that_names_it(row: str, named: set[str]) -> None:
    assert row in named
