"""What each request of a session carries besides its parameters.

The modern protocol has no handshake, so that each request says which version it speaks and who
asks; over HTTP some of it is in headers too, where gateways read it. Requests are sent raw (see
`McpLink.request`), so it is said here and not by the SDK's session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp import ClientSession

CLIENT = {"name": "agentkit", "version": "1"}
"""Who we say we are."""


class Stamp:
    """The envelope of one session's requests.

    Args:
        session: after the handshake.
        said: what requests of the modern protocol say of us, beside version and client.
        is_over_http: whether the server can see headers.
    """

    def __init__(
        self, session: ClientSession, said: Mapping[str, object], *, is_over_http: bool
    ) -> None:
        self._version = session.protocol_version or ""
        self.is_modern = session.discover_result is not None
        """Whether it speaks the modern protocol."""
        self._is_over_http = is_over_http
        self._meta = _meta(self._version, said) if self.is_modern else {}
        self._headers_of: dict[str, dict[tuple[str, ...], str]] = {}

    def params(self, params: Mapping[str, object]) -> dict[str, object]:
        """The parameters with what the protocol adds; what `params` says itself is kept."""
        given = params.get("_meta")
        meta = {**self._meta, **(given if isinstance(given, Mapping) else {})}
        return {**params, "_meta": meta} if meta else dict(params)

    def headers(self, method: str, params: Mapping[str, object]) -> dict[str, str]:
        """The HTTP headers of a request. Other transports ignore them."""
        from mcp.shared.inbound import (
            MCP_METHOD_HEADER,
            MCP_NAME_HEADER,
            MCP_PROTOCOL_VERSION_HEADER,
            NAME_BEARING_METHODS,
            encode_header_value,
            mcp_param_headers,
        )

        headers = {MCP_PROTOCOL_VERSION_HEADER: self._version}
        if not self.is_modern:
            return headers
        headers[MCP_METHOD_HEADER] = method
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        arguments = params.get("arguments")
        if method == "tools/call" and isinstance(name, str) and isinstance(arguments, Mapping):
            headers |= mcp_param_headers(self._headers_of.get(name, {}), arguments)
        return headers

    def learn(self, tools: object) -> None:
        """Remember which arguments of listed tools (in raw JSON) have to be repeated as headers."""
        from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map

        if not (self.is_modern and self._is_over_http):
            return
        for tool in tools if isinstance(tools, list) else ():
            match tool:
                case {"name": str(name), "inputSchema": Mapping() as schema}:
                    valid = find_invalid_x_mcp_header(schema) is None
                    self._headers_of[name] = x_mcp_header_map(schema) if valid else {}
                case _:
                    pass


def _meta(version: str, said: Mapping[str, object]) -> dict[str, object]:
    from mcp_types import CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

    return {PROTOCOL_VERSION_META_KEY: version, CLIENT_INFO_META_KEY: CLIENT, **said}
