"""An MCP server that does everything wrong, by chance: `chaos.py SEED FOLDER [steady]`.

It lists its tools in another order and with other key orders each time, changes them while it runs
and over its deaths, and answers calls late, never, twice, broken, or with twenty megabytes;
`steady` means that it changes them only when it is called. What it offers now is in FOLDER, as are
all lists that it ever sent and the ids of all processes that it ever had. Standard library only: it
starts in milliseconds, and can do what no SDK would let it do.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

SEED, FOLDER = sys.argv[1], Path(sys.argv[2])
IS_STEADY = sys.argv[3:] == ["steady"]
OUT = sys.stdout.buffer
STATE = FOLDER / "state.json"
N_STARTS = len((FOLDER / "pids").read_text().split()) if (FOLDER / "pids").exists() else 0
CHANCE = random.Random(f"{SEED}/{N_STARTS}")
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def write(data: bytes) -> None:
    OUT.write(data)
    OUT.flush()


def send(message: dict) -> None:
    write(json.dumps(shuffled(message)).encode() + b"\n")


def answer(request: dict, result: dict) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(value: str) -> dict:
    return {"content": [{"type": "text", "text": value}]}


def shuffled(value: object) -> object:
    """The same JSON with its object keys in an order of chance."""
    if isinstance(value, dict):
        items = [(key, shuffled(member)) for key, member in value.items()]
        CHANCE.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [shuffled(member) for member in value]
    return value


def state() -> dict:
    """What it offers now: tools beside those that are always there, and versions of schemas."""
    return json.loads(STATE.read_text()) if STATE.exists() else {"extra": [], "versions": {}}


def tools() -> list[dict]:
    now = state()
    names = [*ALWAYS, *now["extra"]]
    listed = []
    for name in names:
        version = now["versions"].get(name, 0)
        schema = json.loads(json.dumps(TEXT))
        for number in range(version):
            schema["properties"][f"option_{number}"] = {"type": "integer", "default": number}
        described = f"Does {name}." + (" Better than before." if version else "")
        listed.append({"name": name, "description": described, "inputSchema": schema})
    with open(FOLDER / "listed", "a") as lists:
        lists.write(json.dumps(listed) + "\n")
    CHANCE.shuffle(listed)
    return listed


def change() -> str:
    """Add, remove or change a tool, and say so, as long as it likes."""
    now = state()
    kind = CHANCE.choice(("add", "remove", "schema", "nothing"))
    if kind == "add":
        sign = CHANCE.choice("_.- ")  # some are no legal names, and sort elsewhere when they are
        now["extra"].append(f"extra{sign}{len(now['extra'])}{sign}{CHANCE.randrange(1_000)}")
    elif kind == "remove" and now["extra"]:
        now["extra"].pop(CHANCE.randrange(len(now["extra"])))
    elif kind == "schema":
        name = CHANCE.choice(ALWAYS)
        now["versions"][name] = now["versions"].get(name, 0) + 1
    STATE.write_text(json.dumps(now))
    for _ in range(CHANCE.randrange(1, 4)):
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    return kind


def echo(request: dict, given: str) -> None:
    answer(request, text(given))


def crash(request: dict, given: str) -> None:
    if CHANCE.random() < 0.5:
        write(b'{"jsonrpc": "2.0", "id": ')
    sys.stderr.write("out of cheese\n")
    sys.stderr.flush()
    os._exit(7)


def flood(request: dict, given: str) -> None:
    junk = [b"loading ...\n", b"\xff\xfe\n", b"{}\n", b"[1,2]\n", b"\n", b'{"jsonrpc": "1.0"}\n']
    for _ in range(CHANCE.randrange(1, 2_000)):
        OUT.write(CHANCE.choice(junk))
    answer(request, text(given))


def hang(request: dict, given: str) -> None:
    """Never answer."""


def close(request: dict, given: str) -> None:
    OUT.close()
    os.close(1)
    time.sleep(600)


def big(request: dict, given: str) -> None:
    answer(request, text("x" * int(given)))


def latin(request: dict, given: str) -> None:
    answered = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": text("caf@")})
    write(answered.encode().replace(b"@", b"\xe9") + b"\n")


def surrogate(request: dict, given: str) -> None:
    answer(request, text("half \ud83d of a face"))


def twice(request: dict, given: str) -> None:
    answer(request, text(given))
    answer(request, text("again"))
    send({"jsonrpc": "2.0", "id": "nobody-asked", "result": text("nothing")})


def broken(request: dict, given: str) -> None:
    results = (
        {},
        {"content": "no list"},
        {"content": [{"type": "video", "data": 5}]},
        {"content": [None, 5]},
        {"content": [], "structuredContent": {"n": float("nan")}},
        {"content": [{"type": "text"}], "isError": "perhaps"},
    )
    if CHANCE.random() < 0.3:
        error = {"code": "?", "message": None}
        send({"jsonrpc": "2.0", "id": request["id"], "error": error})
        return
    answer(request, CHANCE.choice(results))


CHILD = """
import subprocess, sys, time
sleeps = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
print(subprocess.Popen(sleeps, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid, flush=True)
time.sleep(600)
"""


def child(request: dict, given: str) -> None:
    """Leave a child and a grandchild: as they come, unmarked, or away from the group."""
    hiding = CHANCE.choice(({}, {"env": {}}, {"start_new_session": True}))
    started = subprocess.Popen(
        [sys.executable, "-S", "-c", CHILD],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        **hiding,
    )
    remember(started.pid)
    remember(int(started.stdout.readline()))
    answer(request, text("started"))


def other_tools(request: dict, given: str) -> None:
    answer(request, text(change()))


ALWAYS = (
    "big",
    "broken",
    "child",
    "close",
    "crash",
    "echo",
    "flood",
    "hang",
    "latin",
    "other_tools",
    "surrogate",
    "twice",
)


def remember(pid: int) -> None:
    with open(FOLDER / "pids", "a") as pids:
        pids.write(f"{pid}\n")


def handle(message: dict) -> None:
    match message.get("method"):
        case "initialize":
            info = {"name": "chaos", "version": "1"}
            version = message["params"]["protocolVersion"]
            able = {"tools": {"listChanged": True}}
            result = {"protocolVersion": version, "capabilities": able, "serverInfo": info}
            answer(message, result)
        case "tools/list":
            if not IS_STEADY and CHANCE.random() < 0.2:
                change()
            answer(message, {"tools": tools()})
        case "tools/call":
            name = message["params"]["name"]
            known = {*ALWAYS, *state()["extra"]}
            if name not in known:
                answer(message, {**text(f"no tool {name}"), "isError": True})
                return
            act = globals()[name] if name in ALWAYS else echo
            act(message, str((message["params"].get("arguments") or {}).get("text", "")))
        case _ if "id" in message and "method" in message:
            error = {"code": -32601, "message": "no such method"}
            send({"jsonrpc": "2.0", "id": message["id"], "error": error})


def main() -> None:
    remember(os.getpid())
    write(b"Welcome to chaos!\n")
    for line in sys.stdin.buffer:
        handle(json.loads(line))


main()
