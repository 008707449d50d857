"""The byte forms that a context is made of.

JSON is written in one way only: UTF-8, no spaces, object keys sorted by code point, strings with
their exact characters. What a model or a tool said travels as a JSON *string*, so its own layout is
kept.
"""

from __future__ import annotations

import hashlib

from agentkit.toolset.canonical import canonical_json

__all__ = ["canonical_json", "chain_digest", "digest"]

_CHAIN_SEED = b"agentkit context chain 1"


def digest(data: bytes) -> str:
    """Return the tagged SHA-256, e.g. `sha256:4f53...`."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def chain_digest(parent: str | None, segment: str) -> str:
    """Return the digest of a chain that `segment` extends; `parent` is None for the first segment.

    Two chains with equal digests hold equal segments in equal order.
    """
    # Tagged digests have one length, so the concatenation cannot be read in two ways.
    return digest(_CHAIN_SEED + (parent or digest(b"")).encode() + segment.encode())
