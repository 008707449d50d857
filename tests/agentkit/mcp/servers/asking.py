"""An MCP server of the old protocol that asks at the wrong moment: `asking.py`.

Hand-written, since no SDK would do it. Each tool is one way to ask badly.
"""

from __future__ import annotations

import json
import os
import sys

FORM = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
TOOLS = ("ask", "ask_and_die", "ask_and_answer", "ask_badly", "ask_what", "log_junk", "last_words")
n_asked = 0
said: list[object] = []
waiting: dict[object, object] = {}
"""Calls that wait for an answer, by the id of the question."""


def send(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(call_id: object, text: object) -> None:
    content = [{"type": "text", "text": json.dumps(text)}]
    send({"id": call_id, "result": {"content": content}})


def ask(params: object, method: str = "elicitation/create") -> str:
    global n_asked
    n_asked += 1
    send({"id": f"q{n_asked}", "method": method, "params": params})
    return f"q{n_asked}"


def call(request: dict) -> None:
    form = {"message": "Which?", "requestedSchema": FORM}
    match request["params"]["name"]:
        case "ask":
            waiting[ask(form)] = request["id"]
        case "ask_and_die":
            ask(form)
            os._exit(5)
        case "ask_and_answer":
            ask(form)
            answer(request["id"], "done without you")
        case "ask_badly":
            waiting[ask({"message": 5, "requestedSchema": "x"})] = request["id"]
        case "ask_what":
            waiting[ask({}, "tea/make")] = request["id"]
        case "log_junk":
            for params in ({}, {"level": "loud", "data": 1}, {"level": "info", "data": {"a": 1}}):
                send({"method": "notifications/message", "params": params})
            for progress in ("x", None, True, 1e400, -1):
                token = request["params"].get("_meta", {}).get("progressToken")
                params = {"progressToken": token, "progress": progress, "message": 5}
                send({"method": "notifications/progress", "params": params})
            answer(request["id"], "logged")
        case "last_words":
            answer(request["id"], said)


def handle(message: dict) -> None:
    match message.get("method"):
        case "initialize":
            info = {"name": "asking", "version": "1"}
            version = message["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            send({"id": message["id"], "result": result})
        case "notifications/initialized":
            ask({"message": "Already?", "requestedSchema": FORM})
        case "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            send({"id": message["id"], "result": {"tools": tools}})
        case "tools/call":
            call(message)
        case None:
            said.append(message.get("result") or message.get("error"))
            if (call_id := waiting.pop(message["id"], None)) is not None:
                answer(call_id, said[-1])
        case _ if "id" in message:
            send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})


for line in sys.stdin:
    handle(json.loads(line))
