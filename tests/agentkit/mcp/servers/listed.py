"""An MCP server whose list is a file: `listed.py PATH`, on the standard library alone.

The file is JSON: {"tools": {name: {"description": ..., "schema": ...}}, "ttl_ms": ..., "page": ...,
"announces": ..., "noise": ...}. It is read anew for each list. What the spec leaves open is at
random: the order of tools, and of keys at any depth. Calls: `announce` says that the list has
changed, before its answer; `later` says so some milliseconds after it; `crash` ends the server with
the file's `last_words`; any other tool that is listed answers its arguments.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from pathlib import Path

PATH = Path(sys.argv[1])
CHANCE = random.SystemRandom()
LOCK = threading.Lock()


def settings() -> dict:
    return json.loads(PATH.read_text("utf-8"))


def send(message: dict) -> None:
    with LOCK:
        sys.stdout.write(json.dumps(shuffled({"jsonrpc": "2.0", **message})) + "\n")
        sys.stdout.flush()


def shuffled(value: object) -> object:
    if isinstance(value, dict):
        items = [(key, shuffled(member)) for key, member in value.items()]
        CHANCE.shuffle(items)
        return dict(items)
    return [shuffled(each) for each in value] if isinstance(value, list) else value


def listed(cursor: str | None) -> dict:
    now = settings()
    if now.get("no_list"):
        return {}
    tools = [
        {"name": name, "description": each["description"], "inputSchema": each["schema"]}
        for name, each in now["tools"].items()
    ]
    if now.get("page"):
        start = int(cursor or 0)
        end = start + now["page"]
        more = {"nextCursor": str(end)} if end < len(tools) else {}
        tools = tools[start:end]
    else:
        more = {}
        CHANCE.shuffle(tools)
    ttl = {"ttlMs": now["ttl_ms"], "cacheScope": "private"} if "ttl_ms" in now else {}
    return {"tools": tools, **more, **ttl}


def announce() -> None:
    send({"method": "notifications/tools/list_changed"})


def announce_later() -> None:
    time.sleep(0.005)
    announce()


def call(params: dict) -> dict:
    name = params["name"]
    if name == "crash":
        sys.stderr.write(settings().get("last_words", ""))
        sys.stderr.flush()
        os._exit(7)
    if name not in settings()["tools"]:
        return {"error": {"code": -32602, "message": f"Unknown tool: {name}"}}
    if name == "announce":
        announce()
    if name == "later":
        threading.Thread(target=announce_later).start()
    text = json.dumps({"name": name, "arguments": params.get("arguments")}, sort_keys=True)
    wrong = "must" in (params.get("arguments") or {})
    return {"result": {"content": [{"type": "text", "text": text}], "isError": wrong}}


def main() -> None:
    announces = settings().get("announces", True)
    for line in sys.stdin:
        request = json.loads(line)
        method, params = request.get("method"), request.get("params") or {}
        if method == "initialize":
            answer: dict = {
                "result": {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": announces}},
                    "serverInfo": {"name": "listed", "version": "1"},
                }
            }
        elif method == "notifications/initialized":
            for _ in range(settings().get("noise", 0)):
                announce()
            continue
        elif method == "tools/list":
            answer = {"result": listed(params.get("cursor"))}
        elif method == "tools/call":
            answer = call(params)
        elif "id" in request:
            answer = {"error": {"code": -32601, "message": "Method not found"}}
        else:
            continue
        send({"id": request["id"], **answer})


main()
