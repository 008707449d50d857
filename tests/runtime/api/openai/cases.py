"""What is asked in the compatibility suite, and what must be told.

Each case is asked in three ways: whole, by the client's stream helper, and by its async twin, whose
chunks are added up by hand.
"""

from __future__ import annotations

from typing import Any

from tests.runtime.api.conftest import ANSWERS, CALL_TEXT
from tests.runtime.api.openai.conftest import PLACE
from tests.runtime.api.openai.told import Told

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "days": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
ARGUMENTS = '{"city": "Zürich", "days": 3}'
FUNCTION = {
    "name": "weather",
    "description": "Weather of a city.",
    "parameters": PARAMETERS,
    "strict": True,
}
CLOCK = {
    "name": "clock",
    "parameters": {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    },
    "strict": True,
}
HELLO = Told(text=ANSWERS["hello"])
CALLED = Told(calls=(("weather", ARGUMENTS),), end="tool_calls")
SUNNY = Told(text=ANSWERS["sunny"])
USER = {"role": "user", "content": "hello"}
ASK = {"role": "user", "content": "weather"}


def _chat_tool(function: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": function}


TOOLS = [_chat_tool(FUNCTION), _chat_tool(CLOCK)]
NAMED = {"type": "function", "function": {"name": "weather"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}
FORM = {"name": "place", "schema": PARAMETERS, "strict": True}

CHAT: dict[str, tuple[dict[str, Any], Told]] = {
    "plain": ({}, HELLO),
    "system message": ({"messages": [{"role": "system", "content": "Be kind."}, USER]}, HELLO),
    "developer message": (
        {"messages": [{"role": "developer", "content": "Be kind."}, USER]},
        HELLO,
    ),
    "text parts": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]},
        HELLO,
    ),
    "any language": (
        {"messages": [{"role": "user", "content": "accents"}]},
        Told(text=ANSWERS["accents"]),
    ),
    "named speaker": ({"messages": [{**USER, "name": "ada"}]}, HELLO),
    "max_tokens": ({"max_tokens": 1}, Told(text="Hello", end="length")),
    "max_completion_tokens": ({"max_completion_tokens": 1}, Told(text="Hello", end="length")),
    "no tokens": ({"max_tokens": 0}, Told(end="length")),
    "stop": ({"stop": [" who"]}, Told(text="Hello,")),
    "sampling": ({"temperature": 0.7, "top_p": 0.9, "seed": 7}, HELLO),
    "penalties": (
        {"frequency_penalty": 0.5, "presence_penalty": 0.5, "logit_bias": {"5": -1}},
        HELLO,
    ),
    "labels": (
        {
            "user": "u",
            "safety_identifier": "s",
            "metadata": {"a": "b"},
            "prompt_cache_key": "k",
            "prompt_cache_retention": "24h",
            "store": False,
        },
        HELLO,
    ),
    "flex": ({"service_tier": "flex"}, HELLO),
    "priority": ({"service_tier": "priority"}, HELLO),
    "logprobs": ({"logprobs": True, "top_logprobs": 2}, HELLO),
    "tools, free": ({"messages": [ASK], "tools": TOOLS}, CALLED),
    "tools, one at a time": (
        {"messages": [ASK], "tools": TOOLS, "parallel_tool_calls": False},
        CALLED,
    ),
    "tools, not wanted": ({"tools": TOOLS}, HELLO),
    "tools, forbidden": (
        {"messages": [ASK], "tools": TOOLS, "tool_choice": "none"},
        Told(text=CALL_TEXT),
    ),
    "tools, required": ({"messages": [ASK], "tools": TOOLS, "tool_choice": "required"}, CALLED),
    "tools, named": ({"messages": [ASK], "tools": TOOLS, "tool_choice": NAMED}, CALLED),
    "tools, allowed": (
        {
            "messages": [ASK],
            "tools": TOOLS,
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [NAMED]},
            },
        },
        CALLED,
    ),
    "tools, result": (
        {
            "messages": [
                ASK,
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            ],
            "tools": TOOLS,
        },
        SUNNY,
    ),
    "schema": (
        {
            "messages": [{"role": "user", "content": "place"}],
            "response_format": {"type": "json_schema", "json_schema": FORM},
        },
        Told(text=PLACE),
    ),
    "JSON mode": (
        {
            "messages": [{"role": "user", "content": "place"}],
            "response_format": {"type": "json_object"},
        },
        Told(text=PLACE),
    ),
}

RESPONSE_TOOLS = [{"type": "function", **FUNCTION}, {"type": "function", **CLOCK}]
RESPONSES: dict[str, tuple[dict[str, Any], Told]] = {
    "plain": ({}, HELLO),
    "messages": ({"input": [USER]}, HELLO),
    "parts": (
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}]},
        HELLO,
    ),
    "instructions": ({"instructions": "Be kind."}, HELLO),
    "any language": ({"input": "accents"}, Told(text=ANSWERS["accents"])),
    "max_output_tokens": ({"max_output_tokens": 1}, Told(text="Hello", end="length")),
    "sampling": ({"temperature": 0.7, "top_p": 0.9}, HELLO),
    "labels": (
        {
            "user": "u",
            "safety_identifier": "s",
            "metadata": {"a": "b"},
            "prompt_cache_key": "k",
            "store": False,
        },
        HELLO,
    ),
    "flex": ({"service_tier": "flex"}, HELLO),
    "logprobs": ({"include": ["message.output_text.logprobs"], "top_logprobs": 2}, HELLO),
    "encrypted thinking": ({"include": ["reasoning.encrypted_content"]}, HELLO),
    "tools, free": ({"input": "weather", "tools": RESPONSE_TOOLS}, CALLED),
    "tools, not wanted": ({"tools": RESPONSE_TOOLS}, HELLO),
    "tools, required": (
        {"input": "weather", "tools": RESPONSE_TOOLS, "tool_choice": "required"},
        CALLED,
    ),
    "tools, named": (
        {
            "input": "weather",
            "tools": RESPONSE_TOOLS,
            "tool_choice": {"type": "function", "name": "weather"},
        },
        CALLED,
    ),
    "tools, allowed": (
        {
            "input": "weather",
            "tools": RESPONSE_TOOLS,
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "weather"}],
            },
        },
        CALLED,
    ),
    "tools, result": (
        {
            "input": [
                ASK,
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "name": "weather",
                    "arguments": ARGUMENTS,
                },
                {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            ],
            "tools": RESPONSE_TOOLS,
        },
        SUNNY,
    ),
    "schema": (
        {"input": "place", "text": {"format": {"type": "json_schema", **FORM}}},
        Told(text=PLACE),
    ),
    "JSON mode": (
        {"input": "place", "text": {"format": {"type": "json_object"}}},
        Told(text=PLACE),
    ),
}
