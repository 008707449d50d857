"""A program that starts a server and then is no more: `crashing_app.py HOW SERVER_COMMAND...`.

It prints the ids of the server, of a child and of a daemon that the server has started, and then
waits to be killed, or closes its event loop without having closed anything.
"""

from __future__ import annotations

import asyncio
import json
import sys

from agentkit.toolset.mcp.links.process import ServerProcess


async def ask(process: ServerProcess, tool: str) -> int:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}}
    process.stdin.write(json.dumps(request).encode() + b"\n")
    answer = json.loads(await process.stdout.readline())
    return int(answer["result"]["content"][0]["text"])


async def start(command: list[str]) -> ServerProcess:
    process = await ServerProcess.start(command, {}, None)
    child, daemon = await ask(process, "child"), await ask(process, "daemon")
    sys.stdout.write(f"{process.pid} {child} {daemon}\n")
    sys.stdout.flush()
    return process


async def start_and_wait(command: list[str]) -> None:
    await start(command)
    await asyncio.Event().wait()


def main() -> None:
    how, *command = sys.argv[1:]
    if how == "killed":
        asyncio.run(start_and_wait(command))
    loop = asyncio.new_event_loop()
    kept = loop.run_until_complete(start(command))
    loop.close()
    del kept


main()
