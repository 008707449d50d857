"""The child process that makes Markdown of HTML (see `_worker`); a hostile page may end it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

from agentkit_tools import _limits
from agentkit_tools._unseen import drop_unseen, without_unseen_characters

_BLANK_LINES = re.compile(r"\n{3,}")


def main() -> None:
    """Serve the request on stdin."""
    _limits.serve(_answer)


def _answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(request["html"], "html.parser")
    title = _title(soup)
    drop_unseen(soup)
    _make_absolute(soup, request["url"])
    try:
        form, text = "Markdown", _markdown(soup)
    except RecursionError:
        form, text = "plain text, because it is nested too deeply", soup.get_text("\n")
    lines = (line.rstrip() for line in text.splitlines())
    body = _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()
    return {"form": form, "text": without_unseen_characters(f"{title}{body}")}


def _markdown(soup: Any) -> str:
    from markdownify import MarkdownConverter

    made = MarkdownConverter(heading_style="ATX", bullets="-", escape_misc=False).convert_soup(soup)
    return str(made)


def _title(soup: Any) -> str:
    found = soup.title.get_text() if soup.title else ""
    title = " ".join(found.split())[:300]
    return f"Title: {title}\n\n" if title else ""


def _make_absolute(soup: Any, url: str) -> None:
    for name, attribute in (("a", "href"), ("img", "src")):
        for element in soup.find_all(name, attrs={attribute: True}):
            given = str(element[attribute])
            if given.startswith("data:"):
                element[attribute] = "data:"
                continue
            try:
                element[attribute] = urljoin(url, given)
            except ValueError:
                del element[attribute]
