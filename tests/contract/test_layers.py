"""Who may know whom inside agentkit, as docs/architecture.md says it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agentkit"
ADAPTERS = tuple(
    f"models/hosted/{name}" for name in ("anthropic", "gemini", "openai_chat", "openai_responses")
)
ABOVE = ("agent", "loop", "team", "state", "stream", "serving", "cli")
"""What runs agents. Nothing below may know of it."""


@pytest.mark.parametrize(
    ("folder", "may_know"),
    [
        ("caching/policy", {"caching.policy", "errors"}),
        (
            "caching/simulate",
            {
                "blocks",
                "caching.chain",
                "caching.plan.draft",  # what a cache holds, as the planner is told it
                "caching.policy",
                "caching.recent",
                "caching.request",
                "caching.simulate",
                "errors",
            },
        ),
        (
            "caching/plan",
            {
                "caching.chain",
                "caching.plan",
                "caching.policy",
                "caching.recent",
                "caching.request",
                "caching.simulate",
                "errors",
                "models.base",
            },
        ),
        (
            "context",
            {
                "blocks",
                "caching.policy",
                "caching.tokens",
                "context",
                "errors",
                "toolset",
                "usage",
                "warn",
            },
        ),
        ("toolset", {"toolset", "blocks", "errors", "spellings", "warn", "whole_file"}),
    ],
)
def test_a_lower_layer_knows_only_what_lies_below_it(folder: str, may_know: set[str]) -> None:
    unknown = {name for name in _known(folder) if not _is_within(name, may_know)}
    assert unknown == set()


@pytest.mark.parametrize("folder", ADAPTERS)
def test_adapters_decide_nothing_about_caching(folder: str) -> None:
    """They fill in a plan; they neither make nor judge one, and remember no cache."""
    deciding = {"caching.plan.planner", "caching.track", "caching.judge", "caching.simulate"}
    assert {name for name in _known(folder) if _is_within(name, deciding)} == set()


@pytest.mark.parametrize("folder", ["caching", "context", "knowledge", "models", "toolset", "fake"])
def test_nothing_below_knows_of_agents(folder: str) -> None:
    assert {name for name in _known(folder) if _is_within(name, set(ABOVE))} == set()


def test_the_fake_provider_reads_requests_without_the_code_that_wrote_them() -> None:
    """Else a mistake of an adapter would be made on both sides, and no test would see it."""
    shared = {"models", "caching.plan", "caching.track", "caching.judge", "context"}
    assert {name for name in _known("fake") if _is_within(name, shared)} == set()


@pytest.mark.parametrize("folder", ["caching/judge", "caching/ledger", "observe"])
def test_who_explains_a_bill_asks_no_simulator(folder: str) -> None:
    """What was paid is reckoned from the provider's own counts."""
    assert {name for name in _known(folder) if _is_within(name, {"caching.simulate"})} == set()


def _known(folder: str) -> set[str]:
    """Return the modules of agentkit that a folder imports when it runs, without `agentkit.`."""
    files = list((PACKAGE / folder).rglob("*.py"))
    assert files, folder
    names = {name for path in files for name in _imports(ast.parse(path.read_text("utf-8")))}
    if "agentkit" in names:  # stands for what the package exports: agents, above all
        names.add("agentkit.agent")
    return {name.removeprefix("agentkit.") for name in names if name.startswith("agentkit.")}


def _imports(node: ast.AST) -> set[str]:
    found: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue  # for readers and type checkers only
        if isinstance(child, ast.ImportFrom) and child.module:
            found.add(child.module)
        elif isinstance(child, ast.Import):
            found |= {alias.name for alias in child.names}
        found |= _imports(child)
    return found


def _is_within(name: str, modules: set[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)
