"""Images and files as content parts."""

from __future__ import annotations

import base64

from agentkit.blocks import File, Image
from agentkit.caching.policy import BlockKind
from agentkit.caching.request import Mark
from agentkit.caching.tokens import attachment_tokens
from agentkit.errors import RequestRefused
from agentkit.models.hosted.openai_chat.pieces import Part
from agentkit.models.hosted.openai_chat.profiles import Profile
from agentkit.models.hosted.wire_json import compact_json


def can_show(block: Image | File, profile: Profile) -> bool:
    """Return whether the server can be shown an image or a file."""
    if isinstance(block, Image):
        return profile.images
    return block.data is not None and (profile.files or block.media_type.startswith("text/"))


def attachment_part(
    block: Image | File, profile: Profile, *, label: str, mark: Mark | None
) -> Part:
    """Return the part of an image or a file. Its bytes are what was given: nothing is re-encoded.

    Raises:
        RequestRefused: the server cannot be shown it.
    """
    if isinstance(block, Image):
        if not profile.images:
            raise RequestRefused(
                f"{label} takes no images, but the context has one ({block.media_type}); "
                "use a model that can see, or describe the image as text"
            )
        data = b'{"type":"image_url","image_url":{"url":%b}}' % compact_json(_url(block))
        return _part(data, BlockKind.IMAGE, block, mark)
    if block.data is None:
        raise RequestRefused(
            f"{label} reads files only by their bytes, not from the URL of {block.name!r}; "
            "use File.of_bytes"
        )
    if block.media_type.startswith("text/"):
        text = base64.b64decode(block.data).decode("utf-8", "replace")
        said = f"<file name={compact_json(block.name).decode()}>\n{text}\n</file>"
        data = b'{"type":"text","text":%b}' % compact_json(said)
        return Part(data=data, mark=mark, markable=True)
    if not profile.files:
        raise RequestRefused(
            f"{label} takes no files of type {block.media_type!r} ({block.name!r}); "
            "give its text instead"
        )
    data = b'{"type":"file","file":{"filename":%b,"file_data":%b}}' % (
        compact_json(block.name),
        compact_json(_url(block)),
    )
    return _part(data, BlockKind.DOCUMENT, block, mark)


def _part(data: bytes, kind: BlockKind, block: Image | File, mark: Mark | None) -> Part:
    return Part(data=data, kind=kind, n_tokens=attachment_tokens(block), mark=mark, markable=True)


def _url(block: Image | File) -> str:
    return block.url or f"data:{block.media_type};base64,{block.data}"
