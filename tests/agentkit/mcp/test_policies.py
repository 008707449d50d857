"""Policies for the tools of servers."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from agentkit import Agent, ApprovalRequired, Approve, McpServer, ToolOutput
from agentkit.testing import Call, ScriptedModel
from agentkit.toolset import McpConnectError, ToolPolicy, policy_of

SERVER = """
from mcp.server import MCPServer
server = MCPServer("bank")
@server.tool()
def pay(amount: int) -> str:
    "Pay."
    return f"paid {amount}"
@server.tool()
def balance() -> str:
    "Balance."
    return "7"
server.run()
"""


def bank(**policies: ToolPolicy) -> McpServer:
    return McpServer(
        command=[sys.executable, "-c", SERVER],
        connect_timeout_s=60,
        alias="bank",
        policies=policies,
    )


async def test_a_servers_tool_waits_for_approval_and_the_others_run() -> None:
    server = bank(pay=ToolPolicy(requires_approval=lambda given, _: given["amount"] > 100))
    model = ScriptedModel(
        [
            [Call("bank__pay", {"amount": 5}), Call("bank__balance", {})],
            [Call("bank__pay", {"amount": 500})],
            "done",
        ]
    )
    async with Agent(model=model, tools=[server]) as agent:
        with pytest.raises(ApprovalRequired) as caught:
            await agent.run("Pay.")
        (pending,) = caught.value.paused.pending
        assert pending.call.arguments == '{"amount": 500}'
        result = await agent.resume(caught.value.paused, {pending.id: Approve()})
    assert "paid 500" in str(result.messages[-2])


async def test_a_policy_for_a_tool_that_is_not_there_is_an_error_and_nothing_is_left() -> None:
    connection = bank(pya=ToolPolicy(requires_approval=True)).connect()
    with pytest.raises(McpConnectError, match=r"has no tools \['pya'\], which are in policies"):
        await connection.__aenter__()
    assert connection.pid is None


async def test_policies_are_the_tools_own_and_lost_calls_may_be_tried_again() -> None:
    policy = ToolPolicy(retries=1, idempotent=True)
    async with bank(balance=policy).connect() as connection:
        by_name = {each.original_name: policy_of(each) for each in connection.tools}
        assert by_name == {"balance": policy, "pay": ToolPolicy()}
        await connection.close()
        output = await connection.call("balance", {})
    assert output.may_pass
    assert output == ToolOutput.error(
        "MCP server 'bank' is closed; connect it again. The call was not sent."
    )


@pytest.mark.parametrize("policies", [{"pay": True}, {3: ToolPolicy()}])
def test_other_values_are_refused(policies: Any) -> None:
    with pytest.raises(ValueError, match="policies must map str to ToolPolicy"):
        McpServer(command=["true"], alias="a", policies=policies)


def test_a_limit_for_a_servers_tool_brings_the_reader() -> None:
    server = bank(pay=ToolPolicy(max_result_chars=1_000))
    agents = [Agent(model=ScriptedModel([]), tools=[each]) for each in (server, bank())]
    names = [[tool.spec.name for tool in agent._plan().tools] for agent in agents]
    assert names == [["read_result"], []]
    assert server == bank(pay=ToolPolicy(max_result_chars=1_000))
    assert server != bank()


async def test_a_time_limit_for_a_tool_that_is_not_there_is_an_error_when_connected(server):
    wrong = server("plain", tool_timeouts_s={"eccho": 5})
    with pytest.raises(McpConnectError, match=r"has no tools \['eccho'\], which are in tool"):
        async with wrong.connect():
            pass


async def test_a_policy_for_every_tool_holds_where_there_is_no_other() -> None:
    model = ScriptedModel([[Call("bank__balance", {}), Call("bank__pay", {"amount": 5})], "done"])
    every = ToolPolicy(requires_approval=True)
    server = McpServer(
        command=[sys.executable, "-c", SERVER],
        connect_timeout_s=60,
        alias="bank",
        policies={"*": every, "balance": ToolPolicy()},
    )
    async with Agent(model=model, tools=[server]) as agent:
        with pytest.raises(ApprovalRequired) as caught:
            await agent.run("Pay.")
    assert [each.call.name for each in caught.value.paused.pending] == ["bank__pay"]


async def test_a_policy_for_every_tool_holds_for_one_that_is_added_later(tool_file) -> None:
    every = ToolPolicy(requires_approval=True)
    async with tool_file.server(policies={"*": every}).connect() as connection:
        tool_file.set("announce", "crash", "echo", "later")
        await connection.call("announce", {})
        await connection.recheck()
        by_name = {each.original_name: policy_of(each) for each in connection.tools}
    assert by_name == dict.fromkeys(["announce", "crash", "echo", "later"], every)


async def test_a_policy_for_a_tool_that_is_left_out_says_so() -> None:
    policies = {"pay": ToolPolicy(requires_approval=True)}
    server = McpServer(
        command=[sys.executable, "-c", SERVER],
        connect_timeout_s=60,
        alias="bank",
        deny={"pay"},
        policies=policies,
    )
    with pytest.raises(McpConnectError, match=r"has \['pay'\] in policies, and these .* not taken"):
        async with server.connect():
            pass
