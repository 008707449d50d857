"""What the chaos tests have in common: a bad server, calls by chance, and what must hold."""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from agentkit import Context, McpServer
from agentkit.blocks import AssistantMessage, ToolMessage, ToolsMessage
from agentkit.toolset.mcp.lists.names import final_names
from tests.agentkit.json_text import elements, members

SERVER = Path(__file__).parent / "servers" / "chaos.py"
WEIGHTS = {
    "echo": 40,
    "flood": 8,
    "latin": 5,
    "surrogate": 5,
    "twice": 8,
    "broken": 10,
    "other_tools": 10,
    "crash": 6,
    "child": 2,
    "hang": 1,
    "close": 1,
    "big": 3,
}
BIG = ("300000", "300000", "300000", "12000000", "20000000")
"""Characters of big results: the last is more than the client reads."""

_MARK = re.compile(r',"cache_control":\{[^}]*\}\}$')

OnChange = Literal["append", "pin"]


class Calls:
    """What the model calls, turn by turn."""

    def __init__(self, seed: int, n_calls: int = 0) -> None:
        self._chance = random.Random(seed)
        self.n_calls = n_calls
        self.made: Counter[str] = Counter()

    def turn(self, added: Sequence[str] = ()) -> list[tuple[str, dict[str, str]]]:
        """Return the calls of the next turn; none: it is enough."""
        left = self.n_calls - self.made.total()
        size = min(left, self._chance.choice((1, 1, 2, 4, 8)))
        return [self._call(added) for _ in range(size)]

    def _call(self, added: Sequence[str]) -> tuple[str, dict[str, str]]:
        (name,) = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
        self.made[name] += 1
        if name == "echo" and added and self._chance.random() < 0.5:
            return self._chance.choice(added), {"text": "what came later"}
        given = self._chance.choice(BIG) if name == "big" else f"call {self.made.total()}"
        return f"chaos__{name}", {"text": given}


def chaos(
    seed: int,
    folder: Path,
    on_change: OnChange,
    *,
    alias: str = "chaos",
    is_steady: bool = False,
    listing_ttl_s: float | None = None,
) -> McpServer:
    folder.mkdir(exist_ok=True)
    how = ["steady"] if is_steady else []
    return McpServer(
        alias=alias,
        command=[sys.executable, "-S", str(SERVER), str(seed), str(folder), *how],
        call_timeout_s=1.0,
        connect_timeout_s=20,
        max_result_chars=2_000,
        on_change=on_change,
        listing_ttl_s=listing_ttl_s,
    )


def check_results(contexts: Iterable[Context], n_made: int) -> None:
    """Every call has one result, in the order of the calls, and a text that a model can read."""
    n_calls = n_good = 0
    for context in contexts:
        messages = [each for each in context.messages if not isinstance(each, ToolsMessage)]
        for said, answered in pairwise(messages):
            if not isinstance(said, AssistantMessage) or not said.calls:
                continue
            assert isinstance(answered, ToolMessage)
            assert [each.call_id for each in answered.results] == [each.id for each in said.calls]
            for each in answered.results:
                assert each.content
                assert len(each.content) <= 2_500
                each.content.encode()
                n_good += not each.is_error
            n_calls += len(said.calls)
    assert n_calls == n_made
    assert n_good > n_made // 3, "it is no use if nothing works any more"


def check_processes(folder: Path, is_gone: Callable[[int], bool]) -> int:
    """No process is left, nor any other in a group of theirs; returns how many there were."""
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    assert [pid for pid in pids if not is_gone(pid)] == []
    assert [pid for pid in _members_of_groups(set(pids)) if not is_gone(pid)] == []
    return len(pids)


def _members_of_groups(ids: set[int]) -> list[int]:
    """Processes whose group or session has one of these ids; none where the system does not say."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if ids & {int(fields[2]), int(fields[3])}:
            found.append(int(path.parent.name))
    return found


class Wire:
    """The `tools` of requests, character by character, by the conversation that asks."""

    def __init__(self) -> None:
        self.tools: dict[str, list[tuple[str, ...]]] = {}

    def add(self, conversation: str, body: bytes) -> None:
        self.tools.setdefault(conversation, []).append(tools_of(body))

    def check(self, listings: Sequence[Mapping[str, object]]) -> None:
        """The tools of a conversation stay, and are what was listed once, in one form and order.

        Args:
            listings: all lists that servers ever sent: schemas by final names.
        """
        forms: dict[str, set[str]] = {}
        for requests in self.tools.values():
            assert len(set(requests)) == 1, "the tools of a conversation have changed"
            shown = {each["name"]: each for each in map(json.loads, requests[0])}
            assert list(shown) == sorted(shown), "in the order of their names"
            for server in {name.partition("__")[0] for name in shown if "__" in name}:
                own = {n: _schema(t) for n, t in shown.items() if n.startswith(f"{server}__")}
                assert own in listings, "not what was listed together"
            for text in requests[0]:
                forms.setdefault(json.dumps(json.loads(text), sort_keys=True), set()).add(text)
        assert {len(each) for each in forms.values()} == {1}, "what is equal has other bytes"


def tools_of(body: bytes) -> tuple[str, ...]:
    """The tools of a request as they are written, but for marks."""
    tools = dict(members(body.decode()))["tools"]
    return tuple(_MARK.sub("}", text) for text in elements(tools))


def _schema(tool: Mapping[str, object]) -> object:
    """The parameters, by whatever name the provider has for them."""
    return tool.get("input_schema", tool.get("parameters"))


def listings_of(folder: Path, alias: str) -> list[dict[str, object]]:
    """All lists that a server ever sent: schemas by final names."""
    listings = []
    for line in (folder / "listed").read_text().splitlines():
        schemas = {tool["name"]: tool["inputSchema"] for tool in json.loads(line)}
        names = final_names(alias, schemas)
        listings.append({names[name]: schema for name, schema in schemas.items()})
    return listings
