"""What of a page its reader does not see, as far as the page's own elements and styles tell.

Style sheets and scripts are not looked at, nor are colours, and what fades in is kept.
"""

from __future__ import annotations

import re
from typing import Any

_DROPPED = (
    *("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "head"),
    *("title", "datalist", "noframes", "noembed", "audio", "video"),
)
_COMMENTS = re.compile(r"/\*.*?(\*/|\Z)", re.DOTALL)
_ESCAPES = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.IGNORECASE | re.DOTALL)
_HIDING = {
    "display": re.compile(r"none"),
    "visibility": re.compile(r"hidden|collapse"),
    "content-visibility": re.compile(r"hidden"),
    "clip": re.compile(r"rect\((\s*[01](px)?[\s,]*){4}\)"),
    "clip-path": re.compile(r"inset\((50|100)%\)|circle\(0.*"),
    "text-indent": re.compile(r"-\d{3,}.*"),
}
_FAR_AWAY = re.compile(r"-\d{3,}(\.\d+)?[a-z]*|-\d{2,}(\.\d+)?r?em")
_ZERO = re.compile(r"[+-]?0*(\.0*)?([a-z]+|%)?")


def drop_unseen(soup: Any) -> None:
    """Take it out of the parsed page."""
    from bs4.element import PreformattedString

    # Comments, and what browsers take for one: <?...>, <![CDATA[...]]>, <!...>.
    for text in soup.find_all(string=lambda text: isinstance(text, PreformattedString)):
        text.extract()
    for element in soup.find_all(_DROPPED):
        element.decompose()
    for element in soup.find_all(_is_hidden):
        element.decompose()
    _drop_without_size(soup)


def _is_hidden(element: Any) -> bool:
    if element.has_attr("hidden") or element.has_attr("popover"):
        return True
    if element.name == "dialog" and not element.has_attr("open"):
        return True
    style = styles(str(element.get("style", "")))
    if any(name in style and hides.fullmatch(style[name]) for name, hides in _HIDING.items()):
        return True
    is_placed = style.get("position") in ("absolute", "fixed")
    return is_placed and any(
        _FAR_AWAY.fullmatch(style.get(side, "")) for side in ("left", "top", "right", "bottom")
    )


def _drop_without_size(soup: Any) -> None:
    """Take out the texts of size 0; what stands inside may have a size of its own again."""
    from bs4.element import NavigableString, Tag

    without: set[int] = set()
    texts = []
    for node in soup.descendants:
        is_inside = id(node.parent) in without
        if isinstance(node, Tag):
            size = styles(str(node.get("style", ""))).get("font-size", "")
            if _has_no_size(size) if size else is_inside:
                without.add(id(node))
        elif is_inside and isinstance(node, NavigableString):
            texts.append(node)
    for text in texts:
        text.extract()


def _has_no_size(size: str) -> bool:
    return "0" in size and bool(_ZERO.fullmatch(size))


def styles(text: str) -> dict[str, str]:
    """The declarations of a `style`, in lower case, without comments and escapes."""
    if not text:
        return {}
    plain = _ESCAPES.sub(_unescaped, _COMMENTS.sub("", text)).lower()
    found: dict[str, str] = {}
    for declaration in plain.split(";"):
        name, _, value = declaration.partition(":")
        found[name.strip()] = value.replace("!important", "").strip()
    return found


def _unescaped(found: re.Match[str]) -> str:
    if not found.group(1):
        return found.group(2)
    code = int(found.group(1), 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
