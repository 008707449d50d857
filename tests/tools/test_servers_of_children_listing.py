"""The listings of sql, http and python have the same bytes at each start."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.tools.started import TOOLS_FOLDER

LIST = """
import asyncio, json, sys
sys.path.append(sys.argv[1])
from agentkit_tools import http, python, sql
from agentkit_tools._fetching import Fetcher
from agentkit_tools._sandbox import Sandbox
from agentkit_tools._web_rules import Rules

async def listed(server):
    return [tool.model_dump(by_alias=True) for tool in await server.list_tools()]

async def main():
    servers = [
        sql.build_server(sql.Database(location="postgresql://x"), may_write=True),
        http.build_server(Fetcher(rules=Rules())),
        python.build_server(Sandbox()),
    ]
    print(json.dumps([await listed(server) for server in servers]))

asyncio.run(main())
"""


@pytest.mark.timeout(90)
def test_a_listing_has_the_same_bytes_under_every_hash_seed():
    answers = [
        subprocess.run(
            [sys.executable, "-c", LIST, TOOLS_FOLDER],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    ]
    assert answers[0] == answers[1]
    names = [[tool["name"] for tool in server] for server in json.loads(answers[0])]
    assert names == [
        ["describe_table", "execute", "list_tables", "query"],
        ["fetch", "head"],
        ["run_python"],
    ]
    for tool in (tool for server in json.loads(answers[0]) for tool in server):
        assert tool["description"]
        for name, schema in tool["inputSchema"].get("properties", {}).items():
            assert schema.get("description"), (tool, name)
