"""Gemini, over the official SDK `google-genai`.

adapter.py           read first: GeminiAdapter
encode.py replay.py  segments, and turns of the model, as the parts that the API takes
layout.py body.py    the request in cache order; its final bytes; steering.py: what follows
decode.py            what the API streams, as our events
cached_content.py    objects that hold a front (front.py): made, renewed, deleted; storage.py: cost
transport.py         finished bytes through the SDK; errors.py: its errors as ours
"""

from __future__ import annotations

from agentkit.models.hosted.gemini.adapter import GeminiAdapter
from agentkit.models.hosted.gemini.options import GeminiOptions
from agentkit.models.hosted.gemini.storage import StorageUse

__all__ = ["GeminiAdapter", "GeminiOptions", "StorageUse"]
