"""Grammar rules for arguments between tags; see `tag_notation`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from agentkit_runtime.text.lark import lark_plain, lark_schema
from agentkit_runtime.text.looser import UNKNOWN_KEYWORDS
from agentkit_runtime.text.schema_bounds import (
    MAX_KEY_CHARS,
    MAX_STRING_CHARS,
    UnboundableSchema,
)
from agentkit_runtime.text.schema_parts import (
    COMPOSING,
    JsonObject,
    alternatives,
    by_itself,
    kinds,
    listed_values,
    named_arguments,
    other_name,
)

_END = "\n</parameter>"


def tag_rules(rule: str, schema: JsonObject) -> list[str]:
    """Rules, of which `rule` stands for all arguments, in the schema's order."""
    arguments = named_arguments(schema)
    rules: list[str] = []
    parts: list[str] = []
    for k, argument in enumerate(arguments.named):
        if not re.fullmatch(r"[^<>\n]+", argument.name):
            raise UnboundableSchema(f"the name {argument.name!r} cannot stand in a tag")
        parts.append(f"{rule}_{k}" if argument.is_required else f"{rule}_{k}?")
        tag = lark_plain(f"<parameter={argument.name}>")
        rules.append(f"{rule}_{k}: {tag} {rule}_{k}_value")
        rules += _value_rules(f"{rule}_{k}_value", argument.schema, schema)
    if arguments.others is not None:
        parts.append(f"{rule}_other{{0,{arguments.max_others}}}")
        name = f"{rule.upper()}_NAME"
        pattern = f"[^<>\\n]{{1,{MAX_KEY_CHARS}}}"
        rules.append(f"{name}: {other_name(pattern, arguments.named)}")
        rules.append(f'{rule}_other: "<parameter=" {name} ">" {rule}_more')
        rules += _value_rules(f"{rule}_more", arguments.others, schema)
    return [f"{rule}: {' '.join(parts) or _EMPTY}", *rules]


_EMPTY = '""'


def _value_rules(rule: str, schema: object, root: JsonObject) -> list[str]:
    """A value, with the line break in front of it, and that and the tag behind it.

    A text that begins like its own end cannot be told from none, so it ends there.
    """
    leaves = alternatives(schema, root)
    texts = [leaf for leaf in leaves if _is_free_text(leaf, root)]
    if texts:
        _require_plain(texts)
        # It can be any text, and what else it may be is text, too.
        terminal = f"{rule.upper()}_TEXT"
        suffix = f"[suffix={lark_plain(_END)}]"
        return [
            f'{rule}: {rule}_text "\\n"',
            f"{rule}_text{suffix}: {terminal}",
            f"{terminal}: {_text_terminal(texts, is_only=len(leaves) == 1)}",
        ]
    parts: list[str] = []
    rules: list[str] = []
    for n, leaf in enumerate(leaves):
        listed = listed_values(leaf)
        if listed is None:
            parts.append(f"{rule}_{n}")
            rules.append(f"{rule}_{n}: {lark_schema(by_itself(leaf, root))}")
        else:
            parts += map(_literal, listed)
    end = lark_plain(f"{_END}\n")
    return [f'{rule}: "\\n" ({" | ".join(parts)}) {end}', *rules]


def _is_free_text(leaf: JsonObject, root: JsonObject) -> bool:
    return listed_values(leaf) is None and "string" in kinds(leaf, root)


def _require_plain(texts: Sequence[JsonObject]) -> None:
    for key in sorted(COMPOSING | UNKNOWN_KEYWORDS):
        if any(key in leaf for leaf in texts):
            raise UnboundableSchema(
                f"this model writes a text as it is, which cannot be held to {key!r} beside other "
                "keywords; put all that holds for the text into one schema"
            )


def _literal(value: object) -> str:
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if _END in f"\n{written}":
        raise UnboundableSchema(f"the value {written!r} cannot stand between tags")
    return lark_plain(written)


def _text_terminal(texts: Sequence[JsonObject], *, is_only: bool) -> str:
    most = max(_whole(leaf.get("maxLength"), MAX_STRING_CHARS) for leaf in texts)
    least = _whole(texts[0].get("minLength"), 0) if is_only else 0
    pattern = texts[0].get("pattern")
    if is_only and isinstance(pattern, str):
        return f"/\\n(?s:.{{{least},{most}}})/ & /\\n{_regex(pattern)}/"
    if not least:
        return f"/(?:\\n(?s:.{{0,{most}}}))?/"
    # One that must not be empty cannot begin like its own end.
    several = f"(?:[^<].|<[^\\/]).{{{max(0, least - 2)},{max(0, most - 2)}}}"
    parts = [*(["."] if least == 1 else []), *([several] if most > 1 else [])]
    return f"/\\n(?s:{'|'.join(parts)})/"


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


_PART = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|[(|)^$]", re.DOTALL)
"""In a pattern: what stands for itself, a set of characters, and what needs a look."""


def _regex(pattern: str) -> str:
    """A schema's pattern, which is searched for, as an expression for the whole text."""
    anchors = [found.start() for found in _PART.finditer(pattern) if found[0] in "^$"]
    starts, ends = 0 in anchors, len(pattern) - 1 in anchors and pattern.endswith("$")
    if len(anchors) > starts + ends or (anchors and _has_choice(pattern)):
        raise UnboundableSchema(
            f"the pattern {pattern!r} has '^' or '$' inside, which this model's texts cannot be "
            "held to; put them around the whole"
        )
    inside = pattern[1 if starts else 0 : -1 if ends else None]
    escaped = re.sub(r"\\.|/", lambda found: r"\/" if found[0] == "/" else found[0], inside)
    anything = "(?s:.*)"
    whole = f"{'' if starts else anything}(?:{escaped}){'' if ends else anything}"
    return whole.replace("\n", "\\n")


def _has_choice(pattern: str) -> bool:
    """Whether `|` stands outside all brackets: then an anchor belongs to one side of it."""
    depth = 0
    for found in _PART.finditer(pattern):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if found[0] == "|" and depth == 0:
            return True
    return False
