"""`agentkit mcp prompts`, `resources`, `lock` and `diff`, of one server among several."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.agentkit.cli.conftest import Cli

APP = """
from agentkit import Agent, McpServer
from mcp.server import MCPServer

shop = MCPServer("shop")
shelf = MCPServer("shelf")


@shop.tool()
def price(item: str) -> str:
    '''Say what an item costs.'''
    return f"{item}: 4 euros"


@shop.tool(name="find")
def find_in_shop(item: str) -> str:
    '''Find an item.'''
    return "aisle 4"


@shelf.tool(name="find")
def find_on_shelf(item: str) -> str:
    '''Find an item.'''
    return "row 2"


@shop.resource("shop://hours", description="When the shop is open.")
def hours() -> str:
    return "nine to five"


@shop.prompt()
def order(item: str, pieces: str = "1") -> str:
    '''Order an item.'''
    return f"Order {pieces} {item}."


class Desk(Agent):
    '''You sell.'''

    tools = (McpServer(alias="shop", server=shop), McpServer(alias="shelf", server=shelf))
"""


@pytest.fixture(autouse=True)
def app(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("selling_app.py").write_text(APP)
    monkeypatch.delitem(sys.modules, "selling_app", raising=False)


def test_prompts_show_their_arguments_and_resources_what_they_are(cli: Cli) -> None:
    prompts = cli("mcp", "prompts", "selling_app:Desk", "--server", "shop").stdout
    assert "shop  order  Order an item." in prompts
    assert "item=...  required" in prompts
    assert "pieces=...  optional" in prompts
    assert "When the shop is open." in cli("mcp", "resources", "selling_app:Desk").stdout
    args = ("mcp", "prompts", "selling_app:Desk", "--server", "shop", "--get", "order")
    missing = cli(*args)
    assert missing.exit_code == 1
    assert "requires the argument 'item'" in missing.stderr
    assert "Order 1 tea." in cli(*args, "--argument", "item=tea").stdout


def test_a_tool_is_called_by_the_servers_own_name_where_only_one_has_it(cli: Cli) -> None:
    item = '{"item": "tea"}'
    assert "4 euros" in cli("mcp", "call", "selling_app:Desk", "price", item).stdout
    assert "aisle" in cli("mcp", "call", "selling_app:Desk", "shop__find", item).stdout
    several = cli("mcp", "call", "selling_app:Desk", "find", item)
    assert several.exit_code == 1
    assert "shelf__find, shop__find" in several.stderr


def test_one_server_is_locked_and_compared_without_the_others(cli: Cli) -> None:
    unlocked = cli("mcp", "diff", "selling_app:Desk", "--server", "shop", "--json")
    assert unlocked.exit_code == 1
    assert "nothing is approved yet" in unlocked.stderr
    (lock,) = json.loads(unlocked.stdout)["locks"]
    assert lock["exists"] is False
    assert lock["servers"] == {"shop": {"added": ["find", "price"], "changed": [], "removed": []}}
    assert cli("mcp", "lock", "selling_app:Desk", "--server", "shop", "--yes").exit_code == 0
    assert cli("mcp", "diff", "selling_app:Desk", "--server", "shop").exit_code == 0
    others = cli("mcp", "diff", "selling_app:Desk", "--json")
    assert others.exit_code == 1
    assert list(json.loads(others.stdout)["locks"][0]["servers"]) == ["shelf"]
    assert cli("mcp", "lock", "selling_app:Desk", "--server", "no").exit_code == 2


def test_a_server_that_is_not_there_is_said_once(cli: Cli) -> None:
    Path("gone_app.py").write_text(
        "from agentkit import Agent, McpServer\n"
        "class Gone(Agent):\n"
        "    '''You have a server.'''\n"
        "    tools = (McpServer(alias='g', command=['no-such-program'], required=False),)\n"
    )
    listed = cli("mcp", "list", "gone_app:Gone")
    assert listed.exit_code == 1
    assert listed.output.count("no-such-program") == 1
