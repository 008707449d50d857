"""What calls of each format look like to the parser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import assert_never

from agentkit_runtime.text.partial_match import SPACE, Part, Pattern, literal, quoted
from agentkit_runtime.text.python_notation import BEGINNING
from agentkit_runtime.text.tool_formats import JSON, PYTHONIC, TAGS, FormatName, Notation

_MAX_NAME_CHARS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CallForm:
    """A way to write calls. White space is free, where JSON's is."""

    marker: str = ""
    """Text that begins a call; empty if only a whole message can be one."""
    first_head: Pattern
    """From behind the marker up to the arguments."""
    notation: Notation = JSON
    tails: tuple[Pattern, ...]
    """From behind the arguments to the end of the call."""
    next_head: Pattern | None = None
    list_end: Pattern | None = None
    has_json_names: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShape:
    """What a format's calls look like."""

    gap: str = ""
    """Belongs to a marker if it stands before it."""
    forms: tuple[CallForm, ...]
    """The one that begins here is it: models mix up the two without a marker."""

    @property
    def markers(self) -> tuple[str, ...]:
        """Those of the forms; none if only a whole message can be a call."""
        return tuple(form.marker for form in self.forms if form.marker)


@cache
def shape_of(name: FormatName) -> CallShape:
    """What calls of a format look like."""
    match name:
        case "hermes":
            close = [SPACE, *literal("}"), SPACE, *literal("</tool_call>")]
            form = CallForm(
                marker="<tool_call>",
                first_head=Pattern(_head_parts()),
                tails=(Pattern(close),),
                has_json_names=True,
            )
            return CallShape(gap="\n", forms=(form,))
        case "llama3":
            return CallShape(forms=(_object_form(), _python_form()))
        case "pythonic":
            return CallShape(forms=(_python_form(), _object_form()))
        case "mistral":
            return CallShape(forms=(_array_form(),))
        case "mistral_args":
            form = CallForm(
                marker="[TOOL_CALLS]",
                first_head=Pattern(_tagged_head_parts()),
                tails=(Pattern([]),),
            )
            return CallShape(forms=(form,))
        case "tags":
            return CallShape(gap="\n\n", forms=_tag_forms())
        case "deepseek":
            tag = [SPACE, *literal("```json"), SPACE, _OBJECT]
            block_end = [SPACE, *literal("```"), SPACE]
            kind = Part("[a-z_]{1,32}", "[a-z_]{0,32}")
            return _deepseek_shape([kind, *literal(_SEP), _name("<"), *tag], block_end)
        case "deepseek31":
            return _deepseek_shape([_name("<"), *literal(_SEP), SPACE, _OBJECT], [SPACE])
        case _:
            assert_never(name)


def _object_form() -> CallForm:
    close = Pattern([SPACE, *literal("}")])
    return CallForm(first_head=Pattern(_head_parts()), tails=(close,), has_json_names=True)


def _python_form() -> CallForm:
    head = [SPACE, _name("()[]{}=,\"' "), *literal("("), BEGINNING]
    return CallForm(
        first_head=Pattern([SPACE, *literal("["), *head]),
        notation=PYTHONIC.notation,
        tails=(Pattern([*literal(")")]),),
        next_head=Pattern([SPACE, *literal(","), *head]),
        list_end=Pattern([SPACE, *literal("]")]),
    )


def _tag_forms() -> tuple[CallForm, CallForm]:
    """With the tag around the call, and without: some models forget the first one, or both."""
    name = [_name(">"), *literal(">")]
    inner = [SPACE, *literal("</function>")]
    outer = [*inner, SPACE, *literal("</tool_call>")]
    return (
        CallForm(
            marker="<tool_call>",
            first_head=Pattern([SPACE, *literal("<function="), *name]),
            notation=TAGS.notation,
            tails=(Pattern(outer),),
        ),
        CallForm(
            marker="<function=",
            first_head=Pattern(name),
            notation=TAGS.notation,
            tails=(Pattern(outer), Pattern(inner)),
        ),
    )


def _array_form() -> CallForm:
    head, close = _head_parts(), [SPACE, *literal("}")]
    identified = [
        *[SPACE, *literal(","), SPACE, *literal('"id"'), SPACE, *literal(":"), SPACE],
        *quoted("id", _MAX_NAME_CHARS),
    ]
    return CallForm(
        marker="[TOOL_CALLS]",
        first_head=Pattern([SPACE, *literal("["), *head]),
        tails=(Pattern(close), Pattern([*identified, *close])),
        next_head=Pattern([SPACE, *literal(","), *head]),
        list_end=Pattern([SPACE, *literal("]")]),
        has_json_names=True,
    )


_SEP = "<｜tool▁sep｜>"
_OBJECT = Part(r"(?=\{)", "")
"""Right in front of the arguments."""


def _name(ends: str) -> Part:
    """A tool's name, up to the end of the line or one of these characters."""
    letters = rf"[^{re.escape(ends)}\x00-\x1f]"
    return Part(
        rf"(?P<name>{letters}{{1,{_MAX_NAME_CHARS}}})", rf"{letters}{{0,{_MAX_NAME_CHARS}}}"
    )


def _deepseek_shape(head: list[Part], block_end: list[Part]) -> CallShape:
    begin = [SPACE, *literal("<｜tool▁call▁begin｜>"), *head]
    form = CallForm(
        marker="<｜tool▁calls▁begin｜>",
        first_head=Pattern(begin),
        tails=(Pattern([*block_end, *literal("<｜tool▁call▁end｜>")]),),
        next_head=Pattern(begin),
        list_end=Pattern([SPACE, *literal("<｜tool▁calls▁end｜>")]),
    )
    return CallShape(forms=(form,))


def _head_parts() -> list[Part]:
    """`{"name": "...", "arguments": ` up to the brace that opens the arguments."""
    keys = (*literal('"'), Part("(?:arguments|parameters)", _beginnings()), *literal('"'))
    return [
        *[SPACE, *literal("{"), SPACE, *literal('"name"'), SPACE, *literal(":"), SPACE],
        *[*quoted("name", _MAX_NAME_CHARS), SPACE, *literal(","), SPACE],
        *[*keys, SPACE, *literal(":"), SPACE, _OBJECT],
    ]


def _tagged_head_parts() -> list[Part]:
    """`name[ARGS]`, in some versions with an id: `name[CALL_ID]abcdefghi[ARGS]`."""
    tag, inside = "[CALL_ID]", "[a-zA-Z0-9]"
    begun = "|".join(re.escape(tag[:k]) for k in range(len(tag)))
    identified = Part(
        rf"(?:{re.escape(tag)}{inside}{{9}})?", rf"(?:{begun}|{re.escape(tag)}{inside}{{0,9}})"
    )
    return [SPACE, _name("[]"), identified, *literal("[ARGS]"), SPACE, _OBJECT]


def _beginnings() -> str:
    words = ("arguments", "parameters")
    return f"(?:{'|'.join(word[:k] for word in words for k in range(len(word) + 1))})"
