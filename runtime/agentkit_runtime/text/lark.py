"""Pieces of grammars in llguidance's dialect of Lark."""

from __future__ import annotations

import json

from agentkit_runtime.text.constraint import Vocabulary

_JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def lark_literal(text: str, vocabulary: Vocabulary) -> str:
    """`text` as a sequence of terminals; empty for an empty text.

    What llguidance takes for special tokens (control tokens, and added ones that look like tags)
    can only be written as themselves.
    """
    terminals: list[str] = []
    plain = b""
    for token_id in vocabulary.tokenizer.encode_rendered(text, None):
        if vocabulary.engine.is_special_token(token_id):
            terminals += [*_quoted(plain), f"<[{token_id}]>"]
            plain = b""
        else:
            plain += vocabulary.tokenizer.token_bytes(token_id)
    return " ".join([*terminals, *_quoted(plain)])


def lark_schema(schema: dict[str, object]) -> str:
    """A terminal for JSON in `schema`. `TypeError` or `ValueError` if the schema is not JSON."""
    text = json.dumps({**schema, "x-guidance": _JSON_STYLE}, ensure_ascii=False, allow_nan=False)
    return f"%json {text}"


def _quoted(data: bytes) -> list[str]:
    return [json.dumps(data.decode("utf-8"), ensure_ascii=False)] if data else []
