"""Every fault that others had is a test here: its row is named in the test's docstring."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

TREE = "R1 R2 R4 R5 R7 R8 R10 R11 R13 R14 R16 R17 R19 R20"
KEYS = "R22 R23 R25 R26"
NUMBERS = "R28 R29"
SCHEDULING = "R31 R32 R34 R35"
RENDERING = "R37 R38 R40"
STREAMING = "R41 R43 R44 R46 R47"
ROUTING = "R49 R50 C92"
MCP_NAMES = "M1 M2 M4 M5 M7 M8"
MCP_LISTS = "M10 M11 M13 M14 M16 M17 M19 M20 M22 M23"
MCP_LIVES = "M25 M26 M28 M29 M31 M32 M34 M35"
MCP_RESULTS = "M37 M38 M40 M41"
RUNTIME = f"{TREE} {KEYS} {NUMBERS} {SCHEDULING} {RENDERING} {STREAMING} {ROUTING}".split()
MCP = f"{MCP_NAMES} {MCP_LISTS} {MCP_LIVES} {MCP_RESULTS}".split()


def named_rows(folder: str) -> set[str]:
    """Words of the docstrings of all tests in a folder."""
    words: set[str] = set()
    for path in (TESTS / folder).rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name[:5] == "test_"
            ):
                text = ast.get_docstring(node) or ""
                words.update(text.replace(",", " ").replace(".", " ").replace(":", " ").split())
    return words


@pytest.fixture(scope="module")
def named() -> dict[str, set[str]]:
    return {folder: named_rows(folder) for folder in ("runtime", "agentkit/mcp")}


@pytest.mark.parametrize(
    ("folder", "row"),
    [*(("runtime", row) for row in RUNTIME), *(("agentkit/mcp", row) for row in MCP)],
)
def test_every_known_fault_has_a_test_that_names_it(
    folder: str, row: str, named: dict[str, set[str]]
) -> None:
    assert row in named[folder]
