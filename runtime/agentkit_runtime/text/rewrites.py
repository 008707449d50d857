"""Finds out which earlier text a chat template says otherwise when a conversation goes on.

A cached prefix ends where that happens. A turn is lost unless the next prompt begins with this
one and the reply; so replies of several kinds are put behind a prompt and the next one is rendered.
Where the source has a switch that keeps the history as it was, it is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.common import n_common
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.template_json import NamedArguments
from agentkit_runtime.text.tool_formats import tool_format_for

RewriteKind = Literal["reply", "space", "thinking", "call", "tools", "date"]

_KEEPING: tuple[Mapping[str, object], ...] = (
    {"preserve_thinking": True},
    {"clear_thinking": False},
    {"keep_thinking": True},
    {"truncate_history_thinking": False},
)
"""Switches of public templates that keep thinking in the history."""

_MEANING: Mapping[RewriteKind, str] = MappingProxyType(
    {
        "reply": "a reply is not repeated as it was generated",
        "space": "white space around a reply is dropped",
        "thinking": "thinking is dropped from earlier replies",
        "call": "a tool call is not repeated as it was generated",
        "tools": "the tools move when the conversation goes on",
        "date": "the date is in the prompt; it is held fixed, so that it does not change",
    }
)
_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Something that a template says otherwise later."""

    kind: RewriteKind
    detail: str
    before: str
    """A sample: what was said first, from the place on where it changes."""
    after: str
    """What stands there in the next prompt."""
    lost_chars: int
    """Of the sample: from there to the end of the reply. 0 where it is avoided."""


def find_rewrites(template: ChatTemplate) -> tuple[Rewrite, ...]:
    """What this template rewrites, one of each kind. Never raises for one that refuses samples."""
    found: dict[RewriteKind, Rewrite] = {}
    for kind, before, after in _samples(template):
        n_same = n_common(before, after)
        lost_chars = len(before) - n_same
        # Each sample has a reply: it says more only where something before the reply changes.
        if not lost_chars or (
            "reply" in found and (kind != "tools" or not _before(n_same, before))
        ):
            continue
        found[kind] = Rewrite(
            kind=kind,
            detail=_MEANING[kind],
            before=before[n_same : n_same + _SHOWN_CHARS],
            after=after[n_same : n_same + _SHOWN_CHARS],
            lost_chars=lost_chars,
        )
    if template.uses_clock:
        found["date"] = Rewrite(
            kind="date", detail=_MEANING["date"], before="", after="", lost_chars=0
        )
    return tuple(found.values())


def least_rewriting(template: ChatTemplate) -> ChatTemplate:
    """The template with the switches set that make it keep more of the history; or itself."""
    best, n_least = template, _n_lost(template)
    for switches in _KEEPING:
        if n_least and template.mentions(switches):
            changed = template.with_switches(switches)
            if _n_lost(changed) < n_least:
                best, n_least = changed, _n_lost(changed)
    return best


def _before(n_same: int, sample: str) -> bool:
    """Whether the first change lies before the reply of a sample."""
    return n_same < sample.rindex(_PLAIN)


def _n_lost(template: ChatTemplate) -> int:
    return sum(rewrite.lost_chars > 0 for rewrite in find_rewrites(template))


_Message = Mapping[str, object]
_TOOLS = (
    {
        "type": "function",
        "function": {"name": "probe", "description": "d", "parameters": {"type": "object"}},
    },
)
_ARGUMENTS = '{"a":  1}'
_PLAIN = "probeA1"
_THOUGHT = "<think>\nprobeT1\n</think>\n\nprobeA1"


def _samples(template: ChatTemplate) -> Iterator[tuple[RewriteKind, str, str]]:
    """Prompt and reply, and the prompt of the next turn."""
    asked: list[_Message] = [_user("probeU1")]
    if template.traits.supports_system:
        asked.insert(0, {"role": "system", "content": "probeS1"})
    replies: tuple[tuple[RewriteKind, str], ...] = (
        ("reply", _PLAIN),
        ("space", f"{_PLAIN} "),
        ("thinking", _THOUGHT),
    )
    for kind, reply in replies:
        answer = {"role": "assistant", "content": reply}
        yield from _turn(template, kind, asked, reply, [answer, _user("probeU2")], ())
    if template.traits.supports_tools:
        yield from _turn(
            template,
            "tools",
            asked,
            _PLAIN,
            [{"role": "assistant", "content": _PLAIN}, _user("probeU2")],
            _TOOLS,
        )
        form = tool_format_for(template)
        call = form.calls_text([("probe", _ARGUMENTS)])
        said = {"role": "assistant", "content": call} if form.replay == "text" else _calling()
        yield from _turn(template, "call", asked, call, [said, _result()], _TOOLS)


def _turn(
    template: ChatTemplate,
    kind: RewriteKind,
    asked: Sequence[_Message],
    reply: str,
    more: Iterable[_Message],
    tools: Sequence[_Message],
) -> Iterator[tuple[RewriteKind, str, str]]:
    try:
        before = template.render(asked, tools=tools or None) + reply
        after = template.render([*asked, *more], tools=tools or None)
    except RequestRejected:
        return
    yield kind, before, after


def _user(text: str) -> _Message:
    return {"role": "user", "content": text}


def _calling() -> _Message:
    function = {"name": "probe", "arguments": NamedArguments(_ARGUMENTS)}
    call = {"id": "abcdefghi", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _result() -> _Message:
    return {"role": "tool", "name": "probe", "tool_call_id": "abcdefghi", "content": "probeR1"}
