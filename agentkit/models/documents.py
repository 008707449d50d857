"""How models are shown a document. Caches have these bytes, so they stay as they are."""

from __future__ import annotations

import json

from agentkit.context import Document


def document_text(document: Document) -> str:
    """Return a document with its URI around it."""
    uri = json.dumps(document.uri, ensure_ascii=False)
    return f"<document uri={uri}>\n{document.text}\n</document>"
