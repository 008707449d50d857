"""`agentkit plan`: from a module's name to the cost of ten turns, without a network."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentkit.cli import app

AGENT = '''
import sys
from decimal import Decimal
from agentkit import Agent, McpServer, tool
from agentkit.caching.options import CacheOptions
from agentkit.caching.policy import Rates
from agentkit.caching.prices import PriceBook
from agentkit.context import Document
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.model import HostedModel


DEAR = Rates(input=Decimal(1000), read=Decimal(0), output=Decimal(0))


class Desk(Agent):
    """You answer currency questions."""

    rules = "Be brief and right. " * 300
    knowledge = [Document(uri="b", text="rates " * 500), Document(uri="a", text="fees " * 500)]

    @tool
    def convert(self, usd: float, currency: str) -> str:
        """Convert dollars."""
        return ""

    def volatile(self, turn):
        return "It is noon."


class Served(Desk):
    tools = (
        McpServer(
            alias="files",
            command=[sys.executable, "-m", "agentkit_tools.files", ".", "--read-only"],
        ),
    )


class Hooked(Desk):
    def volatile(self, turn):
        return self.deps.now()


class Dear(Desk):
    model = HostedModel(
        AnthropicAdapter("claude-opus-5-5"),
        cache=CacheOptions(
            prices=PriceBook(overrides={"claude-opus-5-5": DEAR})
        ),
    )


class Own(Desk):
    model = "deepseek:deepseek-v4-pro"


class Needy(Desk):
    def __init__(self, key):
        super().__init__()


class Small(Agent):
    """You are small."""


class Reader(Agent):
    """You read a file."""

    @tool
    def read(self, path: str) -> str:
        """Read a file."""
        return ""


class Judge(Agent):
    """You judge."""

    model = "anthropic:claude-opus-5-5"


class Lead(Agent):
    """You lead the readers."""

    model = "anthropic:claude-sonnet-5-5"
    rules = "Be brief and right. " * 300
    subagents = (Reader, Judge)


desk = Desk(name="front-desk")


def make() -> Desk:
    return Desk(name="made")


number = 3
'''


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command in a folder with the agents of above, where no socket can be opened."""
    (tmp_path / "plan_app.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "plan_app", raising=False)

    def no_network(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    return lambda *arguments: CliRunner().invoke(app, ["plan", *arguments])


def forecast(result: Result, model: str) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    (found,) = (each for each in json.loads(result.stdout)["providers"] if each["model"] == model)
    assert found["error"] is None
    return dict(found)


def test_it_shows_segments_marks_and_the_first_and_tenth_turn_of_each_provider(
    plan: Callable[..., Result],
) -> None:
    result = plan("plan_app:Desk")
    assert result.exit_code == 0, result.output
    for label in ("anthropic:claude-sonnet-5-5", "openai:gpt-6.1-sol", "deepseek:", "gemini:"):
        assert f"\n{label}" in result.stdout
    for word in ("system/rules", "knowledge[1]", "volatile", "5m", "30m", "all 10"):
        assert word in result.stdout
    lines = [line.split() for line in result.stdout.splitlines()]
    assert sum(line[:1] == ["1"] for line in lines) == 4
    assert sum(line[:1] == ["10"] for line in lines) == 4


def test_each_later_turn_reads_what_the_turns_before_have_written(
    plan: Callable[..., Result],
) -> None:
    result = plan("plan_app:Desk", "--json", "--provider", "anthropic")
    turns = forecast(result, "anthropic:claude-sonnet-5-5")["turns"]
    assert [turn["turn"] for turn in turns] == list(range(1, 11))
    assert turns[0]["read"] == 0
    for before, turn in pairwise(turns):
        assert turn["read"] == before["read"] + sum(before["written"].values())
        assert turn["input"] == turn["read"] + sum(turn["written"].values()) + turn["uncached"]
    assert Decimal(turns[9]["cost"]) < Decimal(turns[9]["uncached_cost"]) / 3


def test_costs_are_those_of_the_price_list(plan: Callable[..., Result]) -> None:
    """Opus 5.5: 4 USD a million tokens in, 5.00 written for 5 minutes, 0.20 read, 20 out."""
    result = plan("plan_app:Desk", "--json", "--provider", "anthropic:claude-opus-5-5")
    turn = forecast(result, "anthropic:claude-opus-5-5")["turns"][9]
    cost = turn["read"] * Decimal("0.2") + turn["written"]["5m"] * 5 + turn["uncached"] * 4
    assert Decimal(turn["cost"]) == (cost + turn["output"] * 20) / 1_000_000
    assert Decimal(turn["uncached_cost"]) == (turn["input"] * 4 + 150 * 20) / Decimal(1_000_000)


def test_segments_are_in_the_provider_s_order_with_the_marks_on_them(
    plan: Callable[..., Result],
) -> None:
    result = plan("plan_app:Desk", "--json", "--provider", "anthropic")
    found = forecast(result, "anthropic:claude-sonnet-5-5")
    names = [row["segment"] for row in found["segments"]]
    assert names == [
        "tools",
        "system/rules",
        "system/role",
        "knowledge[0]",
        "knowledge[1]",
        "history[0]",
        "volatile",
    ]
    assert found["segments"][-1]["marks"] == []
    assert [row["segment"] for row in found["segments"] if row["marks"]][-1] == "history[0]"
    total = sum(row["tokens"] for row in found["segments"])
    assert total == found["turns"][0]["input"]


def test_sizes_and_gaps_change_the_run(plan: Callable[..., Result]) -> None:
    arguments = ("plan_app:Desk", "--json", "--provider", "openai", "--turns", "3")
    short = forecast(plan(*arguments, "--result-tokens", "10"), "openai:gpt-6.1-sol")["turns"]
    long = forecast(plan(*arguments, "--result-tokens", "9000"), "openai:gpt-6.1-sol")["turns"]
    assert len(short) == len(long) == 3
    assert long[2]["input"] - short[2]["input"] == 2 * (9_000 - 10)
    late = forecast(plan(*arguments, "--gap", "50000"), "openai:gpt-6.1-sol")["turns"]
    assert [turn["read"] for turn in late] == [0, 0, 0]


def test_all_providers_can_be_asked_for(plan: Callable[..., Result]) -> None:
    result = plan("plan_app:Desk", "--json", "--provider", "all", "--turns", "2")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["providers"]
    assert len(found) == 14
    assert [each["error"] for each in found] == [None] * 14


def test_the_agent_s_own_model_comes_first_with_its_own_options(
    plan: Callable[..., Result],
) -> None:
    labels = [
        each["model"] for each in json.loads(plan("plan_app:Own", "--json").stdout)["providers"]
    ]
    assert labels[0] == "deepseek:deepseek-v4-pro"
    assert len(labels) == 4
    dear = forecast(plan("plan_app:Dear", "--json"), "anthropic:claude-opus-5-5")
    turn = dear["turns"][9]
    assert turn["price_source"] == "override"
    assert Decimal(turn["uncached_cost"]) == turn["input"] * Decimal(1000) / 1_000_000


def test_several_providers_stand_with_commas_or_in_options_of_their_own(
    plan: Callable[..., Result],
) -> None:
    arguments = ("plan_app:Desk", "--json", "--turns", "1")
    together = plan(*arguments, "--provider", "openai:gpt-6-sol, anthropic,openai")
    apart = plan(
        *arguments,
        *("--provider", "openai:gpt-6-sol", "--provider", "anthropic", "--provider", "openai"),
    )
    models = [each["model"] for each in json.loads(together.stdout)["providers"]]
    assert models == ["openai:gpt-6-sol", "anthropic:claude-sonnet-5-5", "openai:gpt-6.1-sol"]
    assert models == [each["model"] for each in json.loads(apart.stdout)["providers"]]


def test_reads_of_an_implicit_cache_are_said_not_to_be_promised(
    plan: Callable[..., Result],
) -> None:
    gemini = forecast(
        plan("plan_app:Small", "--json", "--provider", "gemini", "--turns", "20"),
        "gemini:gemini-3.8-flash",
    )
    assert gemini["turns"][-1]["read"] > 0
    assert any("not promised" in note for note in gemini["notes"])
    assert "not promised" not in plan("plan_app:Small", "--provider", "anthropic,deepseek").stdout
    once = plan("plan_app:Small", "--provider", "gemini", "--turns", "1").stdout
    assert "not promised" not in once


def test_each_member_of_a_team_is_planned_with_what_it_shares_with_the_root(
    plan: Callable[..., Result],
) -> None:
    found = forecast(
        plan("plan_app:Lead", "--json", "--provider", "anthropic", "--turns", "2"),
        "anthropic:claude-sonnet-5-5",
    )
    assert [each["agent"] for each in found["subagents"]] == ["lead/reader", "lead/judge"]
    for member in found["subagents"]:
        rows = {row["segment"]: row for row in member["segments"]}
        assert list(rows) == ["tools", "system/rules", "system/role", "history[0]"]
        front = found["segments"][:2]
        assert [row["shared_tokens"] for row in rows.values()] == [
            *(row["tokens"] for row in front),
            *(0, 0),
        ]
        assert rows["tools"]["tokens"] == front[0]["tokens"]
        first = member["first_turn"]
        assert first["read"] == member["shared_tokens"] == sum(row["tokens"] for row in front)
        assert first["input"] == sum(row["tokens"] for row in rows.values())


def test_the_text_says_which_segments_of_a_subagent_are_shared(
    plan: Callable[..., Result],
) -> None:
    text = plan("plan_app:Lead", "--provider", "openai", "--turns", "1").stdout
    below = text.split("subagent lead/reader: ")[1].split("subagent lead/judge")[0]
    assert "tokens are shared with lead" in below.splitlines()[0]
    shared = [line.split()[0] for line in below.splitlines() if line.endswith("shared")]
    assert shared == ["tools", "system/rules"]
    assert "subagent 'judge' has a model of its own, anthropic:claude-opus-5-5" in text
    assert "'reader' has a model" not in text
    assert "subagent" not in plan("plan_app:Desk", "--provider", "openai", "--turns", "1").stdout


def test_a_note_of_the_first_and_the_last_turn_is_said_once(plan: Callable[..., Result]) -> None:
    text = plan("plan_app:Desk", "--provider", "anthropic:nobody").stdout
    assert text.count("no price is known") == 1
    assert "is it the name" in plan("plan_app:Desk", "--provider", "deepseek:nobody").stdout


def test_an_unknown_price_is_unknown_and_not_zero(plan: Callable[..., Result]) -> None:
    result = plan("plan_app:Desk", "--json", "--provider", "vllm:my-own-model")
    found = forecast(result, "vllm:my-own-model")
    assert (found["cost"], found["turns"][0]["cost"]) == (None, None)
    assert "unknown price" in plan("plan_app:Desk", "--provider", "vllm:my-own-model").stdout


def test_a_prompt_that_is_too_short_says_so(plan: Callable[..., Result]) -> None:
    result = plan("plan_app:Small", "--provider", "openai", "--turns", "1")
    assert "caches from 1024 on" in result.stdout


@pytest.mark.parametrize(
    ("name", "agent"), [("Desk", "desk"), ("desk", "front-desk"), ("make", "made")]
)
def test_a_class_an_instance_and_a_function_are_agents(
    plan: Callable[..., Result], name: str, agent: str
) -> None:
    result = plan(f"plan_app:{name}", "--json", "--provider", "anthropic", "--turns", "1")
    assert json.loads(result.stdout)["agent"] == agent


def test_servers_that_are_not_connected_are_named(plan: Callable[..., Result]) -> None:
    arguments = ("plan_app:Served", "--json", "--provider", "anthropic", "--turns", "1")
    without = json.loads(plan(*arguments).stdout)
    assert without["missing_mcp_servers"] == ["files"]
    assert "--connect" in without["notes"][0]
    connected = json.loads(plan(*arguments, "--connect").stdout)
    assert connected["missing_mcp_servers"] == []
    assert "files__read_lines" in connected["tools"]
    assert len(connected["tools"]) > len(without["tools"]) == 1


def test_methods_that_need_a_real_run_are_left_out_with_a_note(
    plan: Callable[..., Result],
) -> None:
    result = plan("plan_app:Hooked", "--json", "--provider", "anthropic", "--turns", "1")
    found = forecast(result, "anthropic:claude-sonnet-5-5")
    assert "volatile" not in [row["segment"] for row in found["segments"]]
    assert "a method of 'hooked' failed" in found["notes"][0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["plan_app"], "write my_app:MyAgent"),
        (["no_such_app:Desk"], "there is no module 'no_such_app'"),
        (
            ["plan_app:Disk"],
            "its agents are: Dear, Desk, Hooked, Judge, Lead, Needy, Own, Reader, Served, Small, "
            "desk",
        ),
        (["plan_app:number"], "no agent"),
        (["plan_app:Needy"], "cannot be made without arguments"),
        (["plan_app:Desk", "--provider", "nobody"], "there are: all, anthropic"),
        (["plan_app:Desk", "--provider", "openai:nobody"], "generation"),
        (["plan_app:Desk", "--provider", "anthropic,nobody"], "no provider 'nobody'"),
        (["plan_app:Desk", "--provider", "openai:gpt-6-sol,gpt-6.1-sol"], "no provider 'gpt-6.1"),
        (["plan_app:Desk", "--provider", "anthropic,"], "no provider ''"),
    ],
)
def test_mistakes_are_named_with_the_fix(
    plan: Callable[..., Result], arguments: list[str], says: str
) -> None:
    result = plan(*arguments)
    assert result.exit_code == 1
    assert says in result.output


def test_a_module_that_a_module_needs_is_named(plan: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "needs_more.py").write_text("import not_installed_anywhere\n")
    result = plan("needs_more:Desk")
    assert "needs the module 'not_installed_anywhere'" in result.output
