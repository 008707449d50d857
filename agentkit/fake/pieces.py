"""From a piece of a JSON body to the block that a simulated cache knows it by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from agentkit.blocks import File, Image
from agentkit.caching.policy import BlockKind, Ttl
from agentkit.caching.request import Block, Mark
from agentkit.caching.tokens import attachment_tokens, data_tokens
from agentkit.fake.fields import JsonObject, Problem, object_of

MARK_FIELDS = ("cache_control", "prompt_cache_breakpoint")


def compact(value: object) -> bytes:
    """Return JSON without spaces, keys in the order that the client gave them."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "backslashreplace"
    )


def digest(value: object) -> bytes:
    """Return a name for a piece of JSON.

    The order of its own keys is no part of it; inside of its values it is, as in a tool's schema or
    the input of a call, which are rendered as they come.
    """
    if isinstance(value, Mapping):
        value = dict(sorted(value.items()))
    return hashlib.blake2b(compact(value), digest_size=16).digest()


def unmarked(piece: JsonObject) -> dict[str, Any]:
    """Return a piece without its cache mark."""
    return {name: value for name, value in piece.items() if name not in MARK_FIELDS}


def block_of(
    piece: JsonObject,
    kind: BlockKind,
    *,
    mark: Mark | None = None,
    named: object = None,
    n_tokens: int | None = None,
) -> Block:
    """Return the block of a piece.

    `named`: what tells it from others, where that is not the piece as it stands.
    """
    plain = unmarked(piece)
    attached: list[Image | File] = []
    rest = _without_attachments(plain, attached)
    return Block(
        kind=kind,
        digest=digest(plain if named is None else named),
        n_tokens=_tokens(rest, attached, kind) if n_tokens is None else n_tokens,
        mark=mark,
        shows_image=kind is not BlockKind.IMAGE
        and any(isinstance(each, Image) for each in attached),
    )


def _tokens(rest: object, attached: list[Image | File], kind: BlockKind) -> int:
    """About how many tokens: four bytes of JSON are one; images and files by their own count."""
    n_attached = sum(map(attachment_tokens, attached))
    if attached and kind in (BlockKind.IMAGE, BlockKind.DOCUMENT, BlockKind.AUDIO):
        return n_attached
    return data_tokens(compact(rest)) + n_attached


def mark_of(piece: JsonObject, path: str) -> Mark | None:
    """Return the mark of a piece: Anthropic's `cache_control` or OpenAI's breakpoint."""
    for name in MARK_FIELDS:
        value = piece.get(name)
        if value is None:
            continue
        mark = object_of(value, f"{path}.{name}")
        kind, wanted = ("type", "ephemeral") if name == "cache_control" else ("mode", "explicit")
        if mark.get(kind) != wanted:
            raise Problem(f"{path}.{name}.{kind}: Input should be {wanted!r}", param=path)
        return Mark(ttl_of(mark.get("ttl"), f"{path}.{name}.ttl"))
    return None


def ttl_of(value: object, path: str) -> Ttl | None:
    """Return a lifetime; None if it is left out."""
    if value is None:
        return None
    try:
        return Ttl(str(value))
    except ValueError:
        known = ", ".join(repr(ttl.value) for ttl in Ttl)
        raise Problem(f"{path}: Input should be one of {known}", param=path) from None


def _without_attachments(value: object, attached: list[Image | File]) -> object:
    """Return the value without images and files; these are put into `attached`."""
    if isinstance(value, Mapping):
        found = _attachment(value)
        if found is not None:
            attached.append(found)
            return None
        return {name: _without_attachments(item, attached) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_attachments(item, attached) for item in value]
    return value


def _attachment(value: JsonObject) -> Image | File | None:
    """Return the image or file that an object holds, in the words of any of the APIs."""
    kind, source = value.get("type"), value.get("source")
    if kind in ("image", "document") and isinstance(source, Mapping):  # Anthropic
        return _anthropic_source(str(kind), source)
    if kind in ("input_image", "image_url", "computer_screenshot"):  # OpenAI
        return Image(media_type="image/png", url="")
    if kind in ("input_file", "file") and ("file_data" in value or "file" in value):
        inner = value.get("file") if isinstance(value.get("file"), Mapping) else value
        data_url = str((inner or {}).get("file_data") or "")
        return _file("application/pdf", data_url.rpartition(",")[2])
    for name in ("inlineData", "inline_data", "fileData", "file_data"):  # Gemini
        media = value.get(name)
        if isinstance(media, Mapping):
            media_type = str(media.get("mimeType", media.get("mime_type", "")))
            return _of_media(media_type, media.get("data"))
    return None


def _anthropic_source(kind: str, source: JsonObject) -> Image | File | None:
    if source.get("type") == "base64":
        media_type = str(source.get("media_type", ""))
        if kind == "image":
            return Image(media_type=media_type, url="")
        return _file(media_type, str(source.get("data") or ""))
    if source.get("type") in ("url", "file"):
        if kind == "image":
            return Image(media_type="image/png", url="")
        return File(name="file", media_type="application/pdf", url="")
    return None  # a document of text counts as its JSON


def _of_media(media_type: str, data: object) -> Image | File:
    if media_type.startswith("image/"):
        return Image(media_type=media_type, url="")
    if data is None:
        return File(name="file", media_type=media_type, url="")
    return _file(media_type, str(data))


def _file(media_type: str, data: str) -> File:
    return File(name="file", media_type=media_type, data=data)
