"""Tools that come in mid-conversation, as the fake APIs take and refuse them."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit.fake.anthropic.parse import parse
from agentkit.fake.api import HttpCall, Prompt
from agentkit.fake.fields import Problem
from agentkit.fake.openai.responses_parse import parse as parse_responses
from agentkit.fake.provider import tenant_of_key

INLINE = "inline-tools-2026-09-15"
BY_REFERENCE = "mid-conversation-tool-changes-2026-07-01"
SCHEMA = {"type": "object", "properties": {}}


def definition(name: str) -> dict[str, Any]:
    return {"name": name, "description": "d", "input_schema": SCHEMA}


def by_value(name: str) -> dict[str, Any]:
    tool = {"type": "tool_definition", "definition": definition(name)}
    return {"type": "tool_addition", "tool": tool}


def by_name(name: str, kind: str = "tool_removal") -> dict[str, Any]:
    return {"type": kind, "tool": {"type": "tool_reference", "name": name}}


def claude(*system: dict[str, Any], betas: str = INLINE, **more: Any) -> Prompt:
    messages = more.pop("messages", None) or [
        {"role": "user", "content": "Hi."},
        {"role": "system", "content": list(system)},
    ]
    body = {
        "model": "claude-opus-5-5",
        "max_tokens": 9,
        "tools": [definition("old"), definition("late") | {"defer_loading": True}],
        "messages": messages,
        **more,
    }
    headers = {"anthropic-beta": f"other-beta, {betas}"}
    tenant = tenant_of_key("k")
    return parse(HttpCall(path="/v1/messages", headers=headers, body=body, tenant=tenant))


def test_claude_can_call_what_was_added_and_not_what_was_removed() -> None:
    changed = claude(by_value("new"), by_name("old"), by_name("late", "tool_addition"))

    assert sorted(changed.ask.tools) == ["late", "new"]
    assert sorted(claude(by_value("new"), betas=INLINE).ask.tools) == ["new", "old"]
    forced = claude(by_value("new"), tool_choice={"type": "tool", "name": "new"})
    assert forced.ask.tool_choice == "new"


USER_BEHIND = [
    {"role": "user", "content": "Hi."},
    {"role": "system", "content": [by_value("new")]},
    {"role": "user", "content": "And?"},
]
FIRST = [{"role": "system", "content": [by_value("new")]}, {"role": "user", "content": "Hi."}]
BY_USER = [{"role": "user", "content": [by_value("new")]}]
TURN_SCOPED = [
    {"role": "user", "content": "Hi."},
    {"role": "system", "content": [by_value("new")], "clear_at": "next_user_message"},
]


@pytest.mark.parametrize(
    ("blocks", "more", "said"),
    [
        ([by_value("new")], {"betas": ""}, "beta header"),
        ([by_value("new")], {"betas": BY_REFERENCE}, "beta header"),
        ([by_name("old")], {"betas": ""}, "beta header"),
        ([by_name("gone")], {}, "is not the name of a tool"),
        ([by_value("not legal")], {}, "match pattern"),
        ([{"type": "tool_addition", "tool": {"type": "tool_definition"}}], {}, "definition"),
        ([], {"messages": USER_BEHIND}, "precede an assistant turn"),
        ([], {"messages": FIRST}, "first message"),
        ([], {"messages": BY_USER}, "only permitted in 'system'"),
        ([], {"messages": TURN_SCOPED}, "text blocks only"),
    ],
)
def test_claude_refuses_changes_in_the_wrong_place_or_form(
    blocks: list[dict[str, Any]], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(Problem, match=said):
        claude(*blocks, **more)


def test_a_reference_needs_the_older_header_only() -> None:
    assert list(claude(by_name("old"), betas=BY_REFERENCE).ask.tools) == []


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": SCHEMA, "strict": False}


def responses(*items: dict[str, Any], model: str = "gpt-6-sol", **more: Any) -> Prompt:
    body = {"model": model, "tools": [function("old")], "input": list(items), **more}
    tenant = tenant_of_key("k")
    call = HttpCall(path="/v1/responses", headers={}, body=body, tenant=tenant)
    return parse_responses(call, ())


HI = {"type": "message", "role": "user", "content": "Hi."}


def added(*names: str, role: str = "developer") -> dict[str, Any]:
    return {"type": "additional_tools", "role": role, "tools": [function(n) for n in names]}


def test_openai_can_call_what_an_item_adds_and_a_mask_can_name_it() -> None:
    mask = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "new"}],
    }

    assert list(responses(HI, added("new")).ask.tools) == ["old", "new"]
    assert list(responses(HI, added("new"), tool_choice=mask).ask.tools) == ["new"]


@pytest.mark.parametrize(
    ("item", "model", "said"),
    [
        (added("old"), "gpt-6-sol", "Duplicate"),
        (added("new", role="user"), "gpt-6-sol", "developer"),
        (added("new"), "gpt-5.5", "with model"),
    ],
)
def test_openai_refuses_items_that_it_does_not_take(
    item: dict[str, Any], model: str, said: str
) -> None:
    with pytest.raises(Problem, match=said):
        responses(HI, item, model=model)
