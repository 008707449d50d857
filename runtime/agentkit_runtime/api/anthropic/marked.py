"""`cache_control`: which parts of a request are marked to be kept.

A mark covers everything up to and including its block, in the order tools, system, messages. Rules:
https://platform.claude.com/docs/en/build-with-claude/prompt-caching

In the templates of all supported families tools and system are one text at the prompt's beginning,
and which of them comes first is the template's matter. So a mark on a tool is one on this whole
front.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentkit_runtime.api.anthropic.blocks import Placed
from agentkit_runtime.api.anthropic.request import Block, CacheControl, ConversationBody, Ttl
from agentkit_runtime.api.failure import ApiError

MAX_MARKS = 4

_NEVER_MARKED = frozenset({"thinking", "redacted_thinking"})


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked block."""

    path: str
    ttl: Ttl
    n_system: int | None
    """How many system blocks it covers; None is all."""
    n_placed: int
    """How many blocks of messages it covers."""


def marks_of(body: ConversationBody, placed: Sequence[Placed]) -> tuple[Mark, ...]:
    """The marks of a request, in the prompt's order. Raises `ApiError` (400) for broken rules."""
    marks = [*_explicit(body, placed)]
    if body.cache_control is not None:
        marks = _with_automatic(marks, body.cache_control, body, placed)
    if len(marks) > MAX_MARKS:
        raise ApiError(
            f"at most {MAX_MARKS} blocks may have cache_control, found {len(marks)}",
            param=f"{marks[MAX_MARKS].path}.cache_control",
        )
    for before, after in pairwise(marks):
        if (before.ttl, after.ttl) == ("5m", "1h"):
            raise ApiError(
                f"{after.path}.cache_control has ttl '1h' behind one of '5m' at {before.path}; "
                "longer ones must come first",
                param=f"{after.path}.cache_control.ttl",
            )
    return tuple(marks)


def _explicit(body: ConversationBody, placed: Sequence[Placed]) -> Iterator[Mark]:
    for n, tool in enumerate(body.tools or ()):
        if tool.cache_control is not None:
            yield Mark(f"tools[{n}]", _ttl(tool.cache_control), None, 0)
    for n, block in enumerate(body.system if isinstance(body.system, list) else ()):
        if (control := _control(block, f"system[{n}]")) is not None:
            yield Mark(f"system[{n}]", _ttl(control), n + 1, 0)
    for n, item in enumerate(placed):
        if (control := _control(item.block, item.path)) is not None:
            yield Mark(item.path, _ttl(control), None, n + 1)


def _control(block: Block, path: str) -> CacheControl | None:
    """The block's mark; one on the last block of a result's content is the result's."""
    inner = block.content if isinstance(block.content, list) else []
    for n, part in enumerate(inner):
        if part.cache_control is not None and n < len(inner) - 1:
            raise ApiError(
                f"{path}.content[{n}] cannot have cache_control; put it on the tool_result",
                param=f"{path}.content[{n}].cache_control",
            )
    control = block.cache_control or (inner[-1].cache_control if inner else None)
    if control is not None and not _can_be_marked(block):
        raise ApiError(
            f"{path} is {'an empty text' if block.type == 'text' else f'a {block.type} block'} and "
            "cannot have cache_control",
            param=f"{path}.cache_control",
        )
    return control


def _can_be_marked(block: Block) -> bool:
    return block.type not in _NEVER_MARKED and (block.type != "text" or bool(block.text))


def _with_automatic(
    marks: list[Mark], control: CacheControl, body: ConversationBody, placed: Sequence[Placed]
) -> list[Mark]:
    """The top-level field marks the last block that can be marked; if none can, nothing."""
    mark = _last(body, placed, _ttl(control))
    if mark is None:
        return marks
    at_same = [known for known in marks if known.path == mark.path]
    if at_same and at_same[0].ttl != mark.ttl:
        raise ApiError(
            f"cache_control has ttl {mark.ttl!r} and marks {mark.path}, which has one of "
            f"{at_same[0].ttl!r} itself",
            param="cache_control.ttl",
        )
    return marks if at_same else [*marks, mark]


def _last(body: ConversationBody, placed: Sequence[Placed], ttl: Ttl) -> Mark | None:
    for n in range(len(placed), 0, -1):
        if _can_be_marked(placed[n - 1].block):
            return Mark(placed[n - 1].path, ttl, None, n)
    if body.system:
        path = "system" if isinstance(body.system, str) else f"system[{len(body.system) - 1}]"
        return Mark(path, ttl, None, 0)
    return Mark(f"tools[{len(body.tools) - 1}]", ttl, None, 0) if body.tools else None


def _ttl(control: CacheControl) -> Ttl:
    return control.ttl or "5m"
