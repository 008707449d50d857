"""Structured content beside text: servers send the same result in both forms, a model reads one."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agentkit.toolset.results import finite


def joined(texts: list[str], structured: object) -> str:
    """Return text blocks and structured content as one text that says nothing twice."""
    if not texts:
        return _compact(structured)
    # SDKs wrap results that are no objects as {"result": ...}, and give each list member a block.
    value = structured
    if isinstance(structured, Mapping) and structured.keys() == {"result"}:
        value = structured["result"]
    text = "\n".join(texts)
    if value in (text, texts):
        return text
    parsed = _parse(text)
    if parsed == structured:
        return _compact(structured)
    if parsed == value or list(map(_parse, texts)) == value:
        return _compact(value)
    return f"{text}\n{_compact(structured)}"


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parse(text: str) -> object:
    """The JSON value that the text is, or the text itself."""
    try:
        return finite(json.loads(text))
    except (ValueError, RecursionError):
        return text
