"""Token counts before a provider has counted: estimates, for minimum lengths and predictions.

What was paid is always reckoned from the provider's own counts.
"""

from __future__ import annotations

import math

from agentkit.blocks import File, Image

BYTES_PER_TOKEN = 4
"""English text and JSON have about four bytes a token; the tracker corrects it by what it sees."""

_PIXELS_PER_TOKEN = 750
"""Anthropic's documented rule for images, taken for all."""
_IMAGE_TOKENS = 1_600
"""An image of unknown size: about the largest that is not scaled down."""
_BASE64_BYTES_PER_PAGE_TOKEN = 30
"""A PDF's bytes say little about its text; about 2,000 tokens for a page of 60 kB in base64."""


def data_tokens(data: bytes) -> int:
    """Return about how many tokens a piece of text or JSON has; at least 1 if it has any byte."""
    return -(-len(data) // BYTES_PER_TOKEN)


def attachment_tokens(block: Image | File) -> int:
    """Return about how many tokens an image or a file has."""
    if isinstance(block, Image):
        if block.width is None or block.height is None:
            return _IMAGE_TOKENS
        return max(1, math.ceil(block.width * block.height / _PIXELS_PER_TOKEN))
    if block.data is None:
        return _IMAGE_TOKENS
    if block.media_type.startswith("text/"):
        return data_tokens(block.data.encode()) * 3 // 4
    return max(1, len(block.data) // _BASE64_BYTES_PER_PAGE_TOKEN)
