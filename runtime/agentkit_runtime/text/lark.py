"""Pieces of grammars in llguidance's dialect of Lark."""

from __future__ import annotations

import json

from agentkit_runtime.text.constraint import Vocabulary

_JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def lark_literal(text: str, vocabulary: Vocabulary) -> str:
    """`text` of a format as a sequence of terminals; empty for an empty text.

    Texts of control tokens stand for these tokens, as in a chat template.
    """
    pieces = vocabulary.tokenizer.split_rendered(text, None)
    return " ".join(
        f"<[{piece.ids[0]}]>" if piece.is_special else lark_plain(text[piece.start : piece.end])
        for piece in pieces
    )


def lark_plain(text: str) -> str:
    """`text` from outside as a terminal: nothing in it stands for a control token."""
    return json.dumps(text, ensure_ascii=False)


def lark_schema(schema: dict[str, object]) -> str:
    """A terminal for JSON in `schema`. `TypeError` or `ValueError` if the schema is not JSON."""
    text = json.dumps({**schema, "x-guidance": _JSON_STYLE}, ensure_ascii=False, allow_nan=False)
    return f"%json {text}"
