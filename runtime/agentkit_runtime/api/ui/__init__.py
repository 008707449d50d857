"""The dashboard at `/ui`: a page that looks at the admin API, without anything from elsewhere.

routes.py   serves the page's files, with a strict content security policy
static/     index.html, style.css, and ES modules: main.js polls and hands what it gets to the parts
            of the page (tiles, charts, memory, tree, details, sessions, pins, requests)

The page holds no secrets and is served to everybody; what it shows comes from `/admin/v1`, which
asks for a key with the admin role where the server has keys.
"""

from agentkit_runtime.api.ui.routes import UI_PATHS, ui_routes

__all__ = ["UI_PATHS", "ui_routes"]
