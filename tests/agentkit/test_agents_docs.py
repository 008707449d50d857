"""docs/agents.md: its blocks do what the page says, and what it lists is all there is."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

import agentkit
from agentkit import Agent, CompactionRule, Limits, Settings, errors
from agentkit.beginning import RunKeywords
from agentkit.checks import _AWAITED, _HOOKS
from agentkit.events import Event
from agentkit.hooks import HookContext, Hooks
from agentkit.models import RateLimits, limit_rates
from agentkit.toolset.policy import ToolPolicy

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "agents.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)


def section(heading: str) -> str:
    """The text under a heading of the page."""
    return re.split(r"^## ", PAGE.split(f"\n## {heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_blocks_run_one_after_the_other_and_print_what_the_page_shows() -> None:
    assert PAGE.count("```text") == sum(bool(output) for _, output in BLOCKS) > 8
    names: dict[str, Any] = {"__name__": "agents_page"}
    for code, output in BLOCKS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/agents.md", "exec", dont_inherit=True), names)
        assert printed.getvalue() == output, code
    limit_rates("anthropic:claude-sonnet-5-5", RateLimits())  # one object in the whole process


def test_every_option_of_a_run_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", section("A run and its result"), re.MULTILINE)
    assert set(rows) == set(RunKeywords.__annotations__)


def test_every_event_is_in_the_table() -> None:
    rows = re.findall(r"^\| (.*?) \| (.*)", section("Events"), re.MULTILINE)
    told = {kind for row in rows for cell in row for kind in re.findall(r"`(\w+)`", cell)}
    kinds = {event.__dataclass_fields__["kind"].default for event in get_args(Event)}
    assert told - {"kind"} == kinds


def test_every_hook_is_on_the_page() -> None:
    hooks = {name for name in vars(Hooks) if not name.startswith("_")}
    assert hooks <= set(re.findall(r"\w+", section("Hooks and guards")))


def test_every_error_that_is_listed_exists() -> None:
    names = re.findall(r"^\| (`.*?) \|", section("When something fails"), re.MULTILINE)
    listed = {name for row in names for name in re.findall(r"`(\w+)`", row)}
    assert all(issubclass(getattr(errors, name), errors.RunError) for name in listed)
    direct = {each.__name__ for each in errors.RunError.__subclasses__()}
    assert direct - {"RestoredFailure"} <= listed


def test_every_link_within_the_page_has_its_heading() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in PAGE.splitlines()
        if line.startswith("#")
    }
    links = set(re.findall(r"\]\(#([\w-]+)\)", PAGE))
    assert len(links) > 8
    assert links <= headings
    for page in re.findall(r"\]\((\w[\w-]+\.md)\)", PAGE):
        assert (ROOT / "docs" / page).is_file(), page


def test_every_setting_of_an_agent_is_in_the_table_with_its_default() -> None:
    rows = re.findall(r"^\| (`\w+`.*?) \| `(.*?)` \|", section("What an agent is given"), re.M)
    told = {name: text for names, text in rows for name in re.findall(r"`(\w+)`", names)}
    given = set(inspect.signature(Agent.__init__).parameters) - {"self"}
    assert set(told) == given
    values = {"Settings": Settings, "CompactionRule": CompactionRule, "str": str}
    for name in given - {"deps", "output_type"}:
        assert eval(told[name], values) == getattr(Agent, name), name


def test_every_method_that_may_be_overridden_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)\(", section("What an agent is given"), re.M)
    assert set(rows) == {*_HOOKS, *_AWAITED}


def test_hooks_are_in_the_table_in_their_order_and_with_what_they_take() -> None:
    rows = re.findall(r"^\| `(\w+)\((.*?)\)` \|", section("Hooks and guards"), re.M)
    hooks = [
        (name, inspect.signature(hook))
        for name, hook in vars(Hooks).items()
        if inspect.iscoroutinefunction(hook)
    ]
    assert rows == [(name, ", ".join([*signature.parameters][1:])) for name, signature in hooks]


@pytest.mark.parametrize(
    ("kind", "heading"),
    [
        (Settings, "What an agent is given"),
        (Limits, "Limits"),
        (RateLimits, "Models"),
        (ToolPolicy, "Tools of MCP servers"),
        (HookContext, "Hooks and guards"),
    ],
)
def test_every_field_of_what_is_given_is_on_the_page(kind: Any, heading: str) -> None:
    names = {item.name for item in fields(kind)} - {"resumes"}  # of tools that run agents
    assert names <= set(re.findall(r"\w+", section(heading)))


def test_all_that_is_public_is_on_some_page() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    pages = [page for page in pages if page.name not in ("changelog.md", "decisions.md")]
    words = set(re.findall(r"\w+", " ".join(page.read_text("utf-8") for page in pages)))
    assert not sorted(set(agentkit.__all__) - words)
