"""Images and documents as content blocks. Source: client 2.14.0."""

from __future__ import annotations

import base64
import binascii

from agentkit.blocks import File, Image
from agentkit.caching.policy import BlockKind
from agentkit.caching.tokens import attachment_tokens
from agentkit.errors import RequestRefused
from agentkit.models.hosted.anthropic.dialect import Dialect
from agentkit.models.hosted.anthropic.pieces import Piece, mark_of, piece
from agentkit.models.hosted.wire_json import compact_json

_IMAGES = frozenset(["image/jpeg", "image/png", "image/gif", "image/webp"])
_PDF = "application/pdf"


def attachment_piece(block: Image | File, dialect: Dialect) -> Piece:
    """Return the block on the wire. A URL is sent as it was given, for ever.

    Raises:
        RequestRefused: Claude does not read this kind of file.
    """
    kind = BlockKind.IMAGE if isinstance(block, Image) else BlockKind.DOCUMENT
    return piece(
        kind,
        attachment_data(block),
        n_tokens=attachment_tokens(block),
        mark=mark_of(block.breakpoint, dialect.ttls),
    )


def attachment_data(block: Image | File) -> bytes:
    """Return the JSON of the block.

    Raises:
        RequestRefused: Claude does not read this kind of file.
    """
    if isinstance(block, Image):
        return compact_json({"type": "image", "source": _image_source(block)})
    return compact_json(
        {"type": "document", "source": _document_source(block), "title": block.name}
    )


def is_readable(block: Image | File) -> bool:
    """Whether Claude reads this kind of image or document."""
    if isinstance(block, Image):
        return block.url is not None or block.media_type in _IMAGES
    return block.media_type == _PDF or (
        block.media_type.startswith("text/") and block.data is not None
    )


def _image_source(image: Image) -> dict[str, str]:
    if image.url is not None:
        return {"type": "url", "url": image.url}
    if image.media_type not in _IMAGES:
        raise RequestRefused(
            f"Claude does not read images of type {image.media_type!r}; convert it to one of "
            f"{sorted(_IMAGES)}"
        )
    return {"type": "base64", "media_type": image.media_type, "data": image.data or ""}


def _document_source(file: File) -> dict[str, str]:
    if file.media_type == _PDF:
        if file.url is not None:
            return {"type": "url", "url": file.url}
        return {"type": "base64", "media_type": _PDF, "data": file.data or ""}
    if file.media_type.startswith("text/") and file.data is not None:
        return {"type": "text", "media_type": "text/plain", "data": _text(file)}
    raise RequestRefused(
        f"Claude does not read {file.name!r} ({file.media_type}, "
        f"{'by URL' if file.data is None else 'by its bytes'}); send a PDF, or text by its bytes"
    )


def _text(file: File) -> str:
    try:
        return base64.b64decode(file.data or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise RequestRefused(
            f"the file {file.name!r} is no base64 of UTF-8 text: {error}; use File.of_bytes"
        ) from error
