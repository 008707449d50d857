"""A server with resources and prompts that a test can change, built on the SDK."""

from __future__ import annotations

import base64
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext

PNG = b"\x89PNG\r\n"


class Shelf:
    """The state of a server, and the server. Pages have two resources each."""

    def __init__(self) -> None:
        self.texts: dict[str, str | bytes] = {}
        self.broken: set[str] = set()
        """URIs whose reading fails."""
        self.n_reads = 0
        self.server: Server[Any] = Server(
            "shelf",
            on_list_resources=self._list,
            on_list_resource_templates=self._templates,
            on_read_resource=self._read,
            on_list_prompts=self._prompts,
            on_get_prompt=self._prompt,
        )

    async def _list(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        begin = int(params.cursor) if params is not None and params.cursor else 0
        uris = list(self.texts)
        page = [types.Resource(uri=uri, name=uri) for uri in uris[begin : begin + 2]]
        following = str(begin + 2) if begin + 2 < len(uris) else None
        return types.ListResourcesResult(resources=page, next_cursor=following)

    async def _templates(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(uri_template="doc://{name}", name="doc")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read(
        self, ctx: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        self.n_reads += 1
        uri = str(params.uri)
        if uri in self.broken or uri not in self.texts:
            raise MCPError(code=-32002, message="Resource not found")
        given = self.texts[uri]
        if isinstance(given, bytes):
            blob = base64.b64encode(given).decode()
            content = types.BlobResourceContents(uri=uri, blob=blob, mime_type="image/png")
            return types.ReadResourceResult(contents=[content])
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=given)])

    async def _prompts(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        argument = types.PromptArgument(name="place", required=True)
        prompts = [
            types.Prompt(name="visit", description="Plan a visit.", arguments=[argument]),
            types.Prompt(name="greet"),
        ]
        return types.ListPromptsResult(prompts=prompts)

    async def _prompt(
        self, ctx: ServerRequestContext[Any, Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        place = (params.arguments or {}).get("place", "nowhere")
        question = types.TextContent(type="text", text=f"What is there in {place}?")
        answer = types.TextContent(type="text", text="A museum.")
        picture = types.ImageContent(type="image", data="AAAA", mime_type="image/png")
        messages = [types.PromptMessage(role="user", content=question)]
        if params.name == "visit":
            messages.append(types.PromptMessage(role="assistant", content=answer))
            messages.append(types.PromptMessage(role="user", content=picture))
        return types.GetPromptResult(description="A visit.", messages=messages)
