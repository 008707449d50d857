"""Pieces of grammars in llguidance's dialect of Lark."""

from __future__ import annotations

import json

from agentkit_runtime.text.tokenizer import Tokenizer

_JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def lark_literal(text: str, tokenizer: Tokenizer) -> str:
    """`text` as a sequence of terminals; control tokens in it must come as themselves."""
    pieces: list[str] = []
    for piece in tokenizer.split_rendered(text, None):
        if piece.is_special:
            pieces.append(f"<[{piece.ids[0]}]>")
        else:
            pieces.append(json.dumps(text[piece.start : piece.end], ensure_ascii=False))
    return " ".join(pieces)


def lark_schema(schema: dict[str, object]) -> str:
    """A terminal for JSON in `schema`. `TypeError` or `ValueError` if the schema is not JSON."""
    text = json.dumps({**schema, "x-guidance": _JSON_STYLE}, ensure_ascii=False, allow_nan=False)
    return f"%json {text}"
