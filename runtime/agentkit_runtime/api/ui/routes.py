"""The files of the dashboard."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

if TYPE_CHECKING:
    from agentkit_runtime.api.site import Site

PAGE = "/ui/"

_SCRIPTS = (
    "api.js",
    "charts.js",
    "details.js",
    "dialogs.js",
    "dom.js",
    "format.js",
    "header.js",
    "history.js",
    "layout.js",
    "lists.js",
    "login.js",
    "main.js",
    "memory.js",
    "panels.js",
    "requests.js",
    "theme.js",
    "tiles.js",
    "tree.js",
    "words.js",
)
_STYLES = ("base.css", "parts.css", "tree.css")

_FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
    **{name: (name, "text/javascript; charset=utf-8") for name in _SCRIPTS},
    **{name: (name, "text/css; charset=utf-8") for name in _STYLES},
}
"""What is served below `PAGE`, and as what. Nothing else is."""

UI_PATHS = frozenset({PAGE.rstrip("/"), *(f"{PAGE}{name}" for name in _FILES)})
"""Served without a key: a browser has none before the page asks for it."""

HEADERS = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Of every file. The page may run its own scripts and ask its own server, and nothing else: labels
come from tenants, and `trusted-types 'none'` (W3C Trusted Types) forbids turning text into HTML."""


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    headers: dict[str, str]
    etag: str

    def answer(self, request: Request) -> Response:
        """The file, or 304 for a browser that has it."""
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=self.headers)
        return Response(self.content, headers=self.headers)


def ui_routes(site: Site) -> APIRouter:
    """The page and its files, for `create_app(more=...)`; they need `open_paths` of `UI_PATHS`."""
    router = APIRouter(include_in_schema=False)
    static = files(__package__).joinpath("static")
    served = {
        name: _file(static.joinpath(file).read_bytes(), media_type)
        for name, (file, media_type) in _FILES.items()
    }

    async def page() -> Response:
        # Relative, so that it also holds behind a proxy that serves this server below a path.
        return RedirectResponse("ui/", headers=HEADERS)

    async def file(request: Request) -> Response:
        return served[request.scope["route"].path.removeprefix(PAGE)].answer(request)

    router.add_api_route(PAGE.rstrip("/"), page, methods=["GET"], response_model=None)
    for name in served:
        router.add_api_route(f"{PAGE}{name}", file, methods=["GET"], response_model=None)
    return router


def _file(content: bytes, media_type: str) -> _File:
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return _File(content, {**HEADERS, "Content-Type": media_type, "ETag": etag}, etag)
