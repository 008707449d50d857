"""Finds out what a chat template can do by rendering small conversations with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.template_json import NamedArguments


class Renders(Protocol):
    """The part of a template that is probed."""

    @property
    def mentions_tools(self) -> bool:
        """Whether the source looks at `tools`."""

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        add_generation_prompt: bool = True,
        options: Mapping[str, object] = MappingProxyType({}),
    ) -> str:
        """The prompt text; `RequestRejected` if the template refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateTraits:
    """What a template can do."""

    supports_tools: bool
    """It shows tools, replays tool calls with their exact argument text, and shows tool results."""
    calls_in_python: bool
    """It replays calls as Python; then the exact text of their arguments does not matter."""
    lists_tools: bool
    """It shows tools that are given as lines of text, in `TOOL_LINES`, and knows no calls."""
    supports_system: bool
    """It renders a system message in front."""
    supports_mid_system: bool
    """It renders a system message where it stands, also in the middle."""
    supports_tool_role: bool
    """It renders a plain message of role `tool`, and not as it would one of a user."""
    supports_repeated_user: bool
    """It renders two user messages in a row."""
    appends_only: bool
    """More messages only add text behind what was rendered for fewer."""
    not_appending: tuple[str, ...]
    """Roles after which adding messages changed the text before (empty if `appends_only`)."""


def probe(template: Renders) -> TemplateTraits:
    """Render samples and look at what comes out; never raises for a template that refuses."""
    shown = _call_shown(template) if template.mentions_tools else None
    supports_tools = shown is not None
    supports_system = _all_in_order(
        template, [_system("probeS1"), _user("probeU1")], ["probeS1", "probeU1"]
    )
    broken = _broken_prefixes(template, supports_tools, supports_system)
    return TemplateTraits(
        supports_tools=supports_tools,
        calls_in_python=shown == _PYTHON,
        lists_tools=shown is None and _lists_tools(template),
        supports_system=supports_system,
        supports_mid_system=_all_in_order(
            template,
            [
                _system("probeS1"),
                _user("probeU1"),
                _assistant("probeA1"),
                _system("probeS2"),
                _user("probeU2"),
            ],
            ["probeS1", "probeU1", "probeA1", "probeS2", "probeU2"],
        ),
        supports_tool_role=_shows_tool_role(template),
        supports_repeated_user=_all_in_order(
            template, [_user("probeU1"), _user("probeU2")], ["probeU1", "probeU2"]
        ),
        appends_only=not broken,
        not_appending=broken,
    )


def shows_user_text(template: Renders) -> bool:
    """Whether a user's message gets into the prompt, alone or behind a system message."""
    return _all_in_order(template, [_user("probeU1")], ["probeU1"]) or _all_in_order(
        template, [_system("probeS1"), _user("probeU1")], ["probeU1"]
    )


TOOL_LINES = "xml_tools"
"""SmolLM3's variable for tools that are called with JSON between tags. It has another one for
functions in a notebook, which run in code and not by a call."""

_ARGUMENTS = '{"city":  "Oslo"}'
"""Two blanks after the colon: shows whether the template re-formats."""

_TAGGED = "<parameter=city>\nOslo\n</parameter>"
"""The same, from templates that write each argument by itself."""

_PYTHON = "probe_weather(city="
"""The beginning of that call, from templates that write Python."""

_TOOLS: tuple[Mapping[str, object], ...] = (
    {
        "type": "function",
        "function": {
            "name": "probe_weather",
            "description": "probeD1",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    },
)


def _system(text: str) -> Mapping[str, object]:
    return {"role": "system", "content": text}


def _user(text: str) -> Mapping[str, object]:
    return {"role": "user", "content": text}


def _assistant(text: str) -> Mapping[str, object]:
    return {"role": "assistant", "content": text}


def _calling() -> Mapping[str, object]:
    function = {"name": "probe_weather", "arguments": NamedArguments(_ARGUMENTS)}
    call = {"id": "abcdefghi", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _tool(text: str) -> Mapping[str, object]:
    return {"role": "tool", "name": "probe_weather", "tool_call_id": "abcdefghi", "content": text}


def _call_shown(template: Renders) -> str | None:
    """How a call is shown, between a question and a result, where the tool is shown, too."""
    messages = [_user("probeU1"), _calling(), _tool("probeR1"), _assistant("probeA1")]
    text = _attempt(template, messages, _TOOLS)
    if text is None or "probeD1" not in text:
        return None
    for call in (_ARGUMENTS, _TAGGED, _PYTHON):
        if _in_order(text, ["probeU1", call, "probeR1", "probeA1"]):
            return call
    return None


def _lists_tools(template: Renders) -> bool:
    try:
        text = template.render([_user("probeU1")], options={TOOL_LINES: ["probeD1"]})
    except RequestRejected:
        return False
    return _in_order(text, ["probeD1", "probeU1"])


def _shows_tool_role(template: Renders) -> bool:
    front = [_user("probeU1"), _assistant("probeA1")]
    as_tool = _attempt(template, [*front, {"role": "tool", "content": "probeR1"}], None)
    as_user = _attempt(template, [*front, _user("probeR1")], None)
    return (
        as_tool is not None
        and as_tool != as_user
        and _in_order(as_tool, ["probeU1", "probeA1", "probeR1"])
    )


def _broken_prefixes(
    template: Renders, supports_tools: bool, supports_system: bool
) -> tuple[str, ...]:
    messages = [_user("probeU1"), _assistant("probeA1"), _user("probeU2")]
    if supports_tools:
        messages += [_calling(), _tool("probeR1"), _assistant("probeA2"), _user("probeU3")]
    messages.append(_assistant("probeA3"))
    if supports_system:
        messages.insert(0, _system("probeS1"))
    tools = _TOOLS if supports_tools else None
    broken: list[str] = []
    for length in range(1, len(messages)):
        shorter = _attempt(template, messages[:length], tools)
        longer = _attempt(template, messages[: length + 1], tools)
        if shorter is not None and longer is not None and not longer.startswith(shorter):
            broken.append(str(messages[length - 1]["role"]))
    return tuple(broken)


def _all_in_order(
    template: Renders, messages: Sequence[Mapping[str, object]], parts: Sequence[str]
) -> bool:
    text = _attempt(template, messages, None)
    return text is not None and _in_order(text, parts)


def _attempt(
    template: Renders,
    messages: Sequence[Mapping[str, object]],
    tools: Sequence[Mapping[str, object]] | None,
) -> str | None:
    try:
        return template.render(messages, tools=tools, add_generation_prompt=False)
    except RequestRejected:
        return None


def _in_order(text: str, parts: Sequence[str]) -> bool:
    position = 0
    for part in parts:
        found = text.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return True
