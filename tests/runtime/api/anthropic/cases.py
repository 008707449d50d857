"""Requests and what the scripted model answers to them: one table for all ways to ask."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

WEATHER: dict[str, Any] = {
    "name": "weather",
    "description": "Weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}
TIME: dict[str, Any] = {**WEATHER, "name": "time", "description": "Time in a city."}
SCHEMA: dict[str, Any] = WEATHER["input_schema"]
EPHEMERAL = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


@dataclass(frozen=True)
class Case:
    """A request, its answer's blocks, and why it ended."""

    name: str
    asks: dict[str, Any]
    says: list[Any]
    stop_reason: str = "end_turn"
    stop_sequence: str | None = None
    messages: list[Any] = field(default_factory=list)

    def request(self) -> dict[str, Any]:
        """Keyword arguments of `messages.create`."""
        return {"model": "scripted", "max_tokens": 200, "messages": self.messages, **self.asks}


def user(*content: Any) -> dict[str, Any]:
    """A user's message, of a text or of blocks."""
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else [*content]}


def assistant(*content: Any) -> dict[str, Any]:
    """An assistant's message, of a text or of blocks."""
    return {"role": "assistant", "content": user(*content)["content"]}


def text(value: str, **more: Any) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": value, **more}


def call(call_id: str, city: str, days: int, **more: Any) -> dict[str, Any]:
    """A call in the history."""
    given = {"city": city, "days": days}
    return {"type": "tool_use", "id": call_id, "name": "weather", "input": given, **more}


def result(call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    """A call's result."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def case(name: str, messages: list[Any], says: list[Any], **more: Any) -> Case:
    """A row of the table."""
    ends = {key: more.pop(key) for key in ("stop_reason", "stop_sequence") if key in more}
    return Case(name, more, says, messages=messages, **ends)


HELLO = "Hello, who are you?"
ZURICH = ("weather", {"city": "Zürich", "days": 3})
OSLO = ("weather", {"city": "Oslo", "days": 1})
ROME = ("weather", {"city": "Rome", "days": 2})
CALLS: dict[str, Any] = {"tools": [WEATHER, TIME], "stop_reason": "tool_use"}

CASES = [
    case("a text", [user("hello")], [HELLO]),
    case("a text block", [user(text("hello"))], [HELLO]),
    case("several text blocks", [user(text("Well,"), text("hello"))], [HELLO]),
    case("no ascii", [user("accents")], ["naïve — 東京 🙂\u2028 end"]),
    case("a system text", [user("hello")], [HELLO], system="Be kind."),
    case("system blocks", [user("hello")], [HELLO], system=[text("Be kind."), text("Be short.")]),
    case(
        "a system message in the middle",
        [user("Hi"), {"role": "system", "content": "Be kind."}, assistant("Yes?"), user("hello")],
        [HELLO],
    ),
    case("earlier turns", [user("Hi"), assistant("Yes?"), user("hello")], [HELLO]),
    case("users in a row", [user("Hi"), user("hello")], [HELLO]),
    case(
        "assistants in a row", [user("Hi"), assistant("A"), assistant("B"), user("hello")], [HELLO]
    ),
    case("a beginning", [user("hello"), assistant("Hello,")], [" who are you?"]),
    case("an empty beginning", [user("hello"), assistant("")], [HELLO]),
    case(
        "a stop sequence",
        [user("hello")],
        ["Hello, who"],
        stop_sequences=[" zzz", " are"],
        stop_reason="stop_sequence",
        stop_sequence=" are",
    ),
    case("max_tokens", [user("hello")], ["Hello,"], max_tokens=2, stop_reason="max_tokens"),
    case(
        "sampling",
        [user("hello")],
        [HELLO],
        extra_body={"temperature": 0.7, "top_p": 0.9, "top_k": 5},
    ),
    case("a call", [user("weather")], [ZURICH], **CALLS),
    case("a text and a call", [user("look")], ["Let me look.", OSLO], **CALLS),
    case("calls", [user("both")], [OSLO, ROME], **CALLS),
    case(
        "one call only",
        [user("weather")],
        [ZURICH],
        **CALLS,
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
    ),
    case("any tool", [user("weather")], [ZURICH], **CALLS, tool_choice={"type": "any"}),
    case(
        "one tool",
        [user("weather")],
        [ZURICH],
        **CALLS,
        tool_choice={"type": "tool", "name": "weather"},
    ),
    case(
        "no tool",
        [user("hello")],
        [HELLO],
        tools=[WEATHER],
        tool_choice={"type": "none"},
    ),
    case(
        "strict tools",
        [user("weather")],
        [ZURICH],
        tools=[{**WEATHER, "strict": True}],
        stop_reason="tool_use",
    ),
    case(
        "results",
        [
            user("both"),
            assistant(text("Let me see."), call("t1", "Oslo", 1), call("t2", "Rome", 2)),
            user(result("t1", "rain"), result("t2", [text("sunny"), text("warm")])),
        ],
        ["It is sunny."],
        tools=[WEATHER],
    ),
    case(
        "an error as a result",
        [
            user("both"),
            assistant(call("t1", "Oslo", 1)),
            user(result("t1", "sunny", is_error=True)),
        ],
        ["It is sunny."],
        tools=[WEATHER],
    ),
    case(
        "a text behind results",
        [user("both"), assistant(call("t1", "Oslo", 1)), user(result("t1", "rain"), text("hello"))],
        [HELLO],
        tools=[WEATHER],
    ),
    case(
        "earlier thinking",
        [
            user("Hi"),
            assistant({"type": "thinking", "thinking": "Hm.", "signature": "s"}, text("Yes?")),
            user("hello"),
        ],
        [HELLO],
        thinking={"type": "adaptive"},
    ),
    case(
        "a document of text",
        [
            user(
                {
                    "type": "document",
                    "title": "Notes",
                    "source": {"type": "text", "media_type": "text/plain", "data": "Some notes"},
                },
                text("hello"),
            )
        ],
        [HELLO],
    ),
    case(
        "marks",
        [user("Hi"), assistant("Yes?"), user(text("hello", cache_control=EPHEMERAL))],
        [HELLO],
        system=[text("Be kind.", cache_control=HOUR)],
        tools=[{**WEATHER, "cache_control": HOUR}],
    ),
    case("the automatic mark", [user("hello")], [HELLO], cache_control=EPHEMERAL),
    case(
        "a schema",
        [user("form")],
        ['{"city": "Oslo", "days": 2}'],
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
    ),
    case(
        "what is about the request",
        [user("hello")],
        [HELLO],
        metadata={"user_id": "user_x"},
        service_tier="auto",
        output_config={"effort": "low"},
    ),
]
