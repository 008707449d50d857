"""What to set otherwise, after a server has answered with an HTTP status that lets nothing in."""

from __future__ import annotations

from urllib.parse import urlsplit

from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.mcp.server_checks import shown_url

_CREDENTIALS = {
    401: "set headers (Authorization) or auth of the McpServer to what the server wants",
    403: "what headers and auth of the McpServer say does not allow this",
    407: "the proxy wants a login; give the McpServer an http_client that has it",
}
_NOT_HERE = frozenset({404, 405})
_NOT_SO = frozenset({400, 406, 415, 501})
"""How servers answer who speaks to them in the way of another time."""


def what_to_set(server: McpServer, method: str, status: int) -> str:
    """Return what may help; empty where the server's own words are all there is."""
    if hint := _CREDENTIALS.get(status):
        return hint
    begins = "GET" if server.transport == "sse" else "POST"
    if method != begins or status not in _NOT_HERE | _NOT_SO:
        return ""
    url = server.url or ""
    check = f"check url {shown_url(url)!r} of the McpServer"
    if server.transport == "sse":
        return f"{check}, or leave out transport='sse', which is for servers of before 2025-03-26"
    if urlsplit(url).path.rstrip("/").endswith("/sse"):
        return f"{check}; an address like this is mostly an old server's: set transport='sse'"
    if status == 405:
        return f"{check}; for an old server set transport='sse'"
    return check if status in _NOT_HERE else ""


def of_an_old_server(server: McpServer) -> str:
    """What is said of one whose answer is the event stream of before 2025-03-26."""
    return (
        f"speaks in the way of before 2025-03-26 at {shown_url(server.url or '')!r}; set "
        "transport='sse' of the McpServer"
    )
