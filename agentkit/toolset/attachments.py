"""Images and documents that tools return: only what every provider that shows them can read.

What is in a context is sent with every later request, so one image that a provider cannot decode
would fail the conversation for ever. The structure of the bytes is looked at here (pixels are not
decoded: what is damaged within them gets through); what a tool says of them is not believed.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import replace

from agentkit.blocks import File, Image
from agentkit.toolset.images import NoImage, measured

MOST_BYTES = 5_000_000
"""Of one attachment, decoded: what the strictest provider takes."""
_MOST_PIXELS_A_SIDE = 8_000
_MOST_PAGES = 100
_PDF = "application/pdf"


class BadAttachment(ValueError):
    """Bytes that are not shown. The text says why, for the model."""


def image_of(data: object, most_bytes: int = MOST_BYTES) -> Image:
    """Return the image that base64 text is, with its real type and size.

    Raises:
        BadAttachment: it is none that all providers read: PNG, JPEG, GIF or WebP, whole, and not
            too large.
    """
    raw = _decoded(data, most_bytes)
    try:
        found = measured(raw)
    except NoImage as error:
        raise BadAttachment(str(error)) from None
    if found is None:
        raise BadAttachment("its bytes are no PNG, JPEG, GIF or WebP")
    media_type, (width, height) = found
    if not (1 <= width <= _MOST_PIXELS_A_SIDE and 1 <= height <= _MOST_PIXELS_A_SIDE):
        raise BadAttachment(f"it measures {width} x {height} pixels")
    text = base64.b64encode(raw).decode()
    return Image(media_type=media_type, data=text, width=width, height=height)


def pdf_of(data: object, name: str, most_bytes: int = MOST_BYTES) -> File:
    """Return the PDF that base64 text is.

    Raises:
        BadAttachment: it is none, or one that providers refuse.
    """
    raw = _decoded(data, most_bytes)
    if not raw.startswith(b"%PDF-") or b"%%EOF" not in raw[-2048:]:
        raise BadAttachment("its bytes are no whole PDF")
    # The pages themselves may be compressed, so that they cannot be looked for.
    if not re.search(rb"\d\s+\d+\s+obj\b", raw) or not re.search(rb"startxref\s+\d", raw[-2048:]):
        raise BadAttachment("it is a PDF without contents")
    if b"/Encrypt" in raw:
        raise BadAttachment("it is encrypted")
    n_pages = len(re.findall(rb"/Type\s*/Page(?![a-zA-Z])", raw))
    if n_pages > _MOST_PAGES:
        raise BadAttachment(f"it has {n_pages} pages, of {_MOST_PAGES} at most")
    return File.of_bytes(raw, _PDF, name=name)


def checked(block: Image | File) -> Image | File:
    """Return a block that a function made, with what its bytes say of it.

    What is given by URL is the program's own choice, and not looked at.

    Raises:
        BadAttachment: it is not what it says, or nothing that providers read.
    """
    if block.data is None:
        return block
    if isinstance(block, Image):
        found = image_of(block.data)
        if found.media_type != block.media_type:
            raise BadAttachment(f"it is {found.media_type}")
        return replace(found, breakpoint=block.breakpoint)
    if block.media_type == _PDF:
        return replace(pdf_of(block.data, block.name), breakpoint=block.breakpoint)
    raw = _decoded(block.data, MOST_BYTES)
    if block.media_type.startswith("text/"):
        try:
            raw.decode()
        except UnicodeDecodeError:
            raise BadAttachment("it is no UTF-8") from None
    return block


def _decoded(data: object, most_bytes: int) -> bytes:
    if not isinstance(data, str):
        raise BadAttachment("there are no bytes")
    if len(data) > most_bytes * 4 // 3 + 4:
        raise BadAttachment(f"it has {len(data) * 3 // 4:,} bytes, of {most_bytes:,} at most")
    try:
        # Some encoders wrap lines; what is attached is encoded anew.
        raw = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise BadAttachment("its bytes are no base64") from None
    if not raw:
        raise BadAttachment("it is empty")
    return raw
