"""Pages of the web as text: which are text, in which encoding, and HTML as Markdown."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from agentkit_tools._errors import Refused
from agentkit_tools._fetching import Page
from agentkit_tools._text import is_binary
from agentkit_tools._worker import Worker, WorkerFailed

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = re.compile(
    r"text/.+|application/(.+\+)?(json|xml|yaml|toml)|application/(x-)?(ndjson|javascript|yaml|sh)"
    r"|image/svg\+xml"
)
_KIND = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}/[a-z0-9!#$&^_.+-]{1,60}")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
MAX_TEXT_CHARS = 6_000_000
_SNIFFED_BYTES = 4096
_ENCODINGS = re.compile(
    r"utf-?8|utf-?16([bl]e)?|utf-?32([bl]e)?|(us-?)?ascii|latin-?1|iso-?8859-?\d{1,2}"
    r"|windows-?\d{3,4}|cp\d{3,4}|koi8-[rut]|mac-?(roman|cyrillic)|macintosh|shift_?jis|sjis"
    r"|euc-?(jp|kr)|iso-?2022-?(jp|kr)|gb2312|gbk|gb18030|big5(-?hkscs)?|tis-?620",
    re.IGNORECASE,
)
"""Python has codecs that are no encodings of text, and slow ones."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def converter() -> Worker:
    """The child process that makes Markdown, with its usual limits."""
    return Worker(
        module="_markdown_worker",
        timeout_s=10,
        max_memory_bytes=1024 * 1024 * 1024,
        max_reply_bytes=64 * 1024 * 1024,
        with_packages=True,
        max_running=2,
    )


@dataclass(frozen=True)
class Text:
    """The text of a page.

    Attributes:
        kind: what kind of text it is.
        text: not longer than `MAX_TEXT_CHARS`.
        is_cut: the text was longer, or the page was.
    """

    kind: str
    text: str
    is_cut: bool


async def text_of(page: Page, markdown: Worker | None) -> Text:
    """A page as text; HTML as Markdown by the worker given, or raw without one.

    Raises:
        Refused: it is not text, or HTML that takes too much to convert.
    """
    kind = _kind(page)
    if not (_TEXT.fullmatch(kind) or kind in _HTML):
        raise Refused(f"{page.url} is {kind!r}, {len(page.body)} bytes, which is not text")
    text = _decoded(page, kind)
    if kind not in _HTML or markdown is None:
        return _cut(page, kind, text)
    try:
        reply = await markdown.run({"html": text, "url": page.url})
    except WorkerFailed as failed:
        raise Refused(
            f"{page.url} takes too much to convert to Markdown ({failed.reason}); "
            "fetch it with raw=true"
        ) from None
    return _cut(page, f"{kind}, as {reply['form']}", str(reply["text"]))


def _cut(page: Page, kind: str, text: str) -> Text:
    # Markdown has whole addresses, and can be many times longer than its page.
    return Text(kind, text[:MAX_TEXT_CHARS], page.is_cut or len(text) > MAX_TEXT_CHARS)


def _kind(page: Page) -> str:
    """The media type; where the server names none that is valid, what it looks like."""
    named = page.header("content-type").split(";")[0].strip().lower()
    if _KIND.fullmatch(named):
        return named
    start = page.body[:_SNIFFED_BYTES].lstrip().lower()
    if is_binary(page.body):
        return "application/octet-stream"
    return "text/html" if start.startswith((b"<!doctype html", b"<html")) else "text/plain"


def _decoded(page: Page, kind: str) -> str:
    for mark, encoding in _BOMS:
        if page.body.startswith(mark):
            return page.body.decode(encoding, "replace")
    named = _CHARSET.search(page.header("content-type"))
    name = named.group(1) if named else None
    if (
        name is None
        and kind in _HTML
        and (meta := _META_CHARSET.search(page.body[:_SNIFFED_BYTES]))
    ):
        name = meta.group(1).decode("ascii", "replace")
    if name is None or not _ENCODINGS.fullmatch(name):
        name = "utf-8"
    try:
        return page.body.decode(name, "replace")
    except LookupError:
        return page.body.decode("utf-8", "replace")
