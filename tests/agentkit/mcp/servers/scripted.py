"""An MCP server with bad manners, hand-written on the standard library: `scripted.py MODE [PATH]`.

Each mode is one fault that real servers show. Without the SDK it starts in milliseconds, and can
do what no SDK would let it do.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

MODE = sys.argv[1]
ARGUMENT = sys.argv[2] if len(sys.argv) > 2 else ""
OUT = sys.stdout.buffer
EMPTY = {"type": "object", "properties": {}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

cancelled = []
n_listings = 0


def write(data: bytes) -> None:
    OUT.write(data)
    OUT.flush()


def send(message: dict) -> None:
    write(json.dumps(message).encode() + b"\n")


def answer(request: dict, result: dict) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(value: str) -> dict:
    return {"content": [{"type": "text", "text": value}]}


def tool(name: str, schema: dict = EMPTY, **more: object) -> dict:
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


def tools() -> list[dict]:
    match MODE:
        case "shuffle":
            listed = [shuffled(tool(name, TEXT)) for name in ("alpha", "beta", "gamma", "delta")]
            random.SystemRandom().shuffle(listed)
            return listed
        case "sets":
            words = {"north", "east", "south", "west", "up", "down", "left", "right"}
            return [tool("go", {**EMPTY, "properties": {"way": {"default": ", ".join(words)}}})]
        case "duplicates":
            listed = [tool("twice", TEXT), tool("twice"), tool("once"), tool("a.b"), tool("a_b")]
            random.SystemRandom().shuffle(listed)
            return listed
        case "bad_tools":
            deep: dict = EMPTY
            for _ in range(100):
                deep = {"type": "object", "properties": {"x": deep}}
            return [
                tool("array", {"type": "array"}),
                {"name": "no_schema"},
                {"description": "no name", "inputSchema": EMPTY},
                "not even an object",
                tool("nan", {**EMPTY, "default": float("nan")}),
                tool("deep", deep),
                tool("task", execution={"taskSupport": "required"}),
                tool("untyped", {}),
                tool("surrogate \ud800"),
                tool("good"),
            ]
        case "drift" if Path(ARGUMENT).exists():
            return [tool("crash"), tool("echo", EMPTY), tool("new")]
        case _:
            return [tool("crash"), tool("echo", TEXT), tool("hang"), tool("state")]


def shuffled(value: object) -> object:
    """The same JSON with its object keys in a random order."""
    if isinstance(value, dict):
        items = [(key, shuffled(member)) for key, member in value.items()]
        random.SystemRandom().shuffle(items)
        return dict(items)
    return value


def list_tools(request: dict) -> None:
    global n_listings
    n_listings += 1
    cursor = (request.get("params") or {}).get("cursor")
    if MODE == "pages":
        pages = [("", [tool("one")]), ("2", [tool("two")]), (None, [tool("three")])]
        index = {None: 0, "": 1, "2": 2}[cursor]
        following, page = pages[index]
        answer(request, {"tools": page} | ({} if following is None else {"nextCursor": following}))
    elif MODE == "cursor_number":
        answer(request, {"tools": [tool("one")], "nextCursor": 1})
    elif MODE == "cursor_loop":
        answer(request, {"tools": [tool(f"t{n_listings}")], "nextCursor": "again"})
    elif MODE == "list_fails":
        error = {"code": -32603, "message": "the database is down"}
        send({"jsonrpc": "2.0", "id": request["id"], "error": error})
    elif MODE != "list_hangs":
        answer(request, {"tools": tools()})


def call(request: dict) -> None:  # noqa: C901 - a table of faults
    name = request["params"]["name"]
    arguments = request["params"].get("arguments") or {}
    if name == "crash":
        if ARGUMENT:
            with open(ARGUMENT, "a") as log:
                log.write("called\n")
        sys.stderr.write("out of cheese\n")
        sys.stderr.flush()
        os._exit(7)
    elif name == "hang":
        return
    elif name == "stop_reading":
        time.sleep(600)
    elif name == "state":
        answer(request, text(json.dumps({"cancelled": len(cancelled), "pid": os.getpid()})))
    elif name in BROKEN_ANSWERS:
        write(BROKEN_ANSWERS[name](request["id"]))
    elif name == "child":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        answer(request, text(str(child.pid)))
    elif name == "daemon":
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
        daemon = subprocess.Popen(command, start_new_session=True, **quiet)
        answer(request, text(str(daemon.pid)))
    elif name == "close_stdout":
        OUT.close()
        os.close(1)
        time.sleep(600)
    elif name == "result":
        answer(request, json.loads(arguments["text"]))
    elif name == "say":
        # What it says first, as it stands, with the token of the call.
        token = request["params"]["_meta"]["progressToken"]
        write(arguments["text"].replace("TOKEN", str(token)).encode() + b"\n")
        answer(request, text("said"))
    elif name == "environment":
        answer(request, text(json.dumps(dict(os.environ))))
    elif name == "refuse":
        error = {"code": -32602, "message": "Unknown tool: refuse"}
        send({"jsonrpc": "2.0", "id": request["id"], "error": error})
    else:
        if MODE == "pollute":
            write(b"called echo\n")
        if MODE == "flood":
            for _ in range(20):
                write(b"\xff\x00\xfe noise \r\n" * 5_000 + b"\x00" * 50_000 + b"\n")
                sys.stderr.buffer.write(b"\xff chatter\n" * 5_000)
            sys.stderr.write("the last word\n")
            sys.stderr.flush()
        if MODE == "changes":
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        answer(request, text(arguments.get("text", "")))


def quoted(request_id: int, body: bytes) -> bytes:
    head = b'{"jsonrpc":"2.0","id":' + str(request_id).encode()
    return head + b',"result":{"content":[{"type":"text","text":' + body + b"}]}}\n"


BROKEN_ANSWERS = {
    "latin1": lambda i: quoted(i, b'"caf\xe9"'),
    "surrogate": lambda i: quoted(i, b'"half \\ud83d pair"'),
    "truncated": lambda i: quoted(i, b'"cut of')[:-5] + b"\n",
    "not_rpc": lambda i: json.dumps({"id": i, "answer": 42}).encode() + b"\n",
    "huge_line": lambda i: quoted(i, b'"' + b"x" * 20_000_000 + b'"'),
    "long": lambda i: quoted(i, b'"' + b"a" * 150_000 + b"m" * 150_000 + b"z" * 150_000 + b'"'),
    "crlf": lambda i: quoted(i, b'"windows"')[:-1] + b"\r\n",
}


def handle(request: dict) -> None:
    method = request.get("method")
    if method == "initialize":
        version = request["params"]["protocolVersion"]
        info = {"name": "scripted", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        answer(
            request,
            {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info},
        )
    elif method == "tools/list":
        list_tools(request)
    elif method == "tools/call":
        call(request)
    elif method == "notifications/cancelled":
        cancelled.append(request["params"])
    elif method == "server/discover" and MODE == "exits_on_unknown":
        sys.exit("unknown method")
    elif "id" in request:
        error = {"code": -32601, "message": "Method not found"}
        send({"jsonrpc": "2.0", "id": request["id"], "error": error})


def main() -> None:
    match MODE:
        case "fails_at_start":
            sys.exit("cannot find my configuration")
        case "silent":
            sys.stderr.write("thinking\n")
            sys.stderr.flush()
            time.sleep(600)
        case "pollute":
            write(b'*** Welcome to scripted 1.0 ***\n\nloading...\n[1, 2]\n{"level": "info"}\n')
        case "latin1_banner":
            write("Démarrage\n".encode("latin-1"))
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        handle(json.loads(line))
    if MODE == "stubborn":
        time.sleep(600)


main()
