"""The tree decides, the cache executes; only the pool knows tensors."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import agentkit_runtime.kv

FOLDER = Path(agentkit_runtime.kv.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py"))


def imports(module: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or ".")
    return names


@pytest.mark.parametrize("module", [name for name in MODULES if name != "pool"])
def test_only_the_pool_imports_torch(module: str) -> None:
    assert not any(name.split(".")[0] == "torch" for name in imports(module))


TREE = {"tree", "paths", "outcome", "node", "eviction", "policy", "extent", "tokens", "base"}
"""`base` is the tiers' seam: the size of a block."""


@pytest.mark.parametrize("module", sorted(TREE - {"base"}))
def test_the_tree_knows_no_pool(module: str) -> None:
    kv = {name.rpartition(".")[2] for name in imports(module) if ".kv." in name}
    assert kv <= TREE


@pytest.mark.parametrize("module", MODULES)
def test_kv_imports_no_upper_layer(module: str) -> None:
    own = {name for name in imports(module) if name.startswith("agentkit_runtime")}
    lower = ("agentkit_runtime.kv", "agentkit_runtime.errors", "agentkit_runtime.checks")
    assert all(name.startswith(lower) for name in own)
