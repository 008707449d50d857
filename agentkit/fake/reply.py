"""What the fake model says, and who decides it."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from agentkit.fake.fields import JsonObject
from agentkit.fake.sample import sample


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the fake model."""

    name: str
    arguments: str = "{}"
    """JSON text, which may be broken. APIs whose replies hold objects send its value."""

    @property
    def value(self) -> JsonObject:
        """The arguments as an object; what is none is put into one."""
        try:
            value = json.loads(self.arguments)
        except json.JSONDecodeError:
            value = None
        return value if isinstance(value, dict) else {"INVALID_JSON": self.arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One turn of the fake model: first its thinking, then its text, then its calls."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    first_byte_s: float = 0.0
    """From the arrival of the request to the first byte of the response, in seconds."""
    seconds: float = 0.0
    """From the first byte to the last."""
    breaks_after: int | None = None
    """The connection of a stream breaks after this many pieces; None: it does not."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """More headers of the response, such as those about rate limits."""
    breaks_at_byte: int | None = None
    """The connection of a stream breaks after this many bytes of its body, wherever that is.

    None, or more than it has: it does not. Within the last piece the answer is complete and billed,
    and the client does not know.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error in place of a turn. Nothing is written to the cache, and nothing is billed."""

    status: int
    """HTTP status, e.g. 429, 500, 529."""
    message: str = "the fake provider was told to fail"
    retry_after_s: float | None = None
    after_s: float = 0.0
    """When it comes, counted from the arrival of the request, in seconds."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """More headers of the response, such as those about rate limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What the fake model is asked, in words that all APIs share."""

    api: str
    """`messages`, `responses`, `chat` or `gemini`."""
    model: str
    user_text: str
    """All text of users since the model's last turn."""
    n_results: int
    """Tool results since the model's last turn."""
    n_turns: int
    """Turns of the model that the request replays."""
    tools: Mapping[str, JsonObject] = field(default_factory=dict)
    """Names of the tools that may be called, and the schemas of their arguments."""
    tool_choice: str = "auto"
    """`auto`, `none`, `any`, or the name of a tool."""
    output_schema: JsonObject | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: JsonObject = field(default_factory=dict)
    """The whole request."""


Respond: TypeAlias = Callable[[Ask], "Reply | Failure | Awaitable[Reply | Failure]"]


def obey(ask: Ask) -> Reply | Failure:
    r"""Do what the user's text says, line by line; the answer to all else is `ok`.

    `/say TEXT`, `/think TEXT`, `/call TOOL {"json": "arguments"}`, `/fail 529 [RETRY_AFTER]`.
    A forced call and a given output schema are served with the least that fits.
    """
    calls: list[Call] = []
    said: list[str] = []
    thoughts: list[str] = []
    for word, rest in _DIRECTIVE.findall(ask.user_text):
        match word:
            case "say":
                said.append(rest)
            case "think":
                thoughts.append(rest)
            case "fail":
                return _failure(rest)
            case _:
                name, _, arguments = rest.partition(" ")
                calls.append(Call(name, arguments.strip() or "{}"))
    calls = [call for call in calls if call.name in ask.tools and ask.tool_choice != "none"]
    if not calls and ask.tools and ask.tool_choice not in ("auto", "none"):
        name = next(iter(ask.tools)) if ask.tool_choice == "any" else ask.tool_choice
        calls = [Call(name, json.dumps(sample(ask.tools.get(name, {}))))]
    text = "\n".join(said)
    if not text and not calls:
        text = "ok" if ask.output_schema is None else json.dumps(sample(ask.output_schema))
    return Reply(text=text, calls=tuple(calls), thinking="\n".join(thoughts))


def cut(reply: Reply, max_tokens: int | None) -> tuple[Reply, bool]:
    """Return what fits into `max_tokens`, at four bytes each, and whether anything was cut."""
    if max_tokens is None:
        return reply, False
    room = max_tokens * 4
    thinking = _start(reply.thinking, room)
    room -= len(thinking.encode())
    text = _start(reply.text, room)
    room -= len(text.encode())
    calls = []
    for call in reply.calls:
        room -= len(call.arguments.encode())
        if room < 0:
            break
        calls.append(call)
    short = replace(reply, thinking=thinking, text=text, calls=tuple(calls))
    return short, short != reply


def _start(text: str, n_bytes: int) -> str:
    return text.encode()[: max(0, n_bytes)].decode(errors="ignore")


def _failure(rest: str) -> Failure:
    status, _, wait = rest.partition(" ")
    return Failure(
        status=int(status) if status.isdigit() else 500,
        retry_after_s=float(wait) if wait.strip().isdigit() else None,
    )


_DIRECTIVE = re.compile(r"^/(say|think|call|fail) +(.+?) *$", re.MULTILINE)
