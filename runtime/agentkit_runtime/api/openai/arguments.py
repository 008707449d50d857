"""Arguments of calls in a history, as the model wrote them.

Many clients parse a call's arguments and write them again on the way back, as JavaScript's
`JSON.stringify` does: without a space behind commas and colons. The prompt would then differ from
what was generated, and all that is cached behind it would be lost. Our grammars never generate that
spelling where there is anything to space out, so it can be undone.
"""

from __future__ import annotations

import json

from agentkit_runtime.text.request_text import is_unicode


def as_generated(arguments: str) -> str:
    """`arguments` with the spaces that a client took out; anything else stays as it is."""
    if not arguments.startswith("{") or ("," not in arguments and ":" not in arguments):
        return arguments
    try:
        value = json.loads(arguments)
        compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        spaced = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):  # the model's own mistake stays what it was
        return arguments
    return with_delete_escaped(spaced) if compact == arguments and is_unicode(spaced) else arguments


def with_delete_escaped(document: str) -> str:
    """A JSON document with U+007F as our grammars write it, which take it for a control character:
    JSON itself, and so its writers, need no escape for it."""
    return document.replace("\x7f", "\\u007f")
