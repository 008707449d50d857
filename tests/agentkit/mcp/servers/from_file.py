"""An MCP server that offers what a JSON file says, read anew for each request: `from_file.py PATH`.

The file has `tools` (name -> description), and may have `schemas` of them and `resources` (URI ->
text). A tool `crash` ends the server, `announce` says that the tools have changed. It starts in
milliseconds.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

EMPTY = {"type": "object", "properties": {}}


def send(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def result_of(method: str, params: dict) -> dict | None:
    state = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    tools, resources = state.get("tools", {}), state.get("resources", {})
    schemas = state.get("schemas", {})
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "from-file", "version": "1.2"},
                "instructions": state.get("instructions", ""),
            }
        case "tools/list":
            offered = [
                {"name": name, "description": text, "inputSchema": schemas.get(name, EMPTY)}
                for name, text in tools.items()
            ]
            return {"tools": offered}
        case "tools/call" if params["name"] == "crash":
            os._exit(1)
        case "tools/call" if params["name"] == "announce":
            send({"method": "notifications/tools/list_changed"})
            return {"content": []}
        case "tools/call":
            return {"content": [{"type": "text", "text": f"called {params['name']}"}]}
        case "resources/list":
            return {"resources": [{"uri": uri, "name": uri} for uri in resources]}
        case "resources/read":
            uri = params["uri"]
            return {"contents": [{"uri": uri, "text": resources[uri]}]}
        case _:
            return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = result_of(request["method"], request.get("params") or {})
        answer = {"id": request["id"]}
        if result is None:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        else:
            answer["result"] = result
        send(answer)
