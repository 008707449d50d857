"""What of a page its reader does not see, as far as the page's own elements and styles tell.

Style sheets and scripts are not looked at, and what fades in is kept. What is only hidden from
those who listen to a page (`aria-hidden`) is left out too, as it says nothing that is not said
elsewhere; but not where it holds the page's main part, which some pages hide while they start.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from agentkit_tools._colours import Colour, are_alike, colour, is_transparent

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
    "clip": re.compile(r"rect\(\s*([01](px)?[\s,]*){4}\)"),
    "clip-path": re.compile(r"inset\((50|100)%\)|circle\(0.*"),
    "text-indent": re.compile(r"-\d{3,}.*"),
    "transform": re.compile(r".*scale[xy]?\(\s*((0+(\.0*)?|\.0*)\s*)?[,)].*"),
}
_TINY = re.compile(r"[+-]?(0+(\.0*)?([a-z]+|%)?|0*1(\.0*)?px)")
_SIZES = ("width", "height", "max-width", "max-height")
_MAIN = ("main", "article", "h1")
_UNSEEN_CHARS = re.compile("[\U000e0000-\U000e007f\U000e0100-\U000e01ef]+")
"""Tags and supplementary selectors of Unicode, in which whole texts can be spelled."""
_FAR_AWAY = re.compile(r"-\d{3,}(\.\d+)?[a-z]*|-\d{2,}(\.\d+)?r?em")
_NO_SIZE = re.compile(r"[+-]?0+(\.0*)?([a-z]+|%)?|0*(1(\.0*)?|\.\d+)(px|pt)|0*\.0\d*r?em")


@dataclass(frozen=True, slots=True)
class _Look:
    """How texts of an element look, unless something in it says otherwise; None: not known."""

    has_no_size: bool = False
    text: Colour | None = None
    behind: Colour | None = None

    @property
    def is_unseen(self) -> bool:
        if self.has_no_size or self.text is None:
            return self.has_no_size
        return is_transparent(self.text) or bool(self.behind and are_alike(self.text, self.behind))


_PLAIN = _Look()
_PARTS = re.compile(r"[^\s()]+(?:\([^()]*\))?")
_NOTHING = frozenset({"none", "inherit", "initial", "unset", "revert", "0"})


def without_unseen_characters(text: str) -> str:
    """A text without the characters that no reader sees and that say something to a model."""
    return _UNSEEN_CHARS.sub("", text)


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
    _drop_unseen_texts(soup)


def _is_hidden(element: Any) -> bool:
    if element.has_attr("hidden") or element.has_attr("popover"):
        return True
    if element.name == "dialog" and not element.has_attr("open"):
        return True
    if str(element.get("aria-hidden", "")).strip().lower() == "true" and not element.find(_MAIN):
        return True
    style = styles(str(element.get("style", "")))
    if _cuts_all(style):
        return True
    if any(name in style and hides.fullmatch(style[name]) for name, hides in _HIDING.items()):
        return True
    is_placed = style.get("position") in ("absolute", "fixed")
    return is_placed and any(
        _FAR_AWAY.fullmatch(style.get(side, "")) for side in ("left", "top", "right", "bottom")
    )


def _cuts_all(style: dict[str, str]) -> bool:
    """Whether a box has no room for what is in it, and shows nothing that does not fit."""
    shown = {style.get(name, "") for name in ("overflow", "overflow-x", "overflow-y")}
    return bool(shown & {"hidden", "clip"}) and any(
        _TINY.fullmatch(style.get(name, "")) for name in _SIZES
    )


def _drop_unseen_texts(soup: Any) -> None:
    """Take out texts of size 0 or in the colour of what is behind them.

    Elements within may have a size or a colour of their own again.
    """
    from bs4.element import NavigableString, Tag

    looks: dict[int, _Look] = {}
    texts = []
    for node in soup.descendants:
        inherited = looks.get(id(node.parent), _PLAIN)
        if isinstance(node, Tag):
            look = _look(node, inherited)
            if look != _PLAIN:
                looks[id(node)] = look
        elif inherited.is_unseen and isinstance(node, NavigableString):
            texts.append(node)
    for text in texts:
        text.extract()


def _look(element: Any, inherited: _Look) -> _Look:
    style = styles(str(element.get("style", "")))
    look = inherited
    if size := style.get("font-size", ""):
        look = replace(look, has_no_size=bool(_NO_SIZE.fullmatch(size)))
    if behind := style.get("background-color") or style.get("background") or _named(element, "bg"):
        look = replace(look, behind=_behind(behind, look.behind))
    if text := style.get("-webkit-text-fill-color") or style.get("color") or _named(element, ""):
        look = replace(look, text=inherited.text if text == "inherit" else colour(text))
    if "text-shadow" in style or "text" in (
        style.get("background-clip"),
        style.get("-webkit-background-clip"),
    ):
        return replace(look, text=None)
    return look


def _behind(value: str, before: Colour | None) -> Colour | None:
    """What is seen behind a text; `before` is what would be without this value."""
    if "url(" in value or "gradient(" in value:
        return None
    parts = _PARTS.findall(value)
    known = next(filter(None, map(colour, parts)), None)
    if known is None:
        return before if parts and _NOTHING.issuperset(parts) else None
    return before if is_transparent(known) else known


def _named(element: Any, which: str) -> str:
    """A colour in an attribute as of old: `bgcolor`, `color`."""
    return str(element.get(f"{which}color", "")).strip().lower()


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
